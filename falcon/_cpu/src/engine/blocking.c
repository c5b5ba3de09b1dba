/* blocking.c - how a call is cut: passes, K slices, C tiles.
 *
 * Everything here is a pure function of shapes, strides, scheme, kernel, cache
 * sizes and thread count.  What decides the order of summation (kb, kc) does
 * not look at the thread count, so results don't depend on it.
 */
#include "engine.h"

/* x cut into `parts` equal parts, each a multiple of `grain` (but the last). */
static ptrdiff_t part_of(ptrdiff_t x, ptrdiff_t parts, ptrdiff_t grain) {
    return parts == 1 ? x : FL_MAX(grain, fl_up(fl_div_up(x, parts), grain));
}

/* The problem as the search sees it, after transposition. */
typedef struct {
    const falcon_kernel *kern;
    const falcon_scheme *s;
    falcon_problem t;
    int m, n, thin;
    enum {
        COUNT_LIKELY,
        COUNT_SHARED,
        COUNT_BOTH
    } count; /* the panels that count in the workspace, of an operand that
              * each tile may pack for itself or all tiles may share */
    int threads;
    size_t limit;
    falcon_caches cache;
} fl_search;

/* Steps of a slice of a thin problem, in any order: few, so that few rows of B are read at a time (rows 4 KiB apart
 * share an L1 set). */
enum { THIN_SLICE = 16 };

static ptrdiff_t slice_of(const fl_search *x, ptrdiff_t kb) {
    const ptrdiff_t block_k = fl_div_up(FL_MIN(kb, x->t.K), x->s->k);
    const ptrdiff_t slices = fl_div_up(block_k, x->thin && !x->t.one_order ? THIN_SLICE : x->kern->kc);
    return fl_up(fl_div_up(block_k, slices), x->kern->k_grain);
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

/* Tiles are one panel of A high where B has at most FEW_COLUMN_PANELS panels and each thread has MANY_ROW_PANELS of A.
 * THIN_TILE: the most panels of B in a tile of a thin problem. */
enum { FEW_COLUMN_PANELS = 2, MANY_ROW_PANELS = 16, THIN_TILE = 256 };

/* Whether B's panels, packed once for all tiles, would go to memory and back, and caches hold those of a slice of A: up
 * to HIGH_TILE bytes, and an eighth of L3.  Then tiles are as high as C, and pack B's panels for themselves. */
enum { HIGH_TILE = 1600 << 10 };

static int has_high_tiles(const fl_search *x, ptrdiff_t panels_a, ptrdiff_t panel_a) {
    const ptrdiff_t l3 = x->cache.l3, of_b = x->t.K * x->t.N * x->kern->panel;
    return x->s == &fl_classical_scheme && !x->t.packed_b && !x->t.triangle && of_b > l3 / 2 &&
           panels_a * panel_a <= FL_MIN(HIGH_TILE, l3 / 8);
}

/* Choose mt and nt where they are 0. */
static void choose_tile(const fl_search *x, falcon_blocking *b) {
    const falcon_kernel *kern = x->kern;
    const int keep = b->mt > 0 || b->nt > 0, threads = FL_MAX(1, x->threads);
    const ptrdiff_t panel_b = b->kc * kern->nr * kern->panel, panel_a = b->kc * kern->mr * kern->panel;
    const int b_kept = fl_b_kept(kern, fl_div_up(FL_MIN(b->kb, x->t.K), x->s->k), b->kc);
    const ptrdiff_t lines_b = fl_div_up(fl_div_up(x->t.N, x->n), kern->nr);
    if (x->thin)
        b->nt = b->nt > 0 ? b->nt : FL_MIN(THIN_TILE, FL_MAX(1, fl_div_up(lines_b, threads)));
    else if (lines_b <= FEW_COLUMN_PANELS && b->mt <= 0 && x->s == &fl_classical_scheme &&
             x->t.M >= MANY_ROW_PANELS * kern->mr * threads)
        b->mt = 1;
    const ptrdiff_t lines_a = fl_div_up(x->t.M, kern->mr);
    const int is_high = !keep && b->mt <= 0 && !x->thin && has_high_tiles(x, lines_a, panel_a);
    if (is_high)
        b->mt = lines_a;
    /* The streaming block (panels of one slice) is read once per kept panel and stays in L2; the other one
     * may exceed L2, as its panels pass through L1 one at a time.  The kernel says how much of L2 each may take. */
    const ptrdiff_t a_share = kern->tile[b_kept].a_share, b_share = kern->tile[b_kept].b_share, l2 = x->cache.l2;
    if (b->nt <= 0)
        b->nt = FL_MIN(kern->tile[b_kept].b_panels, FL_MAX(1, l2 * b_share / 100 / panel_b));
    if (is_high) /* a tile for each thread */
        b->nt = FL_MIN(b->nt, fl_div_up(lines_b, threads));
    if (b->mt <= 0)
        b->mt = FL_MIN(kern->tile[b_kept].a_panels, FL_MAX(1, l2 * a_share / 100 / panel_a));
    /* The m*n accumulators of a tile are touched once per product: they may take a thread's share of L3, but no more
     * (the few accumulators of shared sums not counted); many threads have more than one L3. */
    const ptrdiff_t room = FL_MAX(2 * l2, x->cache.l3 / FL_MIN(threads, FL_MAX(1, x->cache.l3_sharers)));
    while (!keep && fl_blocks_of_c(x->s) * b->mt * b->nt * fl_micro_bytes(kern) > room && halve_tile(kern, b)) {
    }
}

/* Numbers of passes that are tried along each dimension. */
static const int16_t pass_counts[] = {1,  2,  3,  4,  5,  6,  7,  8,   9,   10,  11,  12,  13,   14,   15,   16,
                                      20, 24, 28, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096, 8192};
enum { N_COUNTS = sizeof pass_counts / sizeof *pass_counts };

/* Part sizes worth trying along one dimension, one per number of passes they make. */
typedef struct {
    int n;
    ptrdiff_t size[N_COUNTS];
    double passes[N_COUNTS];
} fl_parts;

/* List the part sizes of x; keep > 0: that one only. */
static void list_parts(ptrdiff_t x, ptrdiff_t grain, ptrdiff_t keep, fl_parts *out) {
    int n = 0;
    for (int i = 0; i < (keep > 0 ? 1 : N_COUNTS); i++) {
        out->size[n] = keep > 0 ? FL_MIN(keep, x) : part_of(x, pass_counts[i], grain);
        out->passes[n] = (double)fl_div_up(x, out->size[n]);
        n += n == 0 || out->size[n] < out->size[n - 1];
    }
    out->n = n;
}

/* What the search has found so far.
 *
 * Its cost is the extra traffic, in bytes moved:
 *   - A combined again for every N pass if there is more than one M pass
 *     (driver.c; B never is, M passes being innermost);
 *   - per further K pass, C read and written and W's terms added once more, at
 *     a quarter of their bytes as they stay in cache;
 *   - per pass, a sixteenth of its panels for the cold start and the barrier;
 *   - a sixteenth of the workspace.
 * At 4096 (two levels, f32, 2 threads) these terms agreed with measurements:
 * 2 to 3 % for combining A twice, as much for a second K pass, under 1 % for
 * 4 N passes. */
typedef struct {
    double cost; /* negative: nothing fits yet */
    int fits;
    falcon_blocking blk;
} fl_found;
static const double sums_in_cache = 0.25, cold_start = 1.0 / 16, memory_price = 1.0 / 16;

/* One cut of K: its tile, what is packed, and the bytes that all threads' buffers take. */
typedef struct {
    falcon_blocking b;
    ptrdiff_t block_k, kc;
    int pack_a, pack_b;
    double fixed;
} fl_cut;

/* Choose the tile for b's kb; halve it `shrunk` times at least, and until the threads' buffers take no more than half
 * of the limit. */
static fl_cut cut_of(const fl_search *x, falcon_blocking b, ptrdiff_t kb, int shrunk, int keep_tile) {
    const falcon_kernel *kern = x->kern;
    const int classical = x->s == &fl_classical_scheme;
    b.kc = b.kc > 0 ? b.kc : slice_of(x, b.kb);
    choose_tile(x, &b);
    fl_cut c = {.block_k = fl_div_up(kb, x->s->k)};
    c.kc = fl_slice(kern, b.kc, c.block_k);
    const ptrdiff_t pa = fl_div_up(fl_div_up(x->t.M, x->m), kern->mr);
    const ptrdiff_t pb = fl_div_up(fl_div_up(x->t.N, x->n), kern->nr);
    for (int halvings = 0;; halvings++) {
        /* an operand that a tile no longer holds whole is packed for all tiles */
        c.pack_a = !classical || x->count || pb > b.nt;
        c.pack_b = !x->t.packed_b && !x->thin && (!classical || x->count || pa > b.mt);
        fl_layout lay = {.a_mode = classical ? FALCON_LOCAL : FALCON_PACKED,
                         .b_mode = x->thin                              ? FALCON_DIRECT
                                   : c.pack_b && x->count != COUNT_BOTH ? FALCON_PACKED
                                                                        : FALCON_LOCAL};
        fl_thread_buffers(kern, x->s, FL_MIN(b.mt, pa), FL_MIN(b.nt, pb), c.block_k, c.kc, &lay);
        c.fixed = (double)lay.per_thread * x->threads;
        if (keep_tile || (halvings >= shrunk && c.fixed <= 0.5 * (double)x->limit) || !halve_tile(kern, &b))
            break;
    }
    c.b = b;
    return c;
}

static double panels_bytes(const fl_search *x, const fl_cut *c, ptrdiff_t lines, int blocks, int width) {
    const ptrdiff_t panels = fl_div_up(fl_div_up(lines, blocks), width);
    return (double)fl_operand_bytes(x->kern, x->s->R, panels, width, c->block_k, c->kc);
}

/* Try the parts of M and N with one cut of K in `k_passes` parts.  last: take the smallest ones if nothing fits. */
static void try_cut(const fl_search *x, const fl_cut *c, const fl_parts *ms, const fl_parts *ns, double k_passes,
                    double k_pass, int last, fl_found *found) {
    const double a_again =
        x->kern->elem * (double)x->t.M * (double)x->t.K * (x->s->parts + (double)x->s->R / (x->s->m * x->s->k));
    const double limit = (double)x->limit;
    double bytes_a[N_COUNTS];
    for (int i = 0; i < ms->n; i++)
        bytes_a[i] = c->pack_a ? panels_bytes(x, c, ms->size[i], x->m, x->kern->mr) : 0;
    int im = ms->n - 1; /* the fewest M passes that fit, fewer and fewer as N passes grow */
    for (int in = 0; in < ns->n; in++) {
        const double bytes_b = c->pack_b ? panels_bytes(x, c, ns->size[in], x->n, x->kern->nr) : 0;
        while (im > 0 && c->fixed + bytes_b + bytes_a[im - 1] <= limit)
            im--;
        const double total = c->fixed + bytes_b + bytes_a[im], passes = k_passes * ns->passes[in] * ms->passes[im];
        const double cost = (ms->passes[im] > 1 ? (ns->passes[in] - 1) * a_again : 0) + (k_passes - 1) * k_pass +
                            (passes - 1) * (bytes_a[im] + bytes_b) * cold_start + total * memory_price;
        const int least = last && found->cost < 0 && in == ns->n - 1;
        if ((total > limit || (found->cost >= 0 && cost >= found->cost)) && !least)
            continue;
        *found = (fl_found){cost, total <= limit, c->b};
        found->blk.nb = ns->size[in], found->blk.mb = ms->size[im];
        if (im == 0)
            break; /* more N passes only cost more */
    }
}

/* Choose those of kb, kc, mb, nb, mt, nt that are 0, so that the workspace keeps the limit with the least extra
 * traffic. If nothing fits: the least workspace that was found, and 0. */
static int search(const fl_search *x, falcon_blocking *blk) {
    const falcon_scheme *s = x->s;
    const falcon_problem *t = &x->t;
    const falcon_blocking asked = *blk;
    const int keep_tile = asked.mt > 0 || asked.nt > 0;
    const double k_pass = (double)x->kern->elem * (double)t->M * (double)t->N *
                          (2 * s->parts + sums_in_cache * s->w_start[s->R] / (s->m * s->n));
    fl_parts ks, ns, ms;
    list_parts(t->K, x->kern->k_grain * s->k, x->thin && !asked.kb ? t->K : asked.kb, &ks);
    list_parts(t->N, x->kern->nr * x->n, asked.nb, &ns);
    list_parts(t->M, x->kern->mr * x->m, asked.mb, &ms);
    fl_found found = {-1, 0, asked};
    for (int shrunk = 0; found.cost < 0; shrunk++) {
        int could_shrink = 0;
        for (int i = 0; i < ks.n && (found.cost < 0 || (ks.passes[i] - 1) * k_pass < found.cost); i++) {
            falcon_blocking b = asked;
            b.kb = asked.kb > 0 ? asked.kb : ks.size[i];
            const fl_cut c = cut_of(x, b, ks.size[i], shrunk, keep_tile);
            could_shrink |= !keep_tile && (c.b.mt > 1 || c.b.nt > 1);
            try_cut(x, &c, &ms, &ns, ks.passes[i], k_pass, !could_shrink && i == ks.n - 1, &found);
            if (found.cost >= 0 && !found.fits)
                break;
        }
    }
    *blk = found.blk;
    if (asked.nb > 0)
        blk->nb = asked.nb;
    if (asked.mb > 0)
        blk->mb = asked.mb;
    return found.fits;
}

/* mb and nb belong to C as the caller sees it; the search may see it transposed. */
static falcon_blocking seen_as(falcon_blocking b, int transposed) {
    const ptrdiff_t mb = b.mb;
    if (transposed)
        b.mb = b.nb, b.nb = mb;
    return b;
}

/* Results must depend neither on the number of threads nor on caches: passes and slices are those of USUAL_THREADS
 * with caches as large as those of server processors, so that the workspace of most machines is no larger. */
enum { USUAL_THREADS = 8, USUAL_L2 = 2 << 20, USUAL_L3 = 32 << 20 };

/* Choose the passes (mb, nb, kb) and the slice (kc) where they are 0.  They decide which lines are combined with
 * which, and the order of summation. */
static falcon_blocking choose_passes(fl_search x, falcon_blocking asked) {
    falcon_blocking found = asked;
    x.cache.l2 = USUAL_L2, x.cache.l3 = USUAL_L3, x.cache.l3_sharers = USUAL_THREADS;
    search(&x, &found);
    found.mt = asked.mt, found.nt = asked.nt;
    return found;
}

static int keeps_limit(const fl_search *x, const falcon_problem *prob, const falcon_blocking *b) {
    const falcon_scheme *scheme = x->s == &fl_classical_scheme ? NULL : x->s;
    return falcon_workspace(x->kern, scheme, prob, x->threads, b) <= x->limit;
}

/* Choose everything that is 0.
 *
 * The search estimates the workspace: whether tiles pack panels for themselves or share them is known only when the
 * tiles are.  So what it finds is checked against the real workspace, and the next way to search is tried if that
 * exceeds the limit:
 *   1. classical only: as if there were no limit;
 *   2. for what tiles are likely to pack;
 *   3. for panels that all tiles share;
 *   4. for both, which is never too little.
 * Classical sums do not depend on how M and N are cut: 1, 3 and 4 cut them anew, for the real number of threads. */
static falcon_blocking choose(fl_search x, const falcon_problem *prob, int threads, falcon_blocking asked, int swap) {
    x.threads = fl_threads_of(prob, USUAL_THREADS);
    const falcon_blocking passes = choose_passes(x, asked);
    falcon_blocking anew = passes, found;
    x.threads = fl_threads(prob, threads);
    if (x.s == &fl_classical_scheme) {
        anew.mb = asked.mb, anew.nb = asked.nb;
        fl_search unlimited = x;
        unlimited.limit = SIZE_MAX / 2;
        found = anew;
        search(&unlimited, &found);
        found = seen_as(found, swap);
        if (keeps_limit(&x, prob, &found))
            return found;
    }
    for (x.count = COUNT_LIKELY;; x.count++) {
        found = x.count == COUNT_LIKELY ? passes : anew;
        const int fits = search(&x, &found);
        found = seen_as(found, swap);
        if (x.count == COUNT_BOTH || (fits && keeps_limit(&x, prob, &found)))
            return found;
    }
}

void falcon_blocking_fill(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob,
                          int threads, size_t limit, falcon_blocking *blk) {
    const falcon_scheme *s = FL_SCHEME(scheme);
    const int swap = fl_wants_transpose(prob);
    fl_search x = {.kern = kern, .s = s, .t = swap ? fl_transposed_problem(prob) : *prob};
    x.t.M = FL_MAX(x.t.M, 1), x.t.N = FL_MAX(x.t.N, 1), x.t.K = FL_MAX(x.t.K, 1);
    x.m = swap ? s->n : s->m, x.n = swap ? s->m : s->n;
    x.thin = fl_is_thin(kern, s, &x.t);
    x.limit = limit ? limit : FALCON_DEFAULT_LIMIT;
    falcon_cache_sizes(&x.cache);
    /* A virtual machine reports all of its host's L3, which its neighbours use too: with 260 MiB and no streaming
     * stores 512 x 4608 x 3584 by Strassen took 1.12 times as long as with 32 MiB. */
    x.cache.l3 = FL_MIN(x.cache.l3, USUAL_L3);
    const ptrdiff_t c_elem = fl_c_elem(kern, prob);
    falcon_blocking asked = seen_as(*blk, swap);
    if (prob->one_order || (c_elem < kern->acc && !kern->exact)) /* C is rounded once, not once per pass over K */
        asked.kb = x.t.K;
    if (prob->packed_b && asked.nb <= 0)
        asked.nb = x.t.N;
    if (asked.mb > 0 && asked.nb > 0 && asked.kb > 0 && asked.kc > 0 && asked.mt > 0 && asked.nt > 0)
        *blk = seen_as(asked, swap); /* it was chosen before */
    else
        *blk = choose(x, prob, threads, asked, swap);
    /* What is larger than half of the last-level cache is stored past it, without being read first. */
    const ptrdiff_t block_k = fl_div_up(FL_MIN(blk->kb, x.t.K), s->k);
    const ptrdiff_t packed = s->R * block_k * (fl_div_up(blk->mb, s->m) + fl_div_up(blk->nb, s->n)) * kern->panel;
    if (!blk->stream_pack)
        blk->stream_pack = packed > x.cache.l3 / 2 ? 2 : 1;
    if (!blk->stream_c)
        blk->stream_c = x.t.M * x.t.N * c_elem * s->parts > x.cache.l3 / 2 ? 2 : 1;
}
