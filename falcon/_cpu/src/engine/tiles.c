/* tiles.c - GEMM and Combine H of one C tile, within the caches of one core.
 *
 * A thread computes the same tile of all m x n blocks of C.  For r = 1..R, H_r
 * accumulates over the K slices, in registers within a slice and in a
 * contiguous per-thread buffer between slices.  In the last slice each finished
 * micro-tile of H_r is added, while still in L1, to the accumulators that W's
 * steps name: those of C blocks and those of sums that several blocks share.
 * A sum that is complete stays in L1 and is added to accumulators like H_r; a C
 * block that is complete is written to C with alpha and beta.  H and the
 * accumulators are arrays of whole micro-tiles, so that C's row stride (often a
 * multiple of 4 KiB, whose rows share L1 sets) matters only once per pass.
 *
 * Loop order: one micro-panel is kept in L1 while the block of the other operand
 * streams past it from L2.  A 12 x 32 kernel keeps A's panel, because B's is
 * too large; a 6 x 16 one B's, because A's stream is smaller (fl_b_kept).
 * Meanwhile the micro-kernel prefetches the next panel to keep into L2 and,
 * towards the end, the next block, a few lines per call.
 */
#include "engine.h"

/* Bytes of the largest micro-tile: 12 x 32 of float32, 8 x 24 of float64, 32 x 32 of tiles. */
enum { MOST_MICRO = 4096 };

/* Writes ct + coef * h to a micro-tile, undoes the scaling of lines in its entries e, and adds what was subtracted with
 * means, of a complex C for one of its parts. */
static void complete(const fl_pass *p, char *tile, const char *ct, const char *h, double coef, fl_entries e, int part) {
    const falcon_kernel *kern = p->kern;
    const int scaled = p->a.scale || p->b.scale;
    if (scaled || !p->rank)
        kern->scatter(tile, ct, h, coef);
    if (scaled)
        kern->unscale(tile, e.rows, e.cols, p->a.scale ? p->a.scale + e.row : NULL,
                      p->b.scale ? p->b.scale + e.col : NULL, p->narrow_scales);
    if (p->rank)
        kern->scatter_outer(tile, scaled ? NULL : ct, scaled ? tile : h, scaled ? 1 : coef, p->rank,
                            p->left + (part * p->rank * p->left_step + e.row) * kern->acc, p->left_step,
                            p->right + (part * p->rank * p->right_step + e.col) * kern->acc, p->right_step);
}

static inline int is_undone(const fl_pass *p) {
    return p->a.scale || p->b.scale || p->rank;
}

/* Adds the last term of entries e of a block of C and writes them to C with alpha and beta; row by row where the
 * diagonal of a triangle cuts e. */
static void finish(const fl_pass *p, const fl_buffers *buf, const char *acc, const char *source, double coef,
                   fl_entries e) {
    const falcon_kernel *kern = p->kern;
    char tile[MOST_MICRO] __attribute__((aligned(64)));
    char *c = p->c + (e.row * p->c_rs + e.col * p->c_cs) * p->c_elem;
    const int whole = fl_inside(p, e);
    if (fl_outside(p, e))
        return;
    if (is_undone(p) || !whole) {
        complete(p, tile, acc, source, coef, e, 0);
        acc = NULL, source = tile, coef = 1;
    }
    if (whole) {
        p->write(acc, source, coef, p->alpha, p->beta, c, p->c_rs, p->c_cs, e.rows, e.cols, p->stream_c, buf->watch);
        return;
    }
    for (ptrdiff_t i = 0; i < e.rows; i++) {
        ptrdiff_t first, end;
        fl_wanted(p, e, i, &first, &end);
        if (first < end)
            p->write(NULL, tile + (i * kern->nr + first) * kern->acc, 1, p->alpha, p->beta,
                     c + (i * p->c_rs + first * p->c_cs) * p->c_elem, p->c_rs, p->c_cs, 1, end - first, 0, buf->watch);
    }
}

/* Writes entries e of a complex C, whose parts are complete, to C, as finish does. */
static void finish_parts(const fl_pass *p, const fl_buffers *buf, char *const part[2], fl_entries e) {
    const falcon_kernel *kern = p->kern;
    char *c = p->c + (e.row * p->c_rs + e.col * p->c_cs) * p->c_elem;
    if (fl_outside(p, e))
        return;
    for (int i = 0; i < 2 && is_undone(p); i++)
        complete(p, part[i], NULL, part[i], 1, e, i);
    if (fl_inside(p, e)) {
        kern->write_parts(part[0], part[1], p->alpha, p->beta, c, p->c_rs, p->c_cs, e.rows, e.cols, p->stream_c,
                          buf->watch);
        return;
    }
    for (ptrdiff_t i = 0; i < e.rows; i++) {
        ptrdiff_t first, end;
        fl_wanted(p, e, i, &first, &end);
        const ptrdiff_t at = (i * kern->nr + first) * kern->acc;
        if (first < end)
            kern->write_parts(part[0] + at, part[1] + at, p->alpha, p->beta,
                              c + (i * p->c_rs + first * p->c_cs) * p->c_elem, p->c_rs, p->c_cs, 1, end - first, 0,
                              buf->watch);
    }
}

/* The entries of block (i, j) of C that panels t hold; rows or cols below 1: none. */
static fl_entries entries_of(const fl_pass *p, fl_rect t, int i, int j) {
    const ptrdiff_t x = t.x0 * p->kern->mr, z = t.z0 * p->kern->nr;
    fl_entries e = {.row = i * p->block_m + x, .col = j * p->block_n + z};
    e.rows = FL_MIN(FL_MIN(t.x1 * p->kern->mr, p->block_m) - x, p->M - e.row);
    e.cols = FL_MIN(FL_MIN(t.z1 * p->kern->nr, p->block_n) - z, p->N - e.col);
    return e;
}

/* Whether nothing of the classical product is wanted from these panels; a scheme's products are computed whole. */
static inline int idle(const fl_pass *p, fl_rect t) {
    return p->triangle && p->scheme->R == 1 && fl_outside(p, entries_of(p, t, 0, 0));
}

/* Do W's steps for one finished micro-tile of H_r (a panel of A and one of B). */
static void scatter(const fl_pass *p, const fl_buffers *buf, int r, const char *h, char *ct, ptrdiff_t ct_step,
                    fl_rect panels) {
    const falcon_kernel *kern = p->kern;
    const falcon_scheme *s = p->scheme;
    const int blocks = fl_blocks_of_c(s), parts = s->parts;
    const ptrdiff_t micro = fl_micro_bytes(kern);
    for (const falcon_step *w = s->w + s->w_start[r], *end = s->w + s->w_start[r + 1]; w < end; w++) {
        char *at = ct + w->slot * ct_step;
        const char *acc = w->flags & FALCON_FIRST ? NULL : at;
        const char *source = w->source == FALCON_PRODUCT ? h : buf->sums + (w->source - blocks) * micro;
        if (!(w->flags & FALCON_LAST) || w->flags & FALCON_WAITS || w->slot >= blocks) {
            kern->scatter(w->flags & FALCON_LAST && w->slot >= blocks ? buf->sums + (w->slot - blocks) * micro : at,
                          acc, source, w->coef);
            continue;
        }
        const int block = w->slot / parts;
        const int i = p->transposed ? block % p->m : block / p->n;
        const int j = p->transposed ? block / p->m : block % p->n;
        const fl_entries e = entries_of(p, panels, i, j);
        if (e.rows <= 0 || e.cols <= 0)
            continue;
        if (parts == 2) {
            kern->scatter(at, acc, source, w->coef);
            char *re = ct + block * 2 * ct_step;
            finish_parts(p, buf, (char *const[]){re, re + ct_step}, e);
        } else {
            finish(p, buf, acc, source, w->coef, e);
        }
    }
}

/* Prefetch the accumulators that a micro-tile of product r will be added to, while it is being computed: they are in L2
 * or L3. */
static void scatter_ahead(const fl_pass *p, int r, char *ct, ptrdiff_t ct_step, ptrdiff_t bytes) {
    const falcon_scheme *s = p->scheme;
    if (s == &fl_classical_scheme)
        return;
    for (int e = s->w_start[r]; e < s->w_start[r + 1]; e++)
        for (ptrdiff_t at = 0; at < bytes; at += 64)
            __builtin_prefetch(ct + s->w[e].slot * ct_step + at, 1, 3);
}

/* The packed panel `x` of an operand in slice s of product r. */
static const char *packed_panel(const fl_pass *p, const fl_operand *o, int r, ptrdiff_t s, ptrdiff_t x) {
    const ptrdiff_t full = fl_panel_bytes(p->kern, o->width, p->kc);
    const ptrdiff_t stride = fl_panel_bytes(p->kern, o->width, fl_slice_len(p, s));
    const ptrdiff_t R = p->scheme->R;
    return o->packed + s * R * o->panels * full + (r * o->panels + x) * stride;
}

static void pack_local(const fl_pass *p, const fl_operand *o, ptrdiff_t s, ptrdiff_t x, char *dst) {
    const ptrdiff_t line = x * o->width, k = s * p->kc, len = fl_slice_len(p, s);
    fl_pack(p->kern, o, o->src + (line * o->line_stride + k * o->k_stride) * p->kern->elem,
            FL_MIN(o->width, o->lines - line), FL_MIN(len, o->K - k), k, dst, len);
}

/* The panels of one operand that a tile needs in slice s of product r: evenly spaced in memory, but for one. */
typedef struct {
    const fl_operand *o;
    const char *at;                       /* of panel `first` */
    char *local;                          /* room for the panels that the tile packs itself */
    ptrdiff_t s, first, ragged, step, ld; /* ld: elements from one group of steps to the next; ragged: the
                                           * one panel that must be packed with DIRECT, or -1 */
} fl_panels;

static fl_panels panels_of(const fl_pass *p, const fl_operand *o, int r, ptrdiff_t s, ptrdiff_t first, char *local,
                           int kept) {
    const ptrdiff_t elem = p->kern->elem, bytes = fl_panel_bytes(p->kern, o->width, fl_slice_len(p, s));
    fl_panels f = {o, local, local, s, first, -1, bytes, (ptrdiff_t)o->width * p->kern->kr};
    if (o->mode == FALCON_PACKED) {
        f.at = packed_panel(p, o, r, s, first);
    } else if (o->mode == FALCON_DIRECT) {
        f.at = o->src + (first * o->width + s * p->kc * o->k_stride) * elem;
        f.step = o->width * elem, f.ld = o->k_stride;
        f.ragged = o->lines % p->kern->vlen ? o->panels - 1 : -1;
    } else if (kept) {
        f.step = 0;
    }
    return f;
}

/* Pack panels j0 to j1 of a streaming operand whose lines are neighbours in memory, ROWS steps at a time: rows of the
 * caller's matrix are far apart, so as much as possible is read of each, while the next ones are prefetched.  (More
 * prefetches at a time would wait for each other.) */
static void pack_rows(const fl_pass *p, const fl_panels *f, ptrdiff_t j0, ptrdiff_t j1) {
    enum { ROWS = 16 };
    const fl_operand *o = f->o;
    const falcon_kernel *kern = p->kern;
    const ptrdiff_t k = f->s * p->kc, len = fl_slice_len(p, f->s), most = fl_up(ROWS, kern->k_grain);
    const ptrdiff_t line = j0 * o->width, bytes = (FL_MIN(j1 * o->width, o->lines) - line) * kern->elem;
    const ptrdiff_t row = o->k_stride * kern->elem;
    const char *from = o->src + line * kern->elem + k * row;
    for (ptrdiff_t at = 0; at < len; at += most, from += most * row) {
        for (ptrdiff_t i = most; i < FL_MIN(2 * most, o->K - k - at); i++)
            for (ptrdiff_t x = 0; x < bytes; x += FL_LINE)
                __builtin_prefetch(from + i * row + x, 0, 2);
        for (ptrdiff_t j = j0; j < j1; j++)
            fl_pack(kern, o, from + (j * o->width - line) * kern->elem, FL_MIN(o->width, o->lines - j * o->width),
                    FL_MIN(most, o->K - k - at), k + at,
                    f->local + (j - f->first) * f->step + at * o->width * kern->panel, FL_MIN(most, len - at));
    }
}

/* Panel j; packed now if the tile packs its own panels and has not `done` so. */
static inline const char *panel(const fl_pass *p, const fl_panels *f, ptrdiff_t j, int done, ptrdiff_t *ld) {
    const char *at = f->at + (j - f->first) * f->step;
    *ld = f->ld;
    if (f->o->mode == FALCON_PACKED || (f->o->mode == FALCON_DIRECT && j != f->ragged))
        return at;
    if (j == f->ragged)
        *ld = (ptrdiff_t)f->o->width * p->kern->kr, at = f->local;
    if (!done)
        pack_local(p, f->o, f->s, j, (char *)at);
    return at;
}

/* What the micro-kernel calls of one block prefetch: the next panel to keep (needed when this row of calls ends), then
 * the next streaming block, so late that it does not evict the current one.  A block that is not packed yet is a
 * rectangle of the caller's matrix, steps of K by contiguous lines; it is prefetched by columns of cache lines. */
typedef struct {
    const char *kept, *kept_end, *block, *block_end;
    const char *source;     /* NULL, or the rectangle */
    ptrdiff_t steps, width; /* of the rectangle; width in bytes */
    ptrdiff_t stride;       /* bytes from step to step */
    ptrdiff_t step, column; /* what is prefetched next; column in bytes */
    ptrdiff_t calls;        /* left in this block */
} fl_ahead;

/* The block after (r, s) of this tile, or the first block of the next tile; 0 if there is none. */
static int block_after(const fl_pass *p, int *r, ptrdiff_t *s, const fl_rect **tile, const fl_rect *next) {
    if (++*s == p->slices)
        *s = 0, ++*r;
    if (*r < p->scheme->R)
        return 1;
    *r = 0, *tile = next;
    return next != NULL;
}

static fl_ahead ahead_block(const fl_pass *p, int r, ptrdiff_t s, const fl_rect *tile, const fl_rect *next) {
    fl_ahead w = {.calls = (tile->x1 - tile->x0) * (tile->z1 - tile->z0)};
    const fl_operand *o = p->b_kept ? &p->a : &p->b;
    if (o->mode == FALCON_DIRECT || !block_after(p, &r, &s, &tile, next))
        return w;
    const ptrdiff_t first = p->b_kept ? tile->x0 : tile->z0, end = p->b_kept ? tile->x1 : tile->z1;
    if (o->mode == FALCON_PACKED) {
        w.block = packed_panel(p, o, r, s, first);
        w.block_end = packed_panel(p, o, r, s, end);
    } else if (o->line_stride == 1) {
        const ptrdiff_t elem = p->kern->elem;
        w.source = o->src + (first * o->width + s * p->kc * o->k_stride) * elem;
        w.steps = fl_slice_len(p, s), w.stride = o->k_stride * elem;
        w.width = (FL_MIN(end * o->width, o->lines) - first * o->width) * elem;
    }
    return w;
}

static void ahead_row(const fl_pass *p, int r, ptrdiff_t s, ptrdiff_t i, const fl_rect *tile, const fl_rect *next,
                      fl_ahead *w) {
    const fl_operand *o = p->b_kept ? &p->b : &p->a;
    w->kept = w->kept_end = NULL;
    if (o->mode != FALCON_PACKED)
        return;
    if (++i == (p->b_kept ? tile->z1 : tile->x1)) {
        if (!block_after(p, &r, &s, &tile, next))
            return;
        i = p->b_kept ? tile->z0 : tile->x0;
    }
    w->kept = packed_panel(p, o, r, s, i);
    w->kept_end = packed_panel(p, o, r, s, i + 1);
}

/* The address from which one call of the micro-kernel prefetches `lines` cache lines, and how far they are apart; NULL:
 * nothing to prefetch. */
static const char *ahead_take(fl_ahead *w, ptrdiff_t lines, ptrdiff_t *apart) {
    const ptrdiff_t left = w->calls--;
    *apart = FL_LINE;
    if (w->source && w->kept >= w->kept_end) {
        const ptrdiff_t calls = fl_div_up(w->steps, FL_MAX(lines, 1)) * fl_div_up(w->width - w->column, FL_LINE);
        if (w->column >= w->width || left > 2 * calls)
            return NULL;
        const char *from = w->source + w->step * w->stride + w->column;
        *apart = w->stride;
        w->step += lines;
        if (w->step >= w->steps)
            w->step = 0, w->column += FL_LINE;
        return from;
    }
    const ptrdiff_t bytes = lines * FL_LINE;
    const char **at = w->kept < w->kept_end ? &w->kept : &w->block, *from = *at;
    if (at == &w->block && (from >= w->block_end || left * bytes > 2 * (w->block_end - from)))
        return NULL;
    *at += bytes;
    return from;
}

/* Loop bounds of a tile: i walks the panels that are kept in L1, j those that stream. */
typedef struct {
    const fl_operand *kept, *stream;
    char *kept_local, *stream_local;
    ptrdiff_t i0, i1, j0, j1;
    int nv, last_rows, last_vecs; /* rows and vectors of the last panels, which may be partly empty; others are full */
} fl_walk;

static fl_walk walk_of(const fl_pass *p, const fl_buffers *buf, const fl_rect *t) {
    const falcon_kernel *kern = p->kern;
    fl_walk w = p->b_kept ? (fl_walk){&p->b, &p->a, buf->local_b, buf->local_a, t->z0, t->z1, t->x0, t->x1, 0, 0, 0}
                          : (fl_walk){&p->a, &p->b, buf->local_a, buf->local_b, t->x0, t->x1, t->z0, t->z1, 0, 0, 0};
    w.nv = kern->nr / kern->vlen;
    w.last_rows = (int)(p->block_m - (p->a.panels - 1) * kern->mr);
    w.last_vecs = (int)fl_div_up(p->block_n - (p->b.panels - 1) * kern->nr, kern->vlen);
    return w;
}

/* Kept panel i by streaming panel j. */
static inline fl_rect micro_tile(const fl_pass *p, ptrdiff_t i, ptrdiff_t j) {
    const ptrdiff_t x = p->b_kept ? j : i, z = p->b_kept ? i : j;
    return (fl_rect){x, x + 1, z, z + 1};
}

/* The streaming panels *first to *end - 1 that are multiplied by kept panel i: those on one side of the diagonal. */
static void wanted_panels(const fl_pass *p, const fl_walk *w, ptrdiff_t i, ptrdiff_t *first, ptrdiff_t *end) {
    ptrdiff_t low = w->j0, high = w->j1 - 1;
    *first = w->j0, *end = w->j1;
    if (!p->triangle)
        return;
    const int idle_low = idle(p, micro_tile(p, i, low)), idle_high = idle(p, micro_tile(p, i, high));
    if (idle_low == idle_high) {
        *end = idle_low ? w->j0 : w->j1;
        return;
    }
    while (high - low > 1) {
        const ptrdiff_t at = (low + high) / 2;
        *(idle(p, micro_tile(p, i, at)) == idle_low ? &low : &high) = at;
    }
    *(idle_low ? first : end) = high;
}

/* The micro-kernels for kept panel i: with a full streaming panel, and with its operand's last one. */
static inline void variants(const fl_pass *p, const fl_walk *w, ptrdiff_t i, falcon_ukr_fn *inner,
                            falcon_ukr_fn *edge) {
    const falcon_kernel *kern = p->kern;
    const int nv = w->nv;
    if (p->b_kept) {
        const int vecs = i == p->b.panels - 1 ? w->last_vecs : nv;
        *inner = kern->ukr[(kern->mr - 1) * nv + vecs - 1];
        *edge = kern->ukr[(w->last_rows - 1) * nv + vecs - 1];
    } else {
        const int rows = i == p->a.panels - 1 ? w->last_rows : kern->mr;
        *inner = kern->ukr[rows * nv - 1];
        *edge = kern->ukr[(rows - 1) * nv + w->last_vecs - 1];
    }
}

/* Slice s of product r: all micro-tiles of the tile, in the order in which they lie in h and ct. */
static void tile_slice(const fl_pass *p, const fl_buffers *buf, const fl_walk *w, int r, ptrdiff_t s,
                       const fl_rect *tile, const fl_rect *next, double *update) {
    const int b_kept = p->b_kept, last = s + 1 == p->slices;
    const ptrdiff_t micro = fl_micro_bytes(p->kern), ct_step = (w->i1 - w->i0) * (w->j1 - w->j0) * micro;
    const ptrdiff_t h_step = p->slices == 1 ? 0 : micro;
    const ptrdiff_t len = fl_slice_len(p, s);
    const ptrdiff_t pf_lines = len / p->kern->kr * p->kern->pf_lines / FALCON_PF_EVERY;
    const fl_panels kept_panels = panels_of(p, w->kept, r, s, w->i0, w->kept_local, 1);
    const fl_panels streams = panels_of(p, w->stream, r, s, w->j0, w->stream_local, 0);
    fl_ahead ahead = ahead_block(p, r, s, tile, next);
    const int by_rows = w->stream->mode == FALCON_LOCAL && w->stream->line_stride == 1;
    if (by_rows)
        pack_rows(p, &streams, w->j0, w->j1);
    const falcon_ukr_fn full = p->kern->ukr[p->kern->mr * w->nv - 1];
    const int keeps = p->kern->keeps && !last && !p->triangle;
    char *h = buf->h, *ct = buf->ct;
    for (ptrdiff_t i = w->i0; i < w->i1; i++) {
        falcon_ukr_fn inner, edge;
        variants(p, w, i, &inner, &edge);
        ptrdiff_t ld_kept, ld_stream, first, end;
        wanted_panels(p, w, i, &first, &end);
        ahead_row(p, r, s, i, tile, next, &ahead);
        const char *kept = panel(p, &kept_panels, i, 0, &ld_kept);
        const int add = s > 0 ? FALCON_ADD : 0;
        int how = add;
        for (ptrdiff_t j = w->j0; j < w->j1; j++) {
            const char *streaming = panel(p, &streams, j, by_rows || i > w->i0, &ld_stream);
            if (j < first || j >= end) {
                h += h_step, ct += micro;
                continue;
            }
            ptrdiff_t apart;
            const char *pf = ahead_take(&ahead, pf_lines, &apart);
            if (last)
                scatter_ahead(p, r, ct, ct_step, micro);
            const falcon_ukr_fn ukr = j == w->stream->panels - 1 ? edge : inner;
            const falcon_ukr_fn following = j == w->stream->panels - 2 ? edge : inner;
            if (keeps && j + 1 < w->j1 && ukr == full && following == full)
                how |= FALCON_KEEP;
            ukr(len, b_kept ? streaming : kept, b_kept ? kept : streaming, b_kept ? ld_kept : ld_stream, h, how,
                pf ? pf : kept, pf ? apart : 0);
            how = how & FALCON_KEEP ? add | FALCON_KEPT : add;
            if (last) {
                const double t0 = update ? fl_now() : 0;
                scatter(p, buf, r, h, ct, ct_step, micro_tile(p, i, j));
                if (update)
                    *update += fl_now() - t0;
            }
            ct += micro;
            h += h_step;
        }
    }
}

void fl_tile(const fl_pass *p, const fl_buffers *buf, fl_rect tile, const fl_rect *next, double *update) {
    if (idle(p, tile))
        return;
    const fl_walk w = walk_of(p, buf, &tile);
    for (int r = 0; r < p->scheme->R; r++)
        for (ptrdiff_t s = 0; s < p->slices; s++)
            tile_slice(p, buf, &w, r, s, &tile, next, update);
    for (int b = 0; p->mirror && b < p->m * p->n; b++)
        fl_mirror(p, entries_of(p, tile, b / p->n, b % p->n));
}
