/* small.c - products without a workspace, most of them too small for threads, and C = beta*C.
 *
 * Larger classical problems run through falcon_gemm with scheme NULL.  Up to
 * small_macs multiply-adds neither threads nor choosing a blocking pays: kernels
 * read the operands in place (direct.c), or one thread runs the tile loop in its own
 * scratch memory, packs A panel by panel and reads B in place.
 */
#include "engine.h"
#include <string.h>

/* 100^3: about 20 microseconds of work on one core; below, waking a second thread
 * or choosing a blocking takes a noticeable part of the time. */
static const double small_macs = 1e6;
/* Strips or panels from which threads share a product that is read in place. */
enum { SHARED_PIECES = 4 };
/* Steps of K at a time: two panels of the widest kernels, 8 + 24 lines of float64, take 64 KiB of the scratch. */
enum { SMALL_KC = 256 };

int falcon_is_small(const falcon_kernel *kern, const falcon_problem *p) {
    const double macs = (double)p->M * (double)p->N * (double)p->K;
    if (fl_is_gemv(NULL, p)) /* bound by memory: threads pay earlier */
        return fl_is_small_gemv(p);
    if (p->packed_b || p->weights || p->one_order)
        return 0;
    const falcon_problem q = fl_wants_transpose(p) ? fl_transposed_problem(p) : *p;
    return macs <= small_macs || (fl_is_direct(kern, &q) && fl_direct_pieces(kern, &q) >= SHARED_PIECES);
}

/* Vector operations of a product up to which it takes less time than handing it to a BLAS, which costs half a
 * microsecond (Zen 4, OpenBLAS's kernels for small matrices); and where vectors are full.  Packing B costs as many as
 * so many rows of A; from twice as many on a BLAS takes longer for that. */
enum { TINY = 2048, TINY_IF_FULL = 32768, SHORTEST_FULL = 16, PACKED_ROWS = 8 };

int falcon_is_tiny(const falcon_kernel *kern, const falcon_problem *p) {
    const falcon_problem q = fl_wants_transpose(p) ? fl_transposed_problem(p) : *p;
    const int in_place = q.b_cs == 1;
    const ptrdiff_t width = fl_up(q.N, kern->vlen), rows = in_place ? q.M : q.M + PACKED_ROWS;
    const double operations = (double)rows * (double)(width / kern->vlen) * (double)q.K;
    const int is_full = 8 * q.N >= 7 * width && q.K >= SHORTEST_FULL;
    if (is_full && !in_place && q.M >= 2 * PACKED_ROWS && q.N > 1)
        return 1;
    return !fl_is_gemv(NULL, p) && operations <= (is_full && in_place ? TINY_IF_FULL : TINY);
}

/* The whole problem as one pass in which tiles pack their own panels. */
static fl_pass one_pass(const falcon_kernel *kern, const falcon_problem *q) {
    fl_pass p = {.kern = kern,
                 .scheme = &fl_classical_scheme,
                 .c = q->c,
                 .c_elem = fl_c_elem(kern, q),
                 .write = kern->write[q->c_form],
                 .c_rs = q->c_rs,
                 .c_cs = q->c_cs,
                 .M = q->M,
                 .N = q->N,
                 .block_m = q->M,
                 .block_n = q->N,
                 .m = 1,
                 .n = 1,
                 .alpha = q->alpha,
                 .beta = q->beta,
                 .triangle = q->triangle,
                 .mirror = q->mirror,
                 .mirror_rs = q->mirror_rs,
                 .mirror_cs = q->mirror_cs};
    p.kc = FL_MIN(SMALL_KC, kern->kc);
    p.slices = fl_div_up(q->K, p.kc);
    p.kc = FL_MIN(p.kc, fl_up(fl_div_up(q->K, p.slices), kern->k_grain));
    p.slices = fl_div_up(q->K, p.kc);
    p.last_kc = q->K - (p.slices - 1) * p.kc;
    p.a = (fl_operand){.src = q->a,
                       .line_stride = q->a_rs,
                       .k_stride = q->a_cs,
                       .lines = q->M,
                       .K = q->K,
                       .width = kern->mr,
                       .panels = fl_div_up(q->M, kern->mr),
                       .block_lines = q->M,
                       .block_k = q->K,
                       .mode = FALCON_LOCAL,
                       .pack = kern->pack_a};
    p.b = (fl_operand){.src = q->b,
                       .line_stride = q->b_cs,
                       .k_stride = q->b_rs,
                       .lines = q->N,
                       .K = q->K,
                       .width = kern->nr,
                       .panels = fl_div_up(q->N, kern->nr),
                       .mode = q->b_cs == 1 && kern->rows_in_place ? FALCON_DIRECT : FALCON_LOCAL,
                       .pack = kern->pack_b};
    return p;
}

void falcon_scale_c(const falcon_kernel *kern, const falcon_problem *p) {
    falcon_problem q = *p;
    q.K = 1;
    const fl_pass pass = one_pass(kern, &q);
    const fl_entries all = {0, p->M, 0, p->N};
    for (ptrdiff_t i = 0; i < p->M; i++) {
        ptrdiff_t first, end;
        fl_wanted(&pass, all, i, &first, &end);
        kern->scale[p->c_form](pass.c + (i * p->c_rs + first * p->c_cs) * pass.c_elem, p->c_cs, end - first, p->beta);
    }
    if (p->mirror)
        fl_mirror(&pass, all);
}

int falcon_gemm_small(const falcon_kernel *kern, const falcon_problem *prob, int threads) {
    char watch[FALCON_WATCH] __attribute__((aligned(64))) = {0};
    if (prob->M <= 0 || prob->N <= 0)
        return 0;
    if (prob->K <= 0 || prob->alpha.real == 0) {
        falcon_scale_c(kern, prob);
        return 0;
    }
    if (fl_is_gemv(NULL, prob))
        return fl_gemv(kern, prob, 1);
    const int swap = fl_wants_transpose(prob);
    const falcon_problem q = swap ? fl_transposed_problem(prob) : *prob;
    if (swap)
        kern = kern->transposed;
    if (fl_is_direct(kern, &q)) {
        static const falcon_batch alone = {0};
        return fl_direct_batch(kern, &q, &alone, 0, 1, fl_threads(&q, threads), 1);
    }
    const fl_pass p = one_pass(kern, &q);
    const ptrdiff_t micro = fl_micro_bytes(kern);
    const ptrdiff_t panel_a = fl_panel_bytes(kern, kern->mr, p.kc), panel_b = fl_panel_bytes(kern, kern->nr, p.kc);
    const ptrdiff_t pa = p.a.panels, pb = p.b.panels;
    /* H needs room only between slices; B packed here (not unit columns) takes
     * one panel at a time */
    const ptrdiff_t room = (FL_SCRATCH - panel_b - panel_a) / micro;
    const ptrdiff_t mt = p.slices == 1 ? pa : FL_MIN(pa, room);
    const ptrdiff_t nt = p.b.mode == FALCON_LOCAL ? 1 : p.slices == 1 ? pb : FL_MAX(1, FL_MIN(pb, room / mt));
    fl_buffers buf = {.h = fl_scratch(), .watch = watch};
    buf.local_a = buf.h + (p.slices > 1 ? mt * nt : 1) * micro;
    buf.local_b = buf.local_a + panel_a;
    if (kern->begin)
        kern->begin();
    for (ptrdiff_t z = 0; z < pb; z += nt)
        for (ptrdiff_t x = 0; x < pa; x += mt)
            fl_tile(&p, &buf, (fl_rect){x, FL_MIN(pa, x + mt), z, FL_MIN(pb, z + nt)}, NULL, NULL);
    if (kern->end)
        kern->end();
    return kern->tripped(watch);
}
