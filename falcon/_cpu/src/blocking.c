/* blocking.c - how a call is cut: passes, K slices, C tiles, workspace layout.
 *
 * Everything here is a pure function of shapes, strides, scheme, kernel, cache
 * sizes and thread count.  What decides the order of summation (kb, kc) does
 * not look at the thread count, so results don't depend on it.
 */
#include "engine.h"

/* The scheme <1,1,1;1>.  Its programs are never run: packing is plain. */
static const int32_t one_start[] = {0, 1};
static const falcon_step one_step[] = {{0, FALCON_PRODUCT, FALCON_FIRST | FALCON_LAST, 1.0}};
const falcon_scheme fl_classical_scheme = {.m = 1,
                                           .k = 1,
                                           .n = 1,
                                           .R = 1,
                                           .n_slots = 1,
                                           .u = {.n_in = 1, .n_out = 1},
                                           .v = {.n_in = 1, .n_out = 1},
                                           .w_start = one_start,
                                           .w = one_step};

/* Multiply-adds that each thread must have to pay for waking it: about 20
 * microseconds of work, a few times what an OpenMP region costs. */
static const double macs_per_thread = 1e6;

/* Useful threads: of `threads`, no more than the work pays for. */
static int worth_threads(const falcon_problem *prob, int threads) {
    const double macs = (double)prob->M * (double)prob->N * (double)prob->K / macs_per_thread;
    return FL_MAX(1, (double)threads > macs ? (int)macs : threads);
}

int fl_threads(const falcon_problem *prob, int threads) {
    return falcon_in_forked_child() ? 1 : worth_threads(prob, threads);
}

/* A column-major C is computed as C' = B'A', so that vectors run along its
 * columns.  A packed B can't change sides. */
int fl_wants_transpose(const falcon_problem *prob) {
    return prob->c_cs != 1 && prob->c_rs == 1 && !prob->packed_b;
}

falcon_problem fl_transposed_problem(const falcon_problem *p) {
    return (falcon_problem){.M = p->N,
                            .N = p->M,
                            .K = p->K,
                            .a = p->b,
                            .b = p->a,
                            .c = p->c,
                            .a_rs = p->b_cs,
                            .a_cs = p->b_rs,
                            .b_rs = p->a_cs,
                            .b_cs = p->a_rs,
                            .c_rs = p->c_cs,
                            .c_cs = p->c_rs,
                            .alpha = p->alpha,
                            .beta = p->beta};
}

/* Tile counts X x Z, tiles at most mt x nt panels, such that all threads finish
 * together: the least of (rounds of tiles) x (cost of the largest tile), where
 * a tile costs its area plus what its panels cost to fetch.  one_row: don't cut
 * the rows further than mt asks. */
void fl_partition(ptrdiff_t pa, ptrdiff_t pb, ptrdiff_t mt, ptrdiff_t nt, int threads, int one_row, ptrdiff_t *X,
                  ptrdiff_t *Z) {
    const ptrdiff_t X0 = fl_div_up(pa, mt), Z0 = fl_div_up(pb, nt);
    double best = 0;
    *X = X0, *Z = Z0;
    for (ptrdiff_t x = X0; x <= (one_row ? X0 : FL_MIN(pa, X0 + threads)); x++)
        for (ptrdiff_t z = Z0; z <= FL_MIN(pb, Z0 + threads); z++) {
            const ptrdiff_t h = fl_div_up(pa, x), w = fl_div_up(pb, z), rounds = fl_div_up(x * z, threads);
            const double cost = (double)rounds * ((double)(h * w) + 0.25 * (double)(h + w));
            if (best == 0 || cost < best * 0.999)
                best = cost, *X = x, *Z = z;
        }
}

/* So few rows that a copy of B would cost more than it saves: B is read in
 * place, if its rows are contiguous.  Decided by shape and strides alone,
 * because the K slices depend on it. */
static int is_thin(const falcon_kernel *kern, const falcon_scheme *s, const falcon_problem *t) {
    return s == &fl_classical_scheme && !t->packed_b && t->b_cs == 1 && t->M <= 2 * kern->mr;
}

ptrdiff_t fl_operand_elems(const falcon_kernel *kern, int R, ptrdiff_t panels, ptrdiff_t width, ptrdiff_t block_k,
                           ptrdiff_t kc) {
    const ptrdiff_t slices = fl_div_up(block_k, kc), last = block_k - (slices - 1) * kc;
    return R * panels * ((slices - 1) * fl_panel_stride(kern, width, kc) + fl_panel_stride(kern, width, last));
}

/* The part of a layout that each thread has for itself; a_mode and b_mode are set already. */
static void thread_buffers(const falcon_kernel *kern, const falcon_scheme *s, ptrdiff_t mt, ptrdiff_t nt,
                           ptrdiff_t block_k, ptrdiff_t kc, fl_layout *out) {
    const size_t elem = (size_t)kern->elem, micro = (size_t)(kern->mr * kern->nr) * elem;
    const size_t panel_a = (size_t)fl_panel_stride(kern, kern->mr, kc) * elem;
    const size_t panel_b = (size_t)fl_panel_stride(kern, kern->nr, kc) * elem;
    size_t in = 0;
    out->b_rests = fl_b_rests(kern, block_k, kc);
    out->h = in;
    in += block_k > kc ? (size_t)(mt * nt) * micro : micro;
    out->ct = in;
    in += s == &fl_classical_scheme ? 0 : (size_t)(s->n_slots * mt * nt) * micro;
    out->sums = in;
    in += (size_t)(s->n_slots - s->m * s->n) * micro;
    out->scratch = in;
    in += fl_scratch_bytes(kern, s);
    out->local_a = in;
    in += out->a_mode == FALCON_LOCAL ? (size_t)(out->b_rests ? mt : 1) * panel_a : 0;
    out->local_b = in;
    in += out->b_mode == FALCON_PACKED ? 0 : (size_t)(out->b_mode == FALCON_LOCAL && !out->b_rests ? nt : 1) * panel_b;
    out->per_thread = (size_t)fl_up((ptrdiff_t)in, 64);
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
    const ptrdiff_t kc = FL_MIN(blk->kc, fl_up(block_k, 16));
    const size_t elem = (size_t)kern->elem;
    ptrdiff_t X, Z;
    out->transposed = swap;
    out->threads = fl_threads(prob, threads);
    const int thin = is_thin(kern, s, &t);
    fl_partition(pa, pb, mt, nt, out->threads, thin, &X, &Z);
    /* panels that a single tile uses are packed by that tile, in its own cache */
    out->a_mode = classical && Z == 1 ? FALCON_LOCAL : FALCON_PACKED;
    out->b_mode = prob->packed_b || !classical || X > 1 ? FALCON_PACKED : thin ? FALCON_DIRECT : FALCON_LOCAL;
    size_t at = 0;
    out->a = at;
    if (out->a_mode == FALCON_PACKED)
        at += (size_t)fl_operand_elems(kern, s->R, pa, kern->mr, block_k, kc) * elem;
    out->b = at;
    if (out->b_mode == FALCON_PACKED && !prob->packed_b)
        at += (size_t)fl_operand_elems(kern, s->R, pb, kern->nr, block_k, kc) * elem;
    out->thread0 = at;
    thread_buffers(kern, s, mt, nt, block_k, kc, out);
    out->total = at + out->per_thread * (size_t)out->threads;
}

size_t falcon_workspace(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob, int threads,
                        const falcon_blocking *blk) {
    fl_layout lay;
    if (prob->M <= 0 || prob->N <= 0 || prob->K <= 0 || prob->alpha == 0 || fl_is_gemv(scheme, prob))
        return 0;
    fl_layout_make(kern, FL_SCHEME(scheme), prob, threads, blk, &lay);
    return lay.total;
}

/* x cut into `parts` equal parts, each a multiple of `grain` (but the last). */
static ptrdiff_t part_of(ptrdiff_t x, ptrdiff_t parts, ptrdiff_t grain) {
    return parts == 1 ? x : FL_MAX(grain, fl_up(fl_div_up(x, parts), grain));
}

/* The problem as the search sees it, after transposition. */
typedef struct {
    const falcon_kernel *kern;
    const falcon_scheme *s;
    falcon_problem t;
    int m, n, thin, pack_both; /* pack_both: count operands as packed even where a tile may pack its own */
    falcon_caches cache;
} fl_search;

static ptrdiff_t slice_of(const fl_search *x, ptrdiff_t kb) {
    const ptrdiff_t block_k = fl_div_up(FL_MIN(kb, x->t.K), x->s->k);
    /* thin: short slices: few rows of B in flight, each read on and on (rows 4 KiB apart share an L1 set) */
    const ptrdiff_t slices = fl_div_up(block_k, x->thin ? 16 : x->kern->kc);
    return fl_up(fl_div_up(block_k, slices), 16);
}

/* Halve the longer side of the C tile; 0 if it is one panel by one already. */
static int halve_tile(const falcon_kernel *kern, falcon_blocking *b) {
    if (b->mt > 1 && (b->mt * kern->mr > b->nt * kern->nr || b->nt == 1))
        b->mt = (b->mt + 1) / 2;
    else if (b->nt > 1)
        b->nt = (b->nt + 1) / 2;
    else
        return 0;
    return 1;
}

/* Choose mt and nt where they are 0. */
static void choose_tile(const fl_search *x, int threads, falcon_blocking *b) {
    const falcon_kernel *kern = x->kern;
    const int keep = b->mt > 0 || b->nt > 0;
    const ptrdiff_t panel_b = b->kc * kern->nr * kern->elem, panel_a = b->kc * kern->mr * kern->elem;
    const int b_rests = fl_b_rests(kern, fl_div_up(FL_MIN(b->kb, x->t.K), x->s->k), b->kc);
    const ptrdiff_t lines_b = fl_div_up(fl_div_up(x->t.N, x->n), kern->nr);
    if (x->thin)
        b->nt = b->nt > 0 ? b->nt : FL_MIN(256, FL_MAX(1, fl_div_up(lines_b, FL_MAX(1, threads))));
    else if (lines_b <= 2 && b->mt <= 0 && x->s == &fl_classical_scheme && x->t.M >= 16 * kern->mr * threads)
        b->mt = 1; /* hardly any columns: pack one panel of A at a time, along its rows */
    /* The streaming block (panels of one slice) is read once per resting panel and stays in L2; the other one
     * may exceed it, as its panels pass through L1 one at a time.  How much pays is the kernel's. */
    if (b->nt <= 0)
        b->nt =
            FL_MIN(kern->tile[b_rests].b_panels, FL_MAX(1, x->cache.l2 * kern->tile[b_rests].b_share / 100 / panel_b));
    if (b->mt <= 0)
        b->mt =
            FL_MIN(kern->tile[b_rests].a_panels, FL_MAX(1, x->cache.l2 * kern->tile[b_rests].a_share / 100 / panel_a));
    /* The m*n accumulators of a tile are touched once per product: a share of
     * L3 is near enough, but not more than that (sums come and go in a few more). */
    const ptrdiff_t micro = (ptrdiff_t)kern->mr * kern->nr * kern->elem;
    const ptrdiff_t room = FL_MAX(2 * x->cache.l2, x->cache.l3 / (2 * FL_MAX(1, threads)));
    while (!keep && x->m * x->n * b->mt * b->nt * micro > room && halve_tile(kern, b)) {
    }
}

/* Numbers of passes that are tried along each dimension. */
static const int16_t pass_counts[] = {1,  2,  3,  4,  5,  6,  7,  8,   9,   10,  11,  12,  13,   14,   15,   16,
                                      20, 24, 28, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096, 8192};
enum { N_COUNTS = sizeof pass_counts / sizeof *pass_counts };

/* Part sizes of x worth trying, one per number of passes they make; keep > 0: that one only. */
static int list_parts(ptrdiff_t x, ptrdiff_t grain, ptrdiff_t keep, ptrdiff_t *parts, double *passes) {
    int n = 0;
    for (int i = 0; i < (keep > 0 ? 1 : N_COUNTS); i++) {
        parts[n] = keep > 0 ? FL_MIN(keep, x) : part_of(x, pass_counts[i], grain);
        passes[n] = (double)fl_div_up(x, parts[n]);
        n += n == 0 || parts[n] < parts[n - 1];
    }
    return n;
}

/* Choose the zero ones of kb, kc, mb, nb, mt, nt such that the workspace for
 * `threads` keeps `limit` at the least extra traffic, in bytes moved:
 *   - A combined again for every N pass if there is more than one M pass
 *     (worker() in lcma.c; B never is, M passes being innermost);
 *   - per further K pass, C read and written and W's terms added once more, at
 *     a quarter of their bytes as they stay in cache;
 *   - per pass, a sixteenth of its panels for the cold start and the barrier;
 *   - a sixteenth of the workspace.
 * At 4096 (two levels, f32, 2 threads) these terms came to what was measured:
 * 2 to 3 % for combining A twice, as much for a second K pass, under 1 % for
 * 4 N passes.  Returns 0, with the least workspace there is, if nothing fits. */
static int search(const fl_search *x, int threads, size_t limit, falcon_blocking *blk) {
    const falcon_kernel *kern = x->kern;
    const falcon_scheme *s = x->s;
    const falcon_problem *t = &x->t;
    const int classical = s == &fl_classical_scheme, keep_tile = blk->mt > 0 || blk->nt > 0;
    const double M = (double)t->M, N = (double)t->N, K = (double)t->K, elem = (double)kern->elem;
    const double a_again = elem * M * K * (1 + (double)s->R / (s->m * s->k)); /* symmetric in the transposed case */
    const double k_pass = elem * M * N * (2 + 0.25 * s->w_start[s->R] / (s->m * s->n));
    ptrdiff_t ks[N_COUNTS], ns[N_COUNTS], ms[N_COUNTS];
    double pk[N_COUNTS], pn[N_COUNTS], pm[N_COUNTS], bytes_a[N_COUNTS], best = -1;
    const int nk = list_parts(t->K, 16 * s->k, x->thin && !blk->kb ? t->K : blk->kb, ks, pk);
    const int nn = list_parts(t->N, kern->nr * x->n, blk->nb, ns, pn);
    const int nm = list_parts(t->M, kern->mr * x->m, blk->mb, ms, pm);
    const falcon_blocking asked = *blk;
    for (int shrunk = 0; best < 0; shrunk++) {
        int could_shrink = 0;
        for (int ik = 0; ik < nk && (best < 0 || (pk[ik] - 1) * k_pass < best); ik++) {
            falcon_blocking b = asked;
            b.kb = asked.kb > 0 ? asked.kb : ks[ik];
            b.kc = b.kc > 0 ? b.kc : slice_of(x, b.kb);
            choose_tile(x, threads, &b);
            const ptrdiff_t block_k = fl_div_up(ks[ik], s->k), kc = FL_MIN(b.kc, fl_up(block_k, 16));
            const ptrdiff_t pa = fl_div_up(fl_div_up(t->M, x->m), kern->mr);
            const ptrdiff_t pb = fl_div_up(fl_div_up(t->N, x->n), kern->nr);
            int pack_a, pack_b;
            double fixed;
            for (int halvings = 0;; halvings++) { /* the threads' buffers: at most half of it all */
                /* what a smaller tile no longer holds whole must be packed for all of them */
                pack_a = !classical || x->pack_both || pb > b.nt;
                pack_b = !t->packed_b && !x->thin && (!classical || x->pack_both || pa > b.mt);
                fl_layout lay = {.a_mode = classical ? FALCON_LOCAL : FALCON_PACKED,
                                 .b_mode = x->thin  ? FALCON_DIRECT
                                           : pack_b ? FALCON_PACKED
                                                    : FALCON_LOCAL};
                thread_buffers(kern, s, FL_MIN(b.mt, pa), FL_MIN(b.nt, pb), block_k, kc, &lay);
                fixed = (double)lay.per_thread * threads;
                if (keep_tile || (halvings >= shrunk && fixed <= 0.5 * (double)limit) || !halve_tile(kern, &b))
                    break;
            }
            could_shrink |= !keep_tile && (b.mt > 1 || b.nt > 1);
            for (int i = 0; i < nm; i++)
                bytes_a[i] =
                    !pack_a ? 0
                            : elem * (double)fl_operand_elems(kern, s->R, fl_div_up(fl_div_up(ms[i], x->m), kern->mr),
                                                              kern->mr, block_k, kc);
            int im = nm - 1; /* the fewest M passes that fit, fewer and fewer as N passes grow */
            for (int in = 0; in < nn; in++) {
                const double bytes_b =
                    !pack_b ? 0
                            : elem * (double)fl_operand_elems(kern, s->R, fl_div_up(fl_div_up(ns[in], x->n), kern->nr),
                                                              kern->nr, block_k, kc);
                while (im > 0 && fixed + bytes_b + bytes_a[im - 1] <= (double)limit)
                    im--;
                const double total = fixed + bytes_b + bytes_a[im];
                const double cost = (pm[im] > 1 ? (pn[in] - 1) * a_again : 0) + (pk[ik] - 1) * k_pass +
                                    (pk[ik] * pn[in] * pm[im] - 1) * (bytes_a[im] + bytes_b) / 16 + total / 16;
                const int least = best < 0 && !could_shrink && ik == nk - 1 && in == nn - 1;
                if ((total <= (double)limit && (best < 0 || cost < best)) || least) {
                    best = cost;
                    blk->kb = b.kb, blk->kc = b.kc, blk->mt = b.mt, blk->nt = b.nt;
                    blk->nb = asked.nb > 0 ? asked.nb : ns[in], blk->mb = asked.mb > 0 ? asked.mb : ms[im];
                    if (total > (double)limit)
                        return 0;
                    if (im == 0)
                        break; /* more N passes only cost more */
                }
            }
        }
    }
    return 1;
}

void falcon_blocking_fill(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob,
                          int threads, size_t limit, falcon_blocking *blk) {
    const falcon_scheme *s = FL_SCHEME(scheme);
    const int swap = fl_wants_transpose(prob);
    if (!limit)
        limit = FALCON_DEFAULT_LIMIT;
    fl_search x = {.kern = kern, .s = s, .t = swap ? fl_transposed_problem(prob) : *prob};
    x.t.M = FL_MAX(x.t.M, 1), x.t.N = FL_MAX(x.t.N, 1), x.t.K = FL_MAX(x.t.K, 1);
    x.m = swap ? s->n : s->m, x.n = swap ? s->m : s->n;
    x.thin = is_thin(kern, s, &x.t);
    falcon_cache_sizes(&x.cache);
    falcon_blocking b = *blk;
    if (swap)
        b.mb = blk->nb, b.nb = blk->mb;
    if (prob->packed_b && b.nb <= 0)
        b.nb = x.t.N;
    /* The passes decide which lines are combined with which, and the order of summation: chosen as
     * for 8 threads, however many there are. What is left to the real number is the tile. */
    const falcon_blocking asked = b;
    falcon_blocking passes = b;
    search(&x, worth_threads(prob, 8), limit, &passes);
    b.kb = b.kb > 0 ? b.kb : passes.kb;
    b.nb = b.nb > 0 ? b.nb : passes.nb;
    b.mb = b.mb > 0 ? b.mb : passes.mb;
    if (b.kc <= 0)
        b.kc = slice_of(&x, b.kb);
    for (;; x.pack_both = 1) { /* again if the threads' share of tiles packed more than was counted */
        falcon_blocking all = b;
        if (x.pack_both && s == &fl_classical_scheme) /* where M and N are cut changes no sum of its */
            all.mb = asked.mb, all.nb = asked.nb;
        const int fits = search(&x, fl_threads(prob, threads), limit, &all);
        blk->mb = swap ? all.nb : all.mb, blk->nb = swap ? all.mb : all.nb;
        blk->kb = all.kb, blk->kc = all.kc, blk->mt = all.mt, blk->nt = all.nt;
        if (!fits || x.pack_both || falcon_workspace(kern, scheme, prob, threads, blk) <= limit)
            break;
    }
    const ptrdiff_t packed = fl_operand_elems(kern, s->R, 1, 1, fl_div_up(FL_MIN(blk->kb, x.t.K), s->k), blk->kc) *
                             (fl_div_up(blk->mb, s->m) + fl_div_up(blk->nb, s->n)) * kern->elem;
    if (!blk->stream_pack) /* past the last-level cache, skip the read that an ordinary store costs */
        blk->stream_pack = packed > x.cache.l3 / 2 ? 2 : 1;
    if (!blk->stream_c)
        blk->stream_c = x.t.M * x.t.N * kern->elem > x.cache.l3 / 2 ? 2 : 1;
}
