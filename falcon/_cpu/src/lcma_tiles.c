/* lcma_tiles.c - GEMM and Combine H of one C tile, nothing leaving the core.
 *
 * A worker owns the same tile of all m x n blocks of C.  It walks r = 1..R:
 * H_r accumulates over the K slices, in registers within a slice and in a
 * contiguous per-thread buffer between slices; in the last slice each finished
 * micro-tile of H_r goes, while still in L1, into the C accumulators that W
 * names, and the last term of each C block takes it to C itself with alpha and
 * beta.  H and the accumulators are arrays of whole micro-tiles: C's own row
 * length (often a multiple of 4 KiB, whose rows share L1 sets) meets the caches
 * only once per pass.
 *
 * Loop order: a micro-panel of A (MR x kc, 6 to 18 KiB) stays in L1 while the B
 * block streams from L2; meanwhile the micro-kernel prefetches the next A panel
 * and the next B block into L2, a few lines per call.  Without that prefetch
 * the phase ran 13 to 18 % slower (f64, 2048, one thread).
 */
#include "engine.h"
#include <string.h>
#include <time.h>

double fl_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int fl_watch_tripped(const falcon_kernel *kern, const char *watch) {
    int bad = 0;
    for (ptrdiff_t i = 0; i < kern->vlen; i++) {
        if (kern->dtype == FALCON_F32)
            bad |= ((const float *)watch)[i] != 0;
        else
            bad |= ((const double *)watch)[i] != 0;
    }
    return bad;
}

/* Send one finished micro-tile of H_r (panel x, z) to every C block of W[r]. */
static void scatter(const fl_pass *p, const fl_buffers *buf, int r, const char *h, char *ct, ptrdiff_t ct_step,
                    ptrdiff_t x, ptrdiff_t z) {
    const falcon_kernel *kern = p->kern;
    const falcon_scheme *s = p->scheme;
    for (int e = s->w_start[r]; e < s->w_start[r + 1]; e++) {
        const int idx = s->w_index[e], flags = p->w_flags[e];
        const int i = p->transposed ? idx % p->m : idx / p->n;
        const int j = p->transposed ? idx / p->m : idx % p->n;
        char *acc = ct + idx * ct_step;
        if (!(flags & FL_LAST)) {
            kern->scatter(acc, h, s->w_coef[e], flags & FL_FIRST);
            continue;
        }
        const ptrdiff_t in_row = x * kern->mr, in_col = z * kern->nr;
        const ptrdiff_t row = i * p->block_m + in_row, col = j * p->block_n + in_col;
        const ptrdiff_t rows = FL_MIN(FL_MIN(kern->mr, p->block_m - in_row), p->M - row);
        const ptrdiff_t cols = FL_MIN(FL_MIN(kern->nr, p->block_n - in_col), p->N - col);
        if (rows > 0 && cols > 0)
            kern->write(flags & FL_FIRST ? NULL : acc, h, s->w_coef[e], p->alpha, p->beta,
                        p->c + (row * p->c_rs + col * p->c_cs) * kern->elem, p->c_rs, p->c_cs, rows, cols, p->stream_c,
                        buf->watch);
    }
}

/* Call for the accumulators that the finished micro-tile at `at` of product r goes to, while it is still being
 * computed: they come from L2 or L3. */
static void scatter_ahead(const fl_pass *p, int r, char *ct, ptrdiff_t ct_step, ptrdiff_t bytes) {
    const falcon_scheme *s = p->scheme;
    if (s == &fl_classical_scheme)
        return;
    for (int e = s->w_start[r]; e < s->w_start[r + 1]; e++)
        for (ptrdiff_t at = 0; at < bytes; at += 64)
            __builtin_prefetch(ct + s->w_index[e] * ct_step + at, 1, 3);
}

/* Where panel `x` of an operand comes from in slice s of product r. */
static const char *packed_panel(const fl_pass *p, const fl_operand *o, int r, ptrdiff_t s, ptrdiff_t x) {
    const ptrdiff_t full = fl_panel_stride(p->kern, o->width, p->kc);
    const ptrdiff_t stride = fl_panel_stride(p->kern, o->width, fl_slice_len(p, s));
    const ptrdiff_t R = p->scheme->R;
    return o->packed + (s * R * o->panels * full + (r * o->panels + x) * stride) * p->kern->elem;
}

static void pack_local(const fl_pass *p, const fl_operand *o, ptrdiff_t s, ptrdiff_t x, char *dst) {
    const ptrdiff_t line = x * o->width, k = s * p->kc, len = fl_slice_len(p, s);
    o->pack(o->src + (line * o->line_stride + k * o->k_stride) * p->kern->elem, o->line_stride, o->k_stride,
            FL_MIN(o->width, o->lines - line), FL_MIN(len, o->K - k), dst, len);
}

/* What the micro-kernel calls of one block prefetch: first the next panel of A
 * (needed when this row of calls ends), then the next block of B.  Only the B block is held twice in L2. */
typedef struct {
    const char *a, *a_end, *b, *b_end;
} fl_ahead;

/* The block after (r, s) of this tile, or the first block of the next tile. */
static int block_after(const fl_pass *p, int *r, ptrdiff_t *s, const fl_rect **tile, const fl_rect *next) {
    if (++*s == p->slices)
        *s = 0, ++*r;
    if (*r < p->scheme->R)
        return 1;
    *r = 0, *tile = next;
    return next != NULL;
}

static void ahead_block(const fl_pass *p, int r, ptrdiff_t s, const fl_rect *tile, const fl_rect *next, fl_ahead *w) {
    memset(w, 0, sizeof *w);
    if (p->b.mode == FALCON_PACKED && block_after(p, &r, &s, &tile, next)) {
        w->b = packed_panel(p, &p->b, r, s, tile->z0);
        w->b_end = packed_panel(p, &p->b, r, s, tile->z1);
    }
}

static void ahead_row(const fl_pass *p, int r, ptrdiff_t s, ptrdiff_t x, const fl_rect *tile, const fl_rect *next,
                      fl_ahead *w) {
    w->a = w->a_end = NULL;
    if (p->a.mode != FALCON_PACKED)
        return;
    if (++x == tile->x1) {
        if (!block_after(p, &r, &s, &tile, next))
            return;
        x = tile->x0;
    }
    w->a = packed_panel(p, &p->a, r, s, x);
    w->a_end = packed_panel(p, &p->a, r, s, x + 1);
}

/* The lines for one call that prefetches `bytes`. */
static const char *ahead_take(fl_ahead *w, ptrdiff_t bytes) {
    const char **at = w->a < w->a_end ? &w->a : &w->b, *from = *at;
    if (from >= (at == &w->a ? w->a_end : w->b_end))
        return NULL;
    *at += bytes;
    return from;
}

void fl_tile(const fl_pass *p, const fl_buffers *buf, fl_rect tile, const fl_rect *next, double *update) {
    const ptrdiff_t x0 = tile.x0, x1 = tile.x1, z0 = tile.z0, z1 = tile.z1;
    const falcon_kernel *kern = p->kern;
    const ptrdiff_t elem = kern->elem, micro = (ptrdiff_t)kern->mr * kern->nr * elem;
    const ptrdiff_t nz = z1 - z0, ct_step = (x1 - x0) * nz * micro;
    const int nv = kern->nr / kern->vlen;
    const int one_slice = p->slices == 1;
    for (int r = 0; r < p->scheme->R; r++) {
        for (ptrdiff_t s = 0; s < p->slices; s++) {
            const ptrdiff_t len = fl_slice_len(p, s);
            const ptrdiff_t b_local = fl_panel_stride(kern, p->b.width, len) * elem;
            const ptrdiff_t pf_bytes = len / FALCON_PF_EVERY * 64;
            fl_ahead ahead;
            ahead_block(p, r, s, &tile, next, &ahead);
            for (ptrdiff_t x = x0; x < x1; x++) {
                const char *a;
                ahead_row(p, r, s, x, &tile, next, &ahead);
                if (p->a.mode == FALCON_PACKED) {
                    a = packed_panel(p, &p->a, r, s, x);
                } else {
                    a = buf->local_a; /* used by this row of calls only */
                    pack_local(p, &p->a, s, x, (char *)a);
                }
                const ptrdiff_t rows = FL_MIN(kern->mr, p->block_m - x * kern->mr);
                for (ptrdiff_t z = z0; z < z1; z++) {
                    const ptrdiff_t cols = FL_MIN(kern->nr, p->block_n - z * kern->nr);
                    const char *b;
                    ptrdiff_t ldb = kern->nr;
                    if (p->b.mode == FALCON_PACKED) {
                        b = packed_panel(p, &p->b, r, s, z);
                    } else if (p->b.mode == FALCON_DIRECT && cols % kern->vlen == 0) {
                        b = p->b.src + (z * kern->nr + s * p->kc * p->b.k_stride) * elem;
                        ldb = p->b.k_stride;
                    } else {
                        /* DIRECT comes here for the one ragged panel only */
                        b = buf->local_b + (p->b.mode == FALCON_DIRECT ? 0 : z - z0) * b_local;
                        if (x == x0)
                            pack_local(p, &p->b, s, z, (char *)b);
                    }
                    const ptrdiff_t at = ((x - x0) * nz + z - z0) * micro;
                    char *h = one_slice ? buf->h : buf->h + at;
                    const char *pf = ahead_take(&ahead, pf_bytes);
                    if (s + 1 == p->slices)
                        scatter_ahead(p, r, buf->ct + at, ct_step, micro);
                    kern->ukr[(rows - 1) * nv + (cols + kern->vlen - 1) / kern->vlen - 1](len, a, b, ldb, h, s > 0,
                                                                                          pf ? pf : a, pf ? 64 : 0);
                    if (s + 1 == p->slices) {
                        const double t0 = update ? fl_now() : 0;
                        scatter(p, buf, r, h, buf->ct + at, ct_step, x, z);
                        if (update)
                            *update += fl_now() - t0;
                    }
                }
            }
        }
    }
}
