/* direct.c - products of operands that fit into the caches, by kernels that read and write them where they are.
 *
 * Strips of A's rows by panels of B's columns, which stay in L1 meanwhile.  Where B's rows are not contiguous it is
 * packed first, panel by panel, or as a whole where the room suffices: then further products can use it.
 *
 * The team claims runs of matrices, each of which is multiplied by one thread; where there are few of them, runs of
 * their strips or panels, whichever are more; panels where B is packed, so that each is packed once.  The next matrix
 * is prefetched meanwhile.
 */
#include "engine.h"
#include "team.h"
#include <stdatomic.h>

/* The longest K of such a product, and the most bytes of B, whose rows may be on as many pages. Where more than a few
 * strips of A read B where it is, and from beyond L2, packed panels are up to twice as fast (512^3 float64, a Xeon). */
enum { DIRECT_K = 1024, FEW_STRIPS = 2, DIRECT_B_MOST = 2 << 20, DIRECT_B = 768 << 10 };
/* Bytes of a product from which the next one's matrices are prefetched: hardware prefetchers follow smaller ones. */
enum { PREFETCHED = 12 << 10 };
/* Multiply-adds up to which products are multiplied so: 1.05 to 2 times as fast as with packed panels. */
static const double direct_macs = 640.0 * 640 * 640;

static int packs_b(const falcon_problem *q) {
    return q->b_cs != 1 || q->complex_b;
}

int fl_is_direct(const falcon_kernel *kern, const falcon_problem *q) {
    const int by_panels = q->packed_b || q->weights || q->one_order;
    return kern->direct && q->c_cs == 1 && !q->triangle && !q->mirror && !by_panels && q->K > 0 && q->K <= DIRECT_K &&
           q->K * q->N * kern->elem <= (packs_b(q) || q->M <= FEW_STRIPS * kern->mr ? DIRECT_B_MOST : DIRECT_B) &&
           (!packs_b(q) || q->K * kern->nr * kern->elem <= FL_SCRATCH) &&
           (double)q->M * (double)q->N * (double)q->K <= direct_macs;
}

ptrdiff_t fl_direct_pieces(const falcon_kernel *kern, const falcon_problem *q) {
    const ptrdiff_t strips = fl_div_up(q->M, kern->mr), panels = fl_div_up(q->N, kern->nr);
    return !packs_b(q) && strips >= panels ? strips : panels;
}

fl_place fl_nth(const falcon_batch *b, ptrdiff_t n) {
    fl_place x = {.offset = {0}};
    for (int axis = b->axes - 1; axis >= 0; axis--) {
        x.at[axis] = n % b->extent[axis];
        n /= b->extent[axis];
        for (int i = 0; i < 3; i++)
            x.offset[i] += x.at[axis] * b->step[i][axis];
    }
    return x;
}

void fl_advance(const falcon_batch *b, fl_place *x) {
    for (int axis = b->axes - 1; axis >= 0; axis--) {
        x->at[axis]++;
        for (int i = 0; i < 3; i++)
            x->offset[i] += b->step[i][axis];
        if (x->at[axis] < b->extent[axis])
            return;
        for (int i = 0; i < 3; i++)
            x->offset[i] -= b->extent[axis] * b->step[i][axis];
        x->at[axis] = 0;
    }
}

/* Multiply-adds of a claim, about 10 microseconds of work; what a matrix costs besides; least claims of a thread. */
static const double macs_per_claim = 5e5, macs_of_a_matrix = 500;
enum { CLAIMS_PER_THREAD = 8 };

fl_claims fl_claims_of(const falcon_problem *q, ptrdiff_t count, int team, ptrdiff_t pieces) {
    const double macs = (double)q->M * (double)q->N * (double)q->K + macs_of_a_matrix;
    fl_claims x = {.team = team, .parts = 1};
    const ptrdiff_t claims = (ptrdiff_t)team * CLAIMS_PER_THREAD;
    if (team > 1 && count < claims) /* parts of at least half a claim */
        x.parts = FL_MAX(1, FL_MIN(FL_MIN(pieces, fl_div_up(claims, count)), (ptrdiff_t)(2 * macs / macs_per_claim)));
    x.units = count * x.parts;
    x.grab = FL_MAX(1, FL_MIN((ptrdiff_t)(macs_per_claim / macs * (double)x.parts), x.units / claims));
    return x;
}

typedef struct {
    const falcon_kernel *kern;
    const falcon_problem *prob;
    falcon_direct how;
    ptrdiff_t strips, rows;  /* of A: their number, rows of each */
    ptrdiff_t panels, width; /* of B: their number, columns of each */
    ptrdiff_t panel;         /* bytes of a packed one */
    int in_place, is_kept;   /* whether B is not packed; whether all its panels have room */
    int by_strips;           /* whether strips are the pieces that threads claim, not panels */
    ptrdiff_t whole;         /* its steps that are packed in vectors */
    int prefetches;          /* whether the next matrices are prefetched */
} fl_direct;
typedef struct {
    const char *a, *b;
    char *c;
} fl_matrices;

static fl_direct direct_of(const falcon_kernel *kern, const falcon_problem *q) {
    const ptrdiff_t elem = kern->elem, vectors = fl_div_up(q->N, kern->vlen), most = kern->nr / kern->vlen;
    fl_direct d = {.kern = kern, .prob = q, .in_place = !packs_b(q)};
    d.strips = fl_div_up(q->M, kern->mr);
    d.rows = fl_div_up(q->M, d.strips);
    d.panels = fl_div_up(vectors, most);
    d.by_strips = d.in_place && d.strips >= d.panels;
    d.width = fl_div_up(vectors, d.panels) * kern->vlen;
    d.whole = q->K / kern->vlen * kern->vlen;
    const ptrdiff_t lanes = d.whole ? kern->nr : FL_MIN(q->N, d.width); /* from row to row of a packed panel */
    d.how = (falcon_direct){.K = q->K,
                            .a_rs = q->a_rs * elem,
                            .a_cs = q->a_cs * elem,
                            .b_rs = (d.in_place ? q->b_rs : lanes) * elem,
                            .c_rs = q->c_rs * elem,
                            .alpha = q->alpha,
                            .beta = q->beta};
    d.panel = d.in_place ? 0 : fl_up(q->K * kern->nr * elem, FL_LINE);
    d.is_kept = d.panel * d.panels <= FL_SCRATCH;
    d.prefetches = (q->M * q->K + q->K * q->N + q->M * q->N) * elem >= PREFETCHED;
    return d;
}

/* Lines of a matrix, K at a time, which one call of a kernel prefetches. */
typedef struct {
    const char *at;
    ptrdiff_t step, rows, bytes; /* rows of so many bytes, step apart */
    ptrdiff_t row, column;       /* the next ones */
} fl_lines;

static fl_lines lines_of(const void *at, ptrdiff_t rs, ptrdiff_t cs, ptrdiff_t rows, ptrdiff_t columns,
                         ptrdiff_t elem) {
    const int by_rows = cs == 1;
    return (fl_lines){.at = at,
                      .step = (by_rows ? rs : cs) * elem,
                      .rows = by_rows ? rows : columns,
                      .bytes = (by_rows ? columns : rows) * elem};
}

/* The first of the lines that the next call prefetches; NULL if there are none left. */
static const char *next_lines(fl_lines *x, ptrdiff_t K) {
    const char *at = x->at + x->row * x->step + x->column;
    if (x->column >= x->bytes)
        return NULL;
    if ((x->row += K) >= x->rows)
        x->row = 0, x->column += FL_LINE;
    return at;
}

/* A part of a product of matrices at these addresses, some strips or panels of it.  next: the matrices to prefetch
 * meanwhile.  *packed: the B that the thread's scratch memory holds, or NULL. */
static void multiply_part(const fl_direct *d, fl_matrices at, fl_matrices next, ptrdiff_t part, ptrdiff_t parts,
                          const char **packed) {
    const falcon_problem *q = d->prob;
    const falcon_kernel *kern = d->kern;
    const ptrdiff_t elem = kern->elem, by_rows = d->by_strips ? parts : 1, by_columns = parts / by_rows;
    const ptrdiff_t first = part % by_rows * d->strips / by_rows * d->rows;
    const ptrdiff_t M = FL_MIN(q->M, (part % by_rows + 1) * d->strips / by_rows * d->rows);
    const ptrdiff_t first_panel = part % by_columns * d->panels / by_columns;
    const ptrdiff_t N = FL_MIN(q->N, (part % by_columns + 1) * d->panels / by_columns * d->width);
    const int is_packed = d->is_kept && *packed == at.b;
    fl_lines ahead[3];
    int a = 3;
    if (d->prefetches) {
        const ptrdiff_t parts = 1 + q->complex_b;
        ahead[0] = lines_of(next.b, q->b_rs, q->b_cs, q->K / parts, q->N / parts, parts * elem);
        ahead[1] = lines_of(next.a, q->a_rs, q->a_cs, q->M, q->K, elem);
        ahead[2] = lines_of(next.c, q->c_rs, q->c_cs, q->M, q->N, elem);
        a = next.b == at.b;
    }
    char *room = d->in_place ? NULL : fl_scratch();
    for (ptrdiff_t j = first_panel, z = j * d->width; z < N; j++, z += d->width) {
        const ptrdiff_t cols = FL_MIN(d->width, N - z);
        const char *b = at.b + z * q->b_cs * elem;
        if (!d->in_place) {
            char *to = room + (d->is_kept ? j : 0) * d->panel;
            if (!is_packed) {
                const ptrdiff_t ld = d->how.b_rs / elem;
                if (q->complex_b)
                    fl_turn(b, q->b_cs, q->b_rs, cols / 2, q->K / 2, elem, to, ld);
                else if (!d->whole)
                    fl_gather(b, q->b_cs, q->b_rs, cols, q->K, elem, to, ld);
                else
                    kern->pack_b(b, q->b_cs, q->b_rs, cols, d->whole, to, d->whole);
                if (!q->complex_b && d->whole &&
                    d->whole < q->K) { /* the last vector of steps: some of them once more */
                    const ptrdiff_t k = q->K - kern->vlen;
                    kern->pack_b(b + k * q->b_rs * elem, q->b_cs, q->b_rs, cols, kern->vlen, to + k * ld * elem,
                                 kern->vlen);
                }
            }
            b = to;
        }
        const falcon_direct_fn *of_columns = kern->direct + (cols - 1) / kern->vlen;
        for (ptrdiff_t x = first; x < M; x += d->rows) {
            const char *pf = NULL;
            while (a < 3 && !(pf = next_lines(ahead + a, q->K)))
                a++;
            char *c = at.c + x * d->how.c_rs + z * elem;
            of_columns[(FL_MIN(d->rows, M - x) - 1) * (kern->nr / kern->vlen)](
                &d->how, at.a + x * d->how.a_rs, b, c, cols, pf ? pf : c, pf ? ahead[a].step : 0);
        }
    }
    *packed = by_columns == 1 ? at.b : NULL;
}

typedef struct {
    fl_direct direct;
    const falcon_batch *batch;
    fl_claims claims;
    ptrdiff_t first;
    int reports;
    atomic_int bad;
} fl_direct_job;

static fl_matrices matrices_at(const falcon_problem *p, const fl_place *x) {
    return (fl_matrices){(const char *)p->a + x->offset[0], (const char *)p->b + x->offset[1],
                         (char *)p->c + x->offset[2]};
}

/* The matrix after the last one of a claim that its thread is likely to do: other threads claim as many meanwhile. */
static fl_matrices likely(const fl_direct_job *j, ptrdiff_t end) {
    const fl_claims *of = &j->claims;
    const ptrdiff_t unit = FL_MIN(end + (of->team - 1) * of->grab, of->units - 1);
    const fl_place x = fl_nth(j->batch, j->first + unit / of->parts);
    return matrices_at(j->direct.prob, &x);
}

static void do_strips(void *job, ptrdiff_t first, ptrdiff_t end) {
    fl_direct_job *j = job;
    fl_direct d = j->direct;
    char watch[FALCON_WATCH] __attribute__((aligned(64))) = {0};
    d.how.watch = j->reports ? watch : NULL;
    const char *packed = NULL;
    const ptrdiff_t parts = j->claims.parts;
    fl_place x = fl_nth(j->batch, j->first + first / parts);
    fl_matrices at = matrices_at(d.prob, &x);
    for (ptrdiff_t u = first, part = first % parts; u < end; u++) {
        const ptrdiff_t now = part;
        if (++part == parts)
            fl_advance(j->batch, &x), part = 0;
        const fl_matrices next = u + 1 < end ? matrices_at(d.prob, &x) : likely(j, end);
        multiply_part(&d, at, next, now, parts, &packed);
        at = next;
    }
    if (j->reports && d.kern->tripped(watch))
        atomic_store(&j->bad, 1);
    d.kern->fence();
}

int fl_direct_batch(const falcon_kernel *kern, const falcon_problem *q, const falcon_batch *batch, ptrdiff_t first,
                    ptrdiff_t count, int team, int reports) {
    fl_direct_job j = {.direct = direct_of(kern, q), .batch = batch, .first = first, .reports = reports};
    j.claims = fl_claims_of(q, count, team, fl_direct_pieces(kern, q));
    fl_team_each(do_strips, &j, j.claims.units, j.claims.grab, team);
    return atomic_load(&j.bad);
}
