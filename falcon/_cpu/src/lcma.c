/* lcma.c - the driver: passes, threads, and the two stages of each pass.
 *
 * One parallel region per call.  In each pass threads take combine units, meet
 * at a barrier, take C tiles, and meet again.  Units and tiles are handed out
 * by a counter in ascending order, so that threads work on neighbouring panels
 * at the same time and a late thread costs no more than one tile; who computes
 * a tile doesn't change its result.
 */
#include "engine.h"
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

/* libgomp's pool does not survive fork(): a child that enters a parallel
 * region waits for ever.  The flag is set once, in the child. */
static atomic_int forked;
static void on_fork_child(void) {
    atomic_store(&forked, 1);
}
__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, on_fork_child);
}
int falcon_in_forked_child(void) {
    return atomic_load(&forked);
}

/* Counters are used in turn; the one used two phases ago is reset while no
 * thread can still look at it (phases are separated by barriers). */
enum { N_COUNTERS = 4 };

typedef struct {
    const falcon_kernel *kern;
    const falcon_scheme *scheme;
    const falcon_problem *prob; /* after transposition */
    const falcon_blocking *blk;
    falcon_blocking cut; /* mb, nb after transposition */
    fl_layout lay;
    char *ws;
    char *pack_to; /* falcon_pack_b: only pack B, to here */
    falcon_profile *profile;
    atomic_int nonfinite;
    fl_barrier barrier;
    atomic_ptrdiff_t counter[N_COUNTERS];
} fl_job;

static fl_operand operand(const fl_job *j, int is_a, const void *src, ptrdiff_t line_stride, ptrdiff_t k_stride,
                          ptrdiff_t lines, ptrdiff_t K) {
    const falcon_scheme *s = j->scheme;
    const int from_a = is_a != j->lay.transposed; /* which of the caller's matrices */
    const int blocks = from_a ? s->m : s->n;
    fl_operand o = {.src = src,
                    .line_stride = line_stride,
                    .k_stride = k_stride,
                    .lines = lines,
                    .K = K,
                    .block_lines = fl_div_up(lines, blocks),
                    .block_k = fl_div_up(K, s->k),
                    .n_line_blocks = blocks,
                    .n_k_blocks = s->k,
                    .k_major = !from_a,
                    .width = is_a ? j->kern->mr : j->kern->nr,
                    .mode = is_a ? j->lay.a_mode : j->lay.b_mode,
                    .pack = is_a ? j->kern->pack_a : j->kern->pack_b,
                    .program = s == &fl_classical_scheme ? NULL
                               : from_a                  ? &s->u
                                                         : &s->v};
    o.panels = fl_div_up(o.block_lines, o.width);
    return o;
}

/* Elements of packed B before pass (k0, n0); passes are stored K-major. */
static ptrdiff_t packed_b_offset(const falcon_kernel *kern, const falcon_scheme *s, ptrdiff_t K, ptrdiff_t N,
                                 const falcon_blocking *blk, ptrdiff_t k0, ptrdiff_t n0) {
    ptrdiff_t at = 0;
    for (ptrdiff_t k = 0; k <= k0 && k < K; k += blk->kb)
        for (ptrdiff_t n = 0; n < N; n += blk->nb) {
            if (k == k0 && n >= n0)
                return at;
            const ptrdiff_t bk = fl_div_up(FL_MIN(blk->kb, K - k), s->k);
            const ptrdiff_t panels = fl_div_up(fl_div_up(FL_MIN(blk->nb, N - n), s->n), kern->nr);
            at += fl_operand_elems(kern, s->R, panels, kern->nr, bk, FL_MIN(blk->kc, fl_up(bk, 16)));
        }
    return at;
}

static void make_pass(const fl_job *j, ptrdiff_t m0, ptrdiff_t n0, ptrdiff_t k0, fl_pass *p) {
    const falcon_problem *q = j->prob;
    const falcon_kernel *kern = j->kern;
    const ptrdiff_t elem = kern->elem;
    const ptrdiff_t M = FL_MIN(j->cut.mb, q->M - m0), N = FL_MIN(j->cut.nb, q->N - n0),
                    K = FL_MIN(j->cut.kb, q->K - k0);
    memset(p, 0, sizeof *p);
    p->kern = kern;
    p->scheme = j->scheme;
    p->transposed = j->lay.transposed;
    p->a = operand(j, 1, j->pack_to ? NULL : (const char *)q->a + (m0 * q->a_rs + k0 * q->a_cs) * elem, q->a_rs,
                   q->a_cs, M, K);
    p->b = operand(j, 0, q->packed_b ? NULL : (const char *)q->b + (n0 * q->b_cs + k0 * q->b_rs) * elem, q->b_cs,
                   q->b_rs, N, K);
    p->kc = FL_MIN(j->cut.kc, fl_up(p->a.block_k, 16));
    p->slices = fl_div_up(p->a.block_k, p->kc);
    p->last_kc = p->a.block_k - (p->slices - 1) * p->kc;
    p->a.packed = j->ws + j->lay.a;
    p->b.packed = j->ws + j->lay.b;
    char *whole_b = j->pack_to ? j->pack_to : (char *)q->packed_b;
    if (whole_b)
        p->b.packed = whole_b + packed_b_offset(kern, j->scheme, q->K, q->N, &j->cut, k0, n0) * elem;
    p->c = j->pack_to ? NULL : (char *)q->c + (m0 * q->c_rs + n0 * q->c_cs) * elem;
    p->c_rs = q->c_rs, p->c_cs = q->c_cs, p->M = M, p->N = N;
    p->m = p->a.n_line_blocks, p->n = p->b.n_line_blocks;
    p->block_m = p->a.block_lines, p->block_n = p->b.block_lines;
    p->a.group = fl_group(&p->a, p->slices, j->lay.threads);
    p->b.group = fl_group(&p->b, p->slices, j->lay.threads);
    p->b_rests = j->lay.b_rests;
    p->alpha = q->alpha, p->beta = k0 == 0 ? q->beta : 1.0;
    p->stream_pack = j->cut.stream_pack == 2;
    p->stream_c = j->cut.stream_c == 2 && j->cut.kb >= q->K;
    fl_partition(p->a.panels, p->b.panels, j->cut.mt, j->cut.nt, j->lay.threads, p->b.mode == FALCON_DIRECT, &p->X,
                 &p->Z);
}

/* Combine units of A and B together: [0, ua) is A, [ua, ua + ub) is B. */
static void combine_phase(fl_job *j, const fl_pass *p, int team, ptrdiff_t ua, ptrdiff_t ub, atomic_ptrdiff_t *next,
                          const fl_buffers *buf, falcon_profile *prof) {
    /* several neighbouring units at a time: they read on where the last one ended */
    const ptrdiff_t grab = FL_MAX(1, FL_MIN(8, (ua + ub) / (8 * team)));
    for (;;) {
        const ptrdiff_t first = atomic_fetch_add(next, grab);
        for (ptrdiff_t u = first; u < FL_MIN(first + grab, ua + ub); u++) {
            const double t0 = j->profile ? fl_now() : 0;
            if (u < ua)
                fl_combine_unit(p, &p->a, u, buf->scratch);
            else
                fl_combine_unit(p, &p->b, u - ua, buf->scratch);
            if (j->profile)
                *(u < ua ? &prof->combine_a : &prof->combine_b) += fl_now() - t0;
        }
        if (first + grab >= ua + ub)
            break;
    }
    j->kern->fence();
}

/* Tiles in columns: threads share the B panels and then move on together. */
static fl_rect nth_tile(const fl_pass *p, ptrdiff_t t) {
    const ptrdiff_t x = t % p->X, z = t / p->X;
    return (fl_rect){x * p->a.panels / p->X, (x + 1) * p->a.panels / p->X, z * p->b.panels / p->Z,
                     (z + 1) * p->b.panels / p->Z};
}

static void gemm_phase(fl_job *j, const fl_pass *p, int team, atomic_ptrdiff_t *next, const fl_buffers *buf,
                       falcon_profile *prof) {
    const ptrdiff_t tiles = p->X * p->Z;
    for (;;) {
        const ptrdiff_t t = atomic_fetch_add(next, 1);
        if (t >= tiles)
            break;
        const fl_rect following = nth_tile(p, FL_MIN(t + team, tiles - 1));
        const double t0 = j->profile ? fl_now() : 0;
        double update = 0;
        fl_tile(p, buf, nth_tile(p, t), t + team < tiles ? &following : NULL, j->profile ? &update : NULL);
        if (j->profile) {
            prof->update += update;
            prof->gemm += fl_now() - t0 - update;
            prof->tiles++;
        }
    }
    j->kern->fence();
}

void fl_meet(fl_barrier *b, int team) {
    const int round = atomic_load(&b->round);
    if (atomic_fetch_add(&b->arrived, 1) + 1 == team) {
        atomic_store(&b->arrived, 0);
        atomic_fetch_add(&b->round, 1);
        return;
    }
    for (int spins = 0; atomic_load(&b->round) == round; spins += spins < 2000)
        if (spins >= 2000) /* some microseconds */
            sched_yield();
}

static void meet(fl_job *j, int team, falcon_profile *prof) {
    if (team < 2)
        return;
    const double t0 = j->profile ? fl_now() : 0;
    fl_meet(&j->barrier, team);
    if (j->profile)
        prof->wait += fl_now() - t0;
}

static void worker(fl_job *j, int tid, int team) {
    const falcon_problem *q = j->prob;
    char *mine = j->ws + j->lay.thread0 + (size_t)tid * j->lay.per_thread;
    char watch[FALCON_WATCH] __attribute__((aligned(64))) = {0};
    const fl_buffers buf = {mine + j->lay.h,
                            mine + j->lay.ct,
                            mine + j->lay.sums,
                            mine + j->lay.scratch,
                            mine + j->lay.local_a,
                            mine + j->lay.local_b,
                            watch};
    falcon_profile prof;
    memset(&prof, 0, sizeof prof);
    int phase = 0;
    for (ptrdiff_t k0 = 0; k0 < q->K; k0 += j->cut.kb)
        for (ptrdiff_t n0 = 0; n0 < q->N; n0 += j->cut.nb)
            for (ptrdiff_t m0 = 0; m0 < q->M; m0 += j->cut.mb) {
                fl_pass p;
                make_pass(j, m0, n0, k0, &p);
                /* A's panels survive from one N pass to the next if there is but one M pass */
                const ptrdiff_t ua = n0 == 0 || j->cut.mb < q->M ? fl_combine_units(&p, &p.a) : 0;
                const ptrdiff_t ub = m0 == 0 ? fl_combine_units(&p, &p.b) : 0;
                prof.passes++;
                for (int stage = 0; stage < 2; stage++, phase++) {
                    if (tid == 0)
                        atomic_store(&j->counter[(phase + 2) % N_COUNTERS], 0);
                    if (stage == 0 && ua + ub)
                        combine_phase(j, &p, team, ua, ub, &j->counter[phase % N_COUNTERS], &buf, &prof);
                    if (stage == 1 && !j->pack_to)
                        gemm_phase(j, &p, team, &j->counter[phase % N_COUNTERS], &buf, &prof);
                    meet(j, team, &prof);
                }
            }
    if (fl_watch_tripped(j->kern, watch))
        atomic_store(&j->nonfinite, 1);
    if (j->profile) {
#pragma omp critical(falcon_profile)
        {
            j->profile->combine_a += prof.combine_a;
            j->profile->combine_b += prof.combine_b;
            j->profile->gemm += prof.gemm;
            j->profile->update += prof.update;
            j->profile->wait += prof.wait;
            j->profile->tiles += prof.tiles;
            j->profile->passes = prof.passes;
        }
    }
}

static void run(fl_job *j) {
    if (j->lay.threads == 1) {
        worker(j, 0, 1);
        return;
    }
#pragma omp parallel num_threads(j->lay.threads)
    worker(j, omp_get_thread_num(), omp_get_num_threads());
}

static int bad_blocking(const falcon_blocking *b) {
    return b->mb <= 0 || b->nb <= 0 || b->kb <= 0 || b->kc <= 0 || b->kc % 16 || b->mt <= 0 || b->nt <= 0;
}

int falcon_gemm(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob, int threads,
                const falcon_blocking *blk, void *workspace, size_t workspace_bytes, falcon_profile *profile,
                int *nonfinite) {
    if (nonfinite)
        *nonfinite = 0;
    if (prob->M <= 0 || prob->N <= 0)
        return FALCON_OK;
    if (prob->K <= 0 || prob->alpha == 0) {
        falcon_scale_c(kern, prob);
        return FALCON_OK;
    }
    if (bad_blocking(blk))
        return FALCON_BAD_ARGUMENT;
    if (fl_is_gemv(scheme, prob)) {
        const double start = fl_now();
        const int bad = fl_gemv(kern, prob, threads);
        if (nonfinite)
            *nonfinite = bad;
        if (profile)
            *profile = (falcon_profile){.total = fl_now() - start, .threads = threads, .passes = 1};
        return FALCON_OK;
    }
    fl_job j = {.kern = kern, .scheme = FL_SCHEME(scheme), .cut = *blk, .ws = workspace, .profile = profile};
    fl_layout_make(kern, j.scheme, prob, threads, blk, &j.lay);
    if (workspace_bytes < j.lay.total || (uintptr_t)workspace % 64)
        return FALCON_WORKSPACE;
    const falcon_problem t = j.lay.transposed ? fl_transposed_problem(prob) : *prob;
    j.prob = &t;
    if (j.lay.transposed)
        j.cut.mb = blk->nb, j.cut.nb = blk->mb;
    const double t0 = profile ? fl_now() : 0;
    if (profile)
        memset(profile, 0, sizeof *profile);
    run(&j);
    if (nonfinite)
        *nonfinite = atomic_load(&j.nonfinite);
    if (profile) {
        profile->total = fl_now() - t0;
        profile->threads = j.lay.threads;
        profile->transposed = j.lay.transposed;
        profile->b_rests = j.lay.b_rests;
    }
    return FALCON_OK;
}

size_t falcon_packed_b_size(const falcon_kernel *kern, const falcon_scheme *scheme, ptrdiff_t K, ptrdiff_t N,
                            const falcon_blocking *blk) {
    return (size_t)packed_b_offset(kern, FL_SCHEME(scheme), K, N, blk, K, 0) * (size_t)kern->elem;
}

size_t falcon_pack_b_workspace(const falcon_kernel *kern, const falcon_scheme *scheme, int threads) {
    return (size_t)fl_up((ptrdiff_t)fl_scratch_bytes(kern, FL_SCHEME(scheme)), 64) * (size_t)FL_MAX(threads, 1);
}

int falcon_pack_b(const falcon_kernel *kern, const falcon_scheme *scheme, ptrdiff_t K, ptrdiff_t N, const void *b,
                  ptrdiff_t b_rs, ptrdiff_t b_cs, int threads, const falcon_blocking *blk, void *packed,
                  void *workspace, size_t workspace_bytes) {
    if (K <= 0 || N <= 0)
        return FALCON_OK;
    if (bad_blocking(blk))
        return FALCON_BAD_ARGUMENT;
    const falcon_problem q = {.M = 1, .N = N, .K = K, .b = b, .b_rs = b_rs, .b_cs = b_cs, .c_cs = 1};
    fl_job j = {.kern = kern, .scheme = FL_SCHEME(scheme), .prob = &q, .cut = *blk, .ws = workspace, .pack_to = packed};
    j.lay.threads = threads < 1 || falcon_in_forked_child() ? 1 : threads;
    j.lay.a_mode = j.lay.b_mode = FALCON_PACKED;
    j.lay.per_thread = (size_t)fl_up((ptrdiff_t)fl_scratch_bytes(kern, j.scheme), 64);
    j.cut.mb = 1;
    if (workspace_bytes < j.lay.per_thread * (size_t)j.lay.threads || (uintptr_t)workspace % 64 ||
        (uintptr_t)packed % 64)
        return FALCON_WORKSPACE;
    run(&j);
    return FALCON_OK;
}
