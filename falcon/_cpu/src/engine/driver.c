/* driver.c - passes and the two stages of each: what falcon_gemm and falcon_pack_b do.
 *
 * In each pass threads claim combine units, then C tiles, in ascending order, so that they work on neighbouring panels
 * at the same time and a late thread costs no more than one tile; which thread computes a tile does not change its
 * result.
 */
#include "engine.h"
#include "team.h"
#include <float.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { COMBINE, GEMM };

typedef struct {
    const falcon_kernel *kern;
    const falcon_scheme *scheme;
    const falcon_problem *prob; /* after transposition */
    falcon_blocking cut;        /* after transposition */
    fl_layout lay;
    char *ws;
    char *pack_to;           /* falcon_pack_b: only pack B, to here */
    falcon_profile *profile; /* NULL: not wanted */
    pthread_mutex_t profiling;
    double began;
    atomic_int nonfinite;
    /* The open stage: written by open_stage() alone, while no thread works. */
    ptrdiff_t m0, n0, k0; /* where its pass begins; k0 < 0 before the first */
    fl_pass pass;
    int stage, rejected; /* whether operands are not plain */
    int narrow_scales;   /* see falcon_unscale_fn */
    ptrdiff_t units_a;   /* COMBINE: units of A, before those of B */
} fl_job;

/* The first segment of K of the pass at k0: those before are equally long. */
static ptrdiff_t segment0(const fl_job *j) {
    const ptrdiff_t block = fl_div_up(FL_MIN(j->cut.kb, j->prob->K), j->scheme->k);
    const ptrdiff_t kc = fl_slice(j->kern, j->cut.kc, block);
    return j->k0 / j->cut.kb * j->scheme->k * fl_div_up(block, kc * fl_segment_slices(kc));
}

static fl_operand operand(const fl_job *j, int is_a, const void *src, ptrdiff_t line_stride, ptrdiff_t k_stride,
                          ptrdiff_t line0, ptrdiff_t lines, ptrdiff_t K) {
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
                    .parts = s->parts,
                    .conj = is_a ? j->prob->a_conj : j->prob->b_conj,
                    .elem = (ptrdiff_t)s->parts * j->kern->elem,
                    .mode = is_a ? j->lay.a_mode : j->lay.b_mode,
                    .pack = is_a ? j->kern->pack_a : j->kern->pack_b,
                    .load = is_a ? j->kern->load_a : j->kern->load_b,
                    .load_parts = is_a ? j->kern->load_parts_a : j->kern->load_parts_b,
                    .interpret = is_a ? j->kern->interpret_a : j->kern->interpret_b,
                    .times_units = is_a ? j->kern->units_a : j->kern->units_b,
                    .level = is_a ? j->kern->level_a : j->kern->level_b,
                    .add_up = is_a ? j->kern->sums_a : j->kern->sums_b,
                    .program = s == &fl_classical_scheme ? NULL
                               : from_a                  ? &s->u
                                                         : &s->v};
    o.panels = fl_div_up(o.block_lines, o.width);
    const char *units = is_a ? j->prob->a_units : j->prob->b_units;
    o.units = o.program && units ? units + j->k0 * j->kern->acc : NULL;
    const double *scale = is_a ? j->prob->a_scale : j->prob->b_scale;
    o.scale = o.program && scale ? scale + line0 : NULL;
    const char *means = is_a ? j->prob->a_means : j->prob->b_means;
    o.means_step = is_a ? j->prob->a_means_step : j->prob->b_means_step;
    o.means_lines = is_a ? j->prob->M : j->prob->N;
    o.weights = is_a || !j->prob->weights ? NULL : (const char *)j->prob->weights + j->k0 * j->kern->acc;
    o.means = o.program && means ? means + (segment0(j) * o.means_step + line0) * j->kern->acc : NULL;
    o.code = o.program && o.program->code && j->kern->codes ? j->kern->codes[o.program->code - 1] : NULL;
    const int is_panel =
        j->kern->rows_in_place > 0 && o.parts == 1; /* of the same type, too: not of int64 by float64 */
    o.by_rows = o.code && is_panel && o.line_stride == 1 && o.width * j->kern->panel % FL_LINE == 0 && !o.units &&
                !o.scale && !o.means;
    return o;
}

/* Bytes of packed B before pass (k0, n0); passes are stored K-major. */
static ptrdiff_t packed_b_offset(const falcon_kernel *kern, const falcon_scheme *s, ptrdiff_t K, ptrdiff_t N,
                                 const falcon_blocking *blk, ptrdiff_t k0, ptrdiff_t n0) {
    ptrdiff_t at = 0;
    for (ptrdiff_t k = 0; k <= k0 && k < K; k += blk->kb)
        for (ptrdiff_t n = 0; n < N; n += blk->nb) {
            if (k == k0 && n >= n0)
                return at;
            const ptrdiff_t bk = fl_div_up(FL_MIN(blk->kb, K - k), s->k);
            const ptrdiff_t panels = fl_div_up(fl_div_up(FL_MIN(blk->nb, N - n), s->n), kern->nr);
            at += fl_operand_bytes(kern, s->R, panels, kern->nr, bk, fl_slice(kern, blk->kc, bk));
        }
    return at;
}

static void make_pass(fl_job *j) {
    const ptrdiff_t m0 = j->m0, n0 = j->n0, k0 = j->k0;
    fl_pass *p = &j->pass;
    const falcon_problem *q = j->prob;
    const falcon_kernel *kern = j->kern;
    const ptrdiff_t elem = (ptrdiff_t)j->scheme->parts * kern->elem;
    const ptrdiff_t M = FL_MIN(j->cut.mb, q->M - m0), N = FL_MIN(j->cut.nb, q->N - n0),
                    K = FL_MIN(j->cut.kb, q->K - k0);
    memset(p, 0, sizeof *p);
    p->kern = kern;
    p->scheme = j->scheme;
    p->transposed = j->lay.transposed;
    p->a = operand(j, 1, j->pack_to ? NULL : (const char *)q->a + (m0 * q->a_rs + k0 * q->a_cs) * elem, q->a_rs,
                   q->a_cs, m0, M, K);
    p->b = operand(j, 0, q->packed_b ? NULL : (const char *)q->b + (n0 * q->b_cs + k0 * q->b_rs) * elem, q->b_cs,
                   q->b_rs, n0, N, K);
    p->kc = fl_slice(kern, j->cut.kc, p->a.block_k);
    p->slices = fl_div_up(p->a.block_k, p->kc);
    p->last_kc = p->a.block_k - (p->slices - 1) * p->kc;
    p->a.packed = j->ws + j->lay.a;
    p->b.packed = j->ws + j->lay.b;
    char *whole_b = j->pack_to ? j->pack_to : (char *)q->packed_b;
    if (whole_b)
        p->b.packed = whole_b + packed_b_offset(kern, j->scheme, q->K, q->N, &j->cut, k0, n0);
    p->c_elem = fl_c_elem(kern, q) * j->scheme->parts, p->write = kern->write[q->c_form];
    p->c = j->pack_to ? NULL : (char *)q->c + (m0 * q->c_rs + n0 * q->c_cs) * p->c_elem;
    p->c_rs = q->c_rs, p->c_cs = q->c_cs, p->M = M, p->N = N;
    p->m = p->a.n_line_blocks, p->n = p->b.n_line_blocks;
    p->block_m = p->a.block_lines, p->block_n = p->b.block_lines;
    p->a.group = fl_group(&p->a, p->slices, j->lay.threads);
    p->b.group = fl_group(&p->b, p->slices, j->lay.threads);
    p->b_kept = j->lay.b_kept;
    p->narrow_scales = j->narrow_scales;
    p->left_step = q->M + FALCON_OUTER_PAD, p->right_step = q->N + FALCON_OUTER_PAD, p->rank = q->rank;
    const ptrdiff_t before = k0 / j->cut.kb * p->rank * j->scheme->parts;
    p->left = q->rank ? (const char *)q->left + (before * p->left_step + m0) * kern->acc : NULL;
    p->right = q->rank ? (const char *)q->right + (before * p->right_step + n0) * kern->acc : NULL;
    p->alpha = q->alpha, p->beta = k0 == 0 ? q->beta : (falcon_scalar){1.0, 0.0, 1};
    if (q->plain) {
        p->a.sums = (double *)(j->ws + j->lay.total);
        p->b.sums = p->a.sums + 2 * p->a.n_k_blocks * p->slices * p->a.lines;
    }
    p->stream_pack = j->cut.stream_pack == 2;
    p->triangle = q->triangle, p->diagonal = m0 - n0;
    if (q->mirror && k0 + K == q->K) {
        p->mirror = (char *)q->mirror + (m0 * q->mirror_rs + n0 * q->mirror_cs) * p->c_elem;
        p->mirror_rs = q->mirror_rs, p->mirror_cs = q->mirror_cs;
    }
    p->stream_c = j->cut.stream_c == 2 && j->cut.kb >= q->K && !q->mirror;
    fl_partition(p->a.panels, p->b.panels, j->cut.mt, j->cut.nt, j->lay.threads,
                 fl_cutting_of(q, j->scheme, p->b.mode == FALCON_DIRECT), &p->X, &p->Z);
    fl_cut_strips(p, j->lay.threads);
}

/* The next pass: M innermost, so that B is combined once; 0 if there is none. */
static int next_pass(fl_job *j) {
    const falcon_problem *q = j->prob;
    if (j->k0 < 0)
        j->k0 = 0;
    else if ((j->m0 += j->cut.mb) >= q->M) {
        j->m0 = 0;
        if ((j->n0 += j->cut.nb) >= q->N) {
            j->n0 = 0;
            if ((j->k0 += j->cut.kb) >= q->K)
                return 0;
        }
    }
    make_pass(j);
    return 1;
}

static ptrdiff_t open_stage(void *job, ptrdiff_t *grab) {
    fl_job *j = job;
    const falcon_plain *plain = j->prob->plain;
    for (;;) {
        if (j->stage == COMBINE && !j->pack_to) {
            if (plain && !fl_sums_are_plain(&j->pass, plain)) {
                j->rejected = 1;
                return 0;
            }
            j->stage = GEMM;
            *grab = j->pass.most_strips;
            return fl_tile_units(&j->pass);
        }
        if (!next_pass(j))
            return 0;
        if (plain && !fl_sample_is_plain(&j->pass, plain, j->pass.a.sums)) {
            j->rejected = 1;
            return 0;
        }
        j->stage = COMBINE;
        /* A's panels survive from one N pass to the next if there is only one M pass */
        j->units_a = j->n0 == 0 || j->cut.mb < j->prob->M ? fl_combine_units(&j->pass, &j->pass.a) : 0;
        const ptrdiff_t of_b = j->m0 == 0 ? fl_combine_units(&j->pass, &j->pass.b) : 0;
        const ptrdiff_t units = j->units_a + of_b;
        /* several neighbouring units at a time: each reads on where the one before ended */
        *grab = FL_MAX(1, FL_MIN(8, units / (8 * j->lay.threads)));
        if (units) {
            return units;
        }
    }
}

static void combine_units(fl_job *j, const fl_buffers *buf, ptrdiff_t first, ptrdiff_t end, falcon_profile *took) {
    const fl_pass *p = &j->pass;
    for (ptrdiff_t u = first; u < end; u++) {
        const int is_a = u < j->units_a;
        const double t0 = j->profile ? fl_now() : 0;
        fl_combine_unit(p, is_a ? &p->a : &p->b, is_a ? u : u - j->units_a, buf->scratch);
        if (j->profile)
            *(is_a ? &took->combine_a : &took->combine_b) += fl_now() - t0;
    }
}

static void tiles(fl_job *j, const fl_buffers *buf, ptrdiff_t first, ptrdiff_t end, falcon_profile *took) {
    const fl_pass *p = &j->pass;
    const ptrdiff_t all = fl_tile_units(p);
    const double t0 = j->profile ? fl_now() : 0;
    if (p->kern->begin)
        p->kern->begin();
    for (ptrdiff_t stop; first < end; first = stop) {
        stop = end;
        const fl_rect tile = fl_tile_of(p, first, &stop);
        /* the other threads claim as much each before this one claims again */
        const ptrdiff_t ahead = stop + (j->lay.threads - 1) * (stop - first);
        ptrdiff_t ahead_stop = FL_MIN(ahead + (stop - first), all);
        const fl_rect following = fl_tile_of(p, FL_MIN(ahead, all - 1), &ahead_stop);
        fl_tile(p, buf, tile, ahead < all ? &following : NULL, j->profile ? &took->update : NULL);
    }
    if (p->kern->end)
        p->kern->end();
    if (j->profile) {
        took->gemm = fl_now() - t0 - took->update;
        took->kernel = p->kern->name;
    }
    if (p->kern->tripped(buf->watch))
        atomic_store(&j->nonfinite, 1);
}

static void do_units(void *job, int seat, ptrdiff_t first, ptrdiff_t end) {
    fl_job *j = job;
    char *mine = j->ws + j->lay.thread0 + (size_t)seat * j->lay.per_thread;
    char watch[FALCON_WATCH] __attribute__((aligned(64))) = {0};
    const fl_buffers buf = {mine + j->lay.h,
                            mine + j->lay.ct,
                            mine + j->lay.sums,
                            mine + j->lay.scratch,
                            mine + j->lay.local_a,
                            mine + j->lay.local_b,
                            watch};
    falcon_profile took;
    memset(&took, 0, sizeof took);
    (j->stage == COMBINE ? combine_units : tiles)(j, &buf, first, end, &took);
    j->kern->fence();
    if (!j->profile)
        return;
    pthread_mutex_lock(&j->profiling);
    j->profile->combine_a += took.combine_a;
    j->profile->combine_b += took.combine_b;
    j->profile->gemm += took.gemm;
    j->profile->update += took.update;
    j->profile->kernel = took.kernel ? took.kernel : j->profile->kernel;
    pthread_mutex_unlock(&j->profiling);
}

static void run(fl_job *j) {
    static const fl_stages stages = {open_stage, do_units};
    falcon_profile *prof = j->profile;
    j->k0 = -1, j->stage = GEMM;
    if (prof) {
        j->began = fl_now();
        prof->threads = j->lay.threads, prof->b_kept = j->lay.b_kept;
        pthread_mutex_init(&j->profiling, NULL);
    }
    fl_team_run(&stages, j, j->lay.threads);
    if (prof) {
        pthread_mutex_destroy(&j->profiling);
        prof->total = fl_now() - j->began;
        const double worked = prof->combine_a + prof->combine_b + prof->gemm + prof->update;
        prof->wait = FL_MAX(0, prof->total * prof->threads - worked);
    }
}

/* Extends [least, most] by the powers of two of n lines that are not 0. */
static void range_of(const double *scale, ptrdiff_t n, double *least, double *most) {
    for (ptrdiff_t i = 0; scale && i < n; i++)
        if (scale[i] > 0) {
            *least = FL_MIN(*least, scale[i]);
            *most = FL_MAX(*most, scale[i]);
        }
}

/* Whether the inverses of all powers of two, and of their products, are accumulators. */
static int are_scales_narrow(const falcon_kernel *kern, const falcon_problem *q) {
    double least_a = 1, most_a = 1, least_b = 1, most_b = 1;
    range_of(q->a_scale, q->M, &least_a, &most_a);
    range_of(q->b_scale, q->N, &least_b, &most_b);
    return kern->acc == sizeof(double) || (least_a * least_b >= FLT_MIN * 2 && most_a * most_b <= 1 / FLT_MIN);
}

int falcon_gemm(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob, int threads,
                const falcon_blocking *blk, void *workspace, falcon_profile *profile) {
    if (profile)
        *profile = (falcon_profile){0};
    if (prob->M <= 0 || prob->N <= 0)
        return 0;
    if (prob->K <= 0 || (prob->alpha.real == 0 && prob->alpha.imag == 0)) {
        falcon_scale_c(kern, prob);
        return 0;
    }
    if (fl_is_gemv(scheme, prob)) {
        const double start = fl_now();
        const int bad = fl_gemv(kern, prob, threads);
        if (profile)
            profile->total = fl_now() - start, profile->threads = threads;
        return bad;
    }
    fl_job j = {.kern = kern, .scheme = FL_SCHEME(scheme), .cut = *blk, .ws = workspace, .profile = profile};
    fl_layout_make(kern, j.scheme, prob, threads, blk, &j.lay);
    const falcon_problem t = j.lay.transposed ? fl_transposed_problem(prob) : *prob;
    j.prob = &t;
    j.narrow_scales = are_scales_narrow(kern, &t);
    if (j.lay.transposed)
        j.cut.mb = blk->nb, j.cut.nb = blk->mb, j.kern = kern->transposed;
    run(&j);
    return j.rejected ? FALCON_NOT_PLAIN : atomic_load(&j.nonfinite);
}

size_t falcon_packed_b_size(const falcon_kernel *kern, const falcon_scheme *scheme, ptrdiff_t K, ptrdiff_t N,
                            const falcon_blocking *blk) {
    return (size_t)packed_b_offset(kern, FL_SCHEME(scheme), K, N, blk, K, 0);
}

size_t falcon_pack_b_workspace(const falcon_kernel *kern, const falcon_scheme *scheme, int threads) {
    return (size_t)fl_up((ptrdiff_t)fl_scratch_bytes(kern, FL_SCHEME(scheme)), 64) * (size_t)FL_MAX(threads, 1);
}

void falcon_pack_b(const falcon_kernel *kern, const falcon_scheme *scheme, ptrdiff_t K, ptrdiff_t N, const void *b,
                   ptrdiff_t b_rs, ptrdiff_t b_cs, const double *b_scale, int threads, const falcon_blocking *blk,
                   void *packed, void *workspace) {
    if (K <= 0 || N <= 0)
        return;
    const falcon_problem q = {
        .M = 1, .N = N, .K = K, .b = b, .b_rs = b_rs, .b_cs = b_cs, .c_cs = 1, .b_scale = b_scale};
    fl_job j = {.kern = kern, .scheme = FL_SCHEME(scheme), .prob = &q, .cut = *blk, .ws = workspace, .pack_to = packed};
    j.lay.threads = fl_team_size(threads, threads);
    j.lay.a_mode = j.lay.b_mode = FALCON_PACKED;
    j.lay.per_thread = (size_t)fl_up((ptrdiff_t)fl_scratch_bytes(kern, j.scheme), 64);
    j.cut.mb = 1;
    run(&j);
}
