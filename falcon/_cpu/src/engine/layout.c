/* layout.c - the layout of the workspace: panels, accumulators, scratch.
 *
 * The same functions tell a caller how much is needed and the engine how it is used, so the two can't differ.
 */
#include "engine.h"

/* The cost of fetching a panel, relative to multiplying two panels: 12 rows of float32 from L3 at 16 bytes a cycle take
 * 3 cycles a step, 12 x 32 multiply-adds 12.  A cut that is better by less than a thousandth is not worth more tiles.
 */
static const double panel_cost = 0.25, worth_more_tiles = 0.999;
/* The cost of packing a panel for several tiles, once for all threads, where a single tile would pack it in its core's
 * cache: it goes to memory and back. */
static const double shared_cost = 1.5;

/* Tiles along each side of a triangle, per thread. */
enum { TILES_PER_THREAD = 4 };

fl_cutting fl_cutting_of(const falcon_problem *t, const falcon_scheme *s, int thin) {
    return thin                                        ? FL_ONE_ROW
           : t->triangle                               ? FL_TRIANGLE
           : s == &fl_classical_scheme && !t->packed_b ? FL_OWN_PANELS
                                                       : FL_EVEN;
}

/* Tile counts X x Z, tiles at most mt x nt panels, such that all threads finish
 * together: the least of (rounds of tiles) x (cost of the largest tile), where
 * a tile costs its area plus what its panels cost to fetch.  FL_ONE_ROW: don't
 * cut the rows further than mt asks.  FL_TRIANGLE: tiles are of all sizes, so
 * each thread gets several, for balance.  FL_OWN_PANELS: a tile that is alone in
 * its row or column packs the panels there itself. */
void fl_partition(ptrdiff_t pa, ptrdiff_t pb, ptrdiff_t mt, ptrdiff_t nt, int threads, fl_cutting how, ptrdiff_t *X,
                  ptrdiff_t *Z) {
    const ptrdiff_t X0 = fl_div_up(pa, mt), Z0 = fl_div_up(pb, nt);
    const double area = (double)(pa * pb);
    double best = 0;
    *X = X0, *Z = Z0;
    if (how == FL_TRIANGLE) {
        const ptrdiff_t parts = threads > 1 ? TILES_PER_THREAD * threads : 1;
        *X = FL_MIN(pa, FL_MAX(X0, parts)), *Z = FL_MIN(pb, FL_MAX(Z0, parts));
        return;
    }
    for (ptrdiff_t x = X0; x <= (how == FL_ONE_ROW ? X0 : FL_MIN(pa, X0 + threads)); x++)
        for (ptrdiff_t z = Z0; z <= FL_MIN(pb, Z0 + threads); z++) {
            const double least = (area + panel_cost * (double)(x * pb + z * pa)) / threads; /* if all tiles are equal */
            if (best > 0 && least >= best * worth_more_tiles)
                break;
            const ptrdiff_t h = fl_div_up(pa, x), w = fl_div_up(pb, z), rounds = fl_div_up(x * z, threads);
            const ptrdiff_t shared = how == FL_OWN_PANELS ? (x > 1 ? pb : 0) + (z > 1 ? pa : 0) : 0;
            const double cost = (double)rounds * ((double)(h * w) + panel_cost * (double)(h + w)) +
                                shared_cost * (double)shared / threads;
            if (best == 0 || cost < best * worth_more_tiles)
                best = cost, *X = x, *Z = z;
        }
}

/* Threads claim tiles, and towards the end less and less of one (board.c), so that those of different speed, and those
 * that come late or lose their CPU for a while, finish together.  What they claim is strips: one panel of the operand
 * that is kept in L1, by as many of the other as the tile is wide, or some panels, so that a strip has LEAST_STRIP
 * multiply-adds, 15 to 30 microseconds, and a tile two for each thread: in strips of one panel a scheme of two levels
 * takes 30 % longer, and two threads have few tiles.  The block that streams would be packed again for every strip if
 * tiles pack it themselves: then strips are cut from it.  The tiles of a triangle are many, and not cut further. */
static const double least_strip = 1.5e6;

void fl_cut_strips(fl_pass *p, int threads) {
    const fl_operand *stream = p->b_kept ? &p->a : &p->b;
    p->along_n = p->b_kept == (stream->mode == FALCON_PACKED);
    const ptrdiff_t panels = p->along_n ? p->b.panels : p->a.panels, tiles = p->along_n ? p->Z : p->X;
    const ptrdiff_t height = fl_div_up(panels, tiles);
    const double macs = (double)p->scheme->R * (double)(p->a.panels * p->kern->mr) *
                        (double)(p->b.panels * p->kern->nr) * (double)p->a.block_k / (double)(p->X * p->Z);
    const ptrdiff_t pieces =
        FL_MAX(1, FL_MIN(FL_MIN(height, 2 * threads), (ptrdiff_t)(macs / least_strip))); /* of a tile */
    p->strips = threads < 2 || p->triangle ? tiles : FL_MAX(tiles, fl_div_up(panels, fl_div_up(height, pieces)));
    p->most_strips = FL_MAX(1, height * p->strips / panels);
}

ptrdiff_t fl_tile_units(const fl_pass *p) {
    return p->strips * (p->along_n ? p->X : p->Z);
}

/* Numbered along the strips: threads share the panels of the block that streams and then move on together. */
fl_rect fl_tile_of(const fl_pass *p, ptrdiff_t first, ptrdiff_t *end) {
    const ptrdiff_t at = first / p->strips, from = first % p->strips;
    const ptrdiff_t to = FL_MIN(*end - at * p->strips, p->strips);
    const ptrdiff_t a = p->a.panels, b = p->b.panels;
    *end = at * p->strips + to;
    if (p->along_n)
        return (fl_rect){at * a / p->X, (at + 1) * a / p->X, from * b / p->strips, to * b / p->strips};
    return (fl_rect){from * a / p->strips, to * a / p->strips, at * b / p->Z, (at + 1) * b / p->Z};
}

/* Bytes of scratch that a chunk's sources take: L1 less room for the lines of the outputs.  More, within L2, where many
 * blocks are combined: below CHUNK steps, a few lines of cache, each row of the source is read in too small pieces. */
enum { SCRATCH = 24 << 10, MOST_SCRATCH = 160 << 10, CHUNK = 48, STEPS_AT_ONCE = 16 };

/* Steps that are combined at a time, whole vectors of them where there are enough. */
ptrdiff_t fl_chunk(const falcon_kernel *kern, int width, int n_in) {
    const ptrdiff_t per_step = (ptrdiff_t)width * n_in * kern->sum;
    const ptrdiff_t steps = FL_MAX(SCRATCH / per_step, FL_MIN(CHUNK, MOST_SCRATCH / per_step));
    const ptrdiff_t grain = steps < STEPS_AT_ONCE ? kern->k_grain : FL_MAX(STEPS_AT_ONCE, kern->k_grain);
    return FL_MAX(kern->k_grain, steps / grain * grain);
}

ptrdiff_t fl_scratch_stride(const falcon_kernel *kern, int width, ptrdiff_t chunk) {
    /* one line more than the data: sources must not share L1 sets */
    return fl_up(chunk * width, FL_LINE / kern->sum) + FL_LINE / kern->sum;
}

size_t fl_scratch_bytes(const falcon_kernel *kern, const falcon_scheme *s) {
    if (s == &fl_classical_scheme)
        return 0;
    const int in_a = s->parts * s->m * s->k, in_b = s->parts * s->k * s->n;
    size_t most = 0;
    for (int w = 0; w < 4; w++) { /* either matrix may be packed with either width */
        const int width = w & 1 ? kern->mr : kern->nr, n_in = w & 2 ? in_a : in_b;
        const falcon_program *prog = w & 2 ? &s->u : &s->v;
        const size_t bytes = (size_t)(n_in * fl_scratch_stride(kern, width, fl_chunk(kern, width, n_in)) * kern->sum) +
                             (size_t)prog->n_temp * FALCON_BLOCK +
                             (kern->split ? (size_t)(prog->n_out * width * kern->kr * kern->sum) : 0);
        most = FL_MAX(most, bytes);
    }
    return most;
}

ptrdiff_t fl_operand_bytes(const falcon_kernel *kern, int R, ptrdiff_t panels, ptrdiff_t width, ptrdiff_t block_k,
                           ptrdiff_t kc) {
    const ptrdiff_t slices = fl_div_up(block_k, kc), last = block_k - (slices - 1) * kc;
    return R * panels * ((slices - 1) * fl_panel_bytes(kern, width, kc) + fl_panel_bytes(kern, width, last));
}

/* The part of a layout that each thread has of its own; a_mode and b_mode are set already. */
void fl_thread_buffers(const falcon_kernel *kern, const falcon_scheme *s, ptrdiff_t mt, ptrdiff_t nt, ptrdiff_t block_k,
                       ptrdiff_t kc, fl_layout *out) {
    const size_t micro = (size_t)fl_micro_bytes(kern);
    const size_t panel_a = (size_t)fl_panel_bytes(kern, kern->mr, kc);
    const size_t panel_b = (size_t)fl_panel_bytes(kern, kern->nr, kc);
    size_t in = 0;
    out->b_kept = fl_b_kept(kern, block_k, kc);
    out->h = in;
    in += block_k > kc ? (size_t)(mt * nt) * micro : micro;
    out->ct = in;
    in += s == &fl_classical_scheme ? 0 : (size_t)(s->n_slots * mt * nt) * micro;
    out->sums = in;
    in += (size_t)(s->n_slots - fl_blocks_of_c(s)) * micro;
    out->scratch = in;
    in += fl_scratch_bytes(kern, s);
    out->local_a = in;
    in += out->a_mode == FALCON_LOCAL ? (size_t)(out->b_kept ? mt : 1) * panel_a : 0;
    out->local_b = in;
    in += out->b_mode == FALCON_PACKED ? 0 : (size_t)(out->b_mode == FALCON_LOCAL && !out->b_kept ? nt : 1) * panel_b;
    out->per_thread = (size_t)fl_up((ptrdiff_t)in, FL_LINE);
}

void fl_layout_make(const falcon_kernel *kern, const falcon_scheme *s, const falcon_problem *prob, int threads,
                    const falcon_blocking *blk, fl_layout *out) {
    const int classical = s == &fl_classical_scheme, swap = fl_wants_transpose(prob);
    const falcon_problem t = swap ? fl_transposed_problem(prob) : *prob;
    const int m = swap ? s->n : s->m, n = swap ? s->m : s->n;
    const ptrdiff_t mb = FL_MIN(swap ? blk->nb : blk->mb, t.M), nb = FL_MIN(swap ? blk->mb : blk->nb, t.N);
    const ptrdiff_t block_k = fl_div_up(FL_MIN(blk->kb, t.K), s->k);
    const ptrdiff_t pa = fl_div_up(fl_div_up(mb, m), kern->mr), pb = fl_div_up(fl_div_up(nb, n), kern->nr);
    const ptrdiff_t mt = FL_MIN(blk->mt, pa), nt = FL_MIN(blk->nt, pb);
    const ptrdiff_t kc = fl_slice(kern, blk->kc, block_k);
    ptrdiff_t X, Z;
    out->transposed = swap;
    out->threads = fl_threads(prob, threads);
    const int thin = fl_is_thin(kern, s, &t);
    fl_partition(pa, pb, mt, nt, out->threads, fl_cutting_of(&t, s, thin), &X, &Z);
    /* panels that only one tile uses are packed by that tile, in its core's cache */
    out->a_mode = classical && Z == 1 ? FALCON_LOCAL : FALCON_PACKED;
    out->b_mode = prob->packed_b || !classical || X > 1 ? FALCON_PACKED : thin ? FALCON_DIRECT : FALCON_LOCAL;
    size_t at = 0;
    out->a = at;
    if (out->a_mode == FALCON_PACKED)
        at += (size_t)fl_operand_bytes(kern, s->R, pa, kern->mr, block_k, kc);
    out->b = at;
    if (out->b_mode == FALCON_PACKED && !prob->packed_b)
        at += (size_t)fl_operand_bytes(kern, s->R, pb, kern->nr, block_k, kc);
    out->thread0 = at;
    fl_thread_buffers(kern, s, mt, nt, block_k, kc, out);
    out->total = at + out->per_thread * (size_t)out->threads;
}

size_t falcon_workspace(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob, int threads,
                        const falcon_blocking *blk) {
    fl_layout lay;
    if (prob->M <= 0 || prob->N <= 0 || prob->K <= 0 || (prob->alpha.real == 0 && prob->alpha.imag == 0) ||
        fl_is_gemv(scheme, prob))
        return 0;
    fl_layout_make(kern, FL_SCHEME(scheme), prob, threads, blk, &lay);
    return lay.total;
}
