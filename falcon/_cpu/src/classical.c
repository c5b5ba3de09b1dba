/* classical.c - small problems, C = beta*C, and the soundness check of schemes.
 *
 * Larger classical problems run through falcon_gemm with scheme NULL.  Below
 * some hundred thousand multiply-adds nothing of that pays: here one thread
 * runs the tile loop on stack buffers, packs A panel by panel and reads B in
 * place.
 */
#include "engine.h"
#include <omp.h>
#include <string.h>

/* 100^3: about 20 microseconds of work on one core, below which waking a second
 * thread or filling in a blocking shows. */
static const double small_macs = 1e6;
/* Matrix times vector: multiply-adds that pay for a further thread. */
static const double gemv_macs = 2.5e5;
enum { SMALL_STACK = 96 << 10 };

int falcon_is_small(const falcon_kernel *kern, const falcon_problem *p) {
    (void)kern;
    if (fl_is_gemv(NULL, p)) /* bound by memory: threads pay earlier */
        return (double)p->M * (double)p->N * (double)p->K <= 2 * gemv_macs;
    return !p->packed_b && (double)p->M * (double)p->N * (double)p->K <= small_macs;
}

void falcon_scale_c(const falcon_kernel *kern, const falcon_problem *p) {
    for (ptrdiff_t i = 0; i < p->M; i++)
        for (ptrdiff_t j = 0; j < p->N; j++) {
            char *c = (char *)p->c + (i * p->c_rs + j * p->c_cs) * kern->elem;
            if (p->beta == 0)
                memset(c, 0, (size_t)kern->elem);
            else if (kern->dtype == FALCON_F32)
                *(float *)c *= (float)p->beta;
            else
                *(double *)c *= p->beta;
        }
}

void falcon_gemm_small(const falcon_kernel *kern, const falcon_problem *prob, int *nonfinite) {
    char watch[FALCON_WATCH] __attribute__((aligned(64))) = {0};
    if (nonfinite)
        *nonfinite = 0;
    char stack[SMALL_STACK] __attribute__((aligned(64)));
    if (prob->M <= 0 || prob->N <= 0)
        return;
    if (prob->K <= 0 || prob->alpha == 0) {
        falcon_scale_c(kern, prob);
        return;
    }
    if (fl_is_gemv(NULL, prob)) {
        const int bad = fl_gemv(kern, prob, 1);
        if (nonfinite)
            *nonfinite = bad;
        return;
    }
    const falcon_problem q = fl_wants_transpose(prob) ? fl_transposed_problem(prob) : *prob;
    fl_pass p = {.kern = kern,
                 .scheme = &fl_classical_scheme,
                 .c = q.c,
                 .c_rs = q.c_rs,
                 .c_cs = q.c_cs,
                 .M = q.M,
                 .N = q.N,
                 .block_m = q.M,
                 .block_n = q.N,
                 .m = 1,
                 .n = 1,
                 .alpha = q.alpha,
                 .beta = q.beta};
    p.kc = 256; /* panels of at most 14 x 256 and 32 x 256 f32, 48 KiB together */
    p.slices = fl_div_up(q.K, p.kc);
    p.kc = FL_MIN(p.kc, fl_up(fl_div_up(q.K, p.slices), 16));
    p.slices = fl_div_up(q.K, p.kc);
    p.last_kc = q.K - (p.slices - 1) * p.kc;
    p.a = (fl_operand){.src = q.a,
                       .line_stride = q.a_rs,
                       .k_stride = q.a_cs,
                       .lines = q.M,
                       .K = q.K,
                       .width = kern->mr,
                       .panels = fl_div_up(q.M, kern->mr),
                       .mode = FALCON_LOCAL,
                       .pack = kern->pack_a};
    p.b = (fl_operand){.src = q.b,
                       .line_stride = q.b_cs,
                       .k_stride = q.b_rs,
                       .lines = q.N,
                       .K = q.K,
                       .width = kern->nr,
                       .panels = fl_div_up(q.N, kern->nr),
                       .mode = q.b_cs == 1 ? FALCON_DIRECT : FALCON_LOCAL,
                       .pack = kern->pack_b};
    const ptrdiff_t elem = kern->elem, micro = (ptrdiff_t)kern->mr * kern->nr * elem;
    const ptrdiff_t panel_a = fl_panel_stride(kern, kern->mr, p.kc) * elem;
    const ptrdiff_t panel_b = fl_panel_stride(kern, kern->nr, p.kc) * elem;
    const ptrdiff_t pa = p.a.panels, pb = p.b.panels;
    /* H needs room only between slices; B packed here (not unit columns) takes
     * one panel at a time */
    const ptrdiff_t room = (SMALL_STACK - panel_b - panel_a) / micro;
    const ptrdiff_t mt = p.slices == 1 ? pa : FL_MIN(pa, room);
    const ptrdiff_t nt = p.b.mode == FALCON_LOCAL ? 1 : p.slices == 1 ? pb : FL_MAX(1, FL_MIN(pb, room / mt));
    fl_buffers buf = {.h = stack, .watch = watch};
    buf.local_a = buf.h + (p.slices > 1 ? mt * nt : 1) * micro;
    buf.local_b = buf.local_a + panel_a;
    for (ptrdiff_t z = 0; z < pb; z += nt)
        for (ptrdiff_t x = 0; x < pa; x += mt)
            fl_tile(&p, &buf, (fl_rect){x, FL_MIN(pa, x + mt), z, FL_MIN(pb, z + nt)}, NULL, NULL);
    if (nonfinite)
        *nonfinite = fl_watch_tripped(kern, watch);
}

int fl_is_gemv(const falcon_scheme *scheme, const falcon_problem *prob) {
    return !scheme && !prob->packed_b && (prob->M == 1 || prob->N == 1);
}

enum { GEMV_LINES = 2048, GEMV_CHUNK = 8192, GEMV_STRIP = 256 };

/* Lines i0 .. i1 of y = alpha * mat * x + beta * y, at most GEMV_LINES; i0 is a multiple of 64.  mat(i, k) is at
 * i*is + k*ks.  Sums run over fixed chunks of K, so they don't depend on i0 and i1. */
static void gemv_lines(const falcon_kernel *kern, const falcon_problem *p, ptrdiff_t i0, ptrdiff_t i1, char *watch) {
    char y[(GEMV_LINES + 64) * 8] __attribute__((aligned(64)));
    /* a copy of x where it is strided; before it, a panel of mat (at most 256 bytes a step) where that is, too */
    char room[GEMV_STRIP * 256 + GEMV_STRIP * 8] __attribute__((aligned(64)));
    _Static_assert(GEMV_CHUNK * 8 <= sizeof room, "x of one chunk");
    const ptrdiff_t elem = kern->elem, lines = i1 - i0, K = p->K, nr = kern->nr;
    const int by_rows = p->N == 1; /* else y is a row, and mat is B transposed */
    const ptrdiff_t is = by_rows ? p->a_rs : p->b_cs, ks = by_rows ? p->a_cs : p->b_rs;
    const ptrdiff_t xs = by_rows ? p->b_rs : p->a_cs, cs = by_rows ? p->c_rs : p->c_cs;
    const char *x = by_rows ? p->b : p->a, *mat = (const char *)(by_rows ? p->a : p->b) + i0 * is * elem;
    const int axpy = is == 1 && (ks != 1 || K == 1), dot = !axpy && ks == 1;
    const ptrdiff_t step = axpy || dot ? GEMV_CHUNK : GEMV_STRIP;
    char *strip = room, *part = axpy || dot ? room : room + GEMV_STRIP * 256;
    memset(y, 0, (size_t)(fl_up(lines, nr) * elem));
    for (ptrdiff_t k = 0; k < K; k += step) {
        const ptrdiff_t len = FL_MIN(step, K - k);
        const char *from = x + k * xs * elem, *at = mat + k * ks * elem;
        if (xs != 1) {
            for (ptrdiff_t q = 0; q < len; q++)
                memcpy(part + q * elem, from + q * xs * elem, (size_t)elem);
            from = part;
        }
        if (axpy)
            kern->axpy(lines, len, at, ks, from, y);
        else if (dot)
            kern->dot(lines, len, at, is, from, y);
        else
            for (ptrdiff_t i = 0; i < lines; i += nr) {
                kern->pack_b(at + i * is * elem, is, ks, FL_MIN(nr, lines - i), len, strip, len);
                kern->axpy(nr, len, strip, nr, from, y + i * elem);
            }
    }
    char *c = (char *)p->c + i0 * cs * elem;
    for (ptrdiff_t i = 0; i < lines; i += nr)
        kern->write(NULL, y + i * elem, 1.0, p->alpha, p->beta, c + i * cs * elem, 0, cs, 1, FL_MIN(nr, lines - i), 0,
                    watch);
}

typedef struct {
    const falcon_kernel *kern;
    const falcon_problem *prob;
    ptrdiff_t lines, block;
    atomic_ptrdiff_t next;
    atomic_int bad;
    fl_barrier barrier;
} fl_gemv_job;

static void gemv_worker(fl_gemv_job *j, int team) {
    char watch[FALCON_WATCH] __attribute__((aligned(64))) = {0};
    ptrdiff_t i;
    while ((i = atomic_fetch_add(&j->next, j->block)) < j->lines)
        gemv_lines(j->kern, j->prob, i, FL_MIN(j->lines, i + j->block), watch);
    if (fl_watch_tripped(j->kern, watch))
        atomic_store(&j->bad, 1);
    if (team > 1)
        fl_meet(&j->barrier, team);
}

int fl_gemv(const falcon_kernel *kern, const falcon_problem *prob, int threads) {
    const ptrdiff_t lines = prob->N == 1 ? prob->M : prob->N;
    const double worth = (double)lines * (double)prob->K / gemv_macs;
    const int team = falcon_in_forked_child() || worth < 2 ? 1 : worth < threads ? (int)worth : FL_MAX(1, threads);
    fl_gemv_job j = {.kern = kern, .prob = prob, .lines = lines};
    j.block = FL_MIN(GEMV_LINES, fl_up(fl_div_up(lines, team), 64));
    if (team == 1) { /* no region: it would wait for ever in a forked child */
        gemv_worker(&j, 1);
    } else {
#pragma omp parallel num_threads(team)
        gemv_worker(&j, omp_get_num_threads());
    }
    return atomic_load(&j.bad);
}

static const char *check_program(const falcon_program *p, int n_in, int n_out) {
    if (p->n_in != n_in || p->n_out != n_out || p->n_temp < 0 || p->n_ops < 0 || !p->ops)
        return "a program's numbers of inputs and outputs must be the scheme's";
    const int regs = p->n_in + p->n_temp;
    ptrdiff_t stores = 0;
    for (int i = 0; i < p->n_ops; i++) {
        const falcon_op *o = p->ops + i;
        const int two = o->op == FALCON_OP_ADD || o->op == FALCON_OP_SUB || o->op == FALCON_OP_AXPY;
        if (o->op < 0 || o->op >= FALCON_N_OPCODE)
            return "unknown operation code";
        if (o->a < FALCON_ACC || o->a >= regs || (two && (o->b < FALCON_ACC || o->b >= regs)))
            return "a program reads a register that does not exist";
        if (o->op == FALCON_OP_STORE) {
            stores++;
            if (o->dst < 0 || o->dst >= n_out)
                return "a program stores to an output that does not exist";
            for (int e = 0; e < i; e++)
                if (p->ops[e].op == FALCON_OP_STORE && p->ops[e].dst == o->dst)
                    return "a program stores an output twice";
        } else if (o->dst != FALCON_ACC && (o->dst < n_in || o->dst >= regs))
            return "a program writes to a register that is not a temporary";
    }
    return stores == n_out ? NULL : "a program does not store every output";
}

enum { BEGUN = 1, COMPLETE = 2 };

/* state[slot]: BEGUN, COMPLETE (a block of C), -1 - r (a sum that product r completed) or 0. */
static const char *check_step(const falcon_scheme *s, int r, const falcon_step *w, int32_t *state) {
    const int blocks = s->m * s->n;
    if (w->slot < 0 || w->slot >= s->n_slots)
        return "a step names a slot that does not exist";
    if (w->source != FALCON_PRODUCT && (w->source < blocks || w->source >= s->n_slots || state[w->source] != -1 - r))
        return "a step reads a sum that its product has not completed";
    if (state[w->slot] == COMPLETE)
        return "a step adds to a block of C that is complete";
    if (!(w->flags & FALCON_FIRST) != (state[w->slot] == BEGUN))
        return "a slot must be begun, once, before it is added to";
    state[w->slot] = !(w->flags & FALCON_LAST) ? BEGUN : w->slot < blocks ? COMPLETE : -1 - r;
    return NULL;
}

static const char *check_steps(const falcon_scheme *s, int32_t *state) {
    if (s->n_slots < s->m * s->n)
        return "there must be a slot for every block of C";
    memset(state, 0, (size_t)s->n_slots * sizeof *state);
    if (s->w_start[0] != 0)
        return "w_start must begin with 0";
    for (int r = 0; r < s->R; r++) {
        if (s->w_start[r + 1] < s->w_start[r])
            return "w_start must not decrease";
        for (int e = s->w_start[r]; e < s->w_start[r + 1]; e++) {
            const char *why = check_step(s, r, s->w + e, state);
            if (why)
                return why;
        }
    }
    for (int c = 0; c < s->m * s->n; c++)
        if (state[c] != COMPLETE)
            return "a block of C is not completed";
    return NULL;
}

const char *falcon_scheme_check(const falcon_scheme *s, int32_t *scratch) {
    if (s->m < 1 || s->k < 1 || s->n < 1 || s->R < 1)
        return "m, k, n and R must be positive";
    const char *why = check_steps(s, scratch);
    why = why ? why : check_program(&s->u, s->m * s->k, s->R);
    return why ? why : check_program(&s->v, s->k * s->n, s->R);
}
