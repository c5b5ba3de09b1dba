/* direct.c - products of operands that fit into the caches, by kernels that read and write them where they are.
 *
 * Strips of A's rows by panels of B's columns, which stay in L1 meanwhile.  Where B's rows are not contiguous it is
 * packed first, panel by panel, or as a whole where the room suffices: then further products can use it.
 */
#include "engine.h"

/* The longest K of such a product: one slice of it in the other paths too, so that they add up in the same order. */
enum { DIRECT_K = 256 };
/* Bytes of a product from which the next one's matrices are prefetched: hardware prefetchers follow smaller ones. */
enum { PREFETCHED = 12 << 10 };
/* Multiply-adds up to which operands stay in L2. */
static const double direct_macs = 256.0 * 256 * 256;

int fl_is_direct(const falcon_kernel *kern, const falcon_problem *q) {
    return kern->direct && q->c_cs == 1 && !q->triangle && !q->mirror && !q->packed_b && q->K > 0 &&
           q->K <= FL_MIN(DIRECT_K, kern->kc) && q->alpha.real != 0 &&
           (double)q->M * (double)q->N * (double)q->K <= direct_macs;
}

fl_direct fl_direct_of(const falcon_kernel *kern, const falcon_problem *q, void *watch) {
    const ptrdiff_t elem = kern->elem, vectors = fl_div_up(q->N, kern->vlen), most = kern->nr / kern->vlen;
    const int in_place = q->b_cs == 1;
    fl_direct d = {.kern = kern, .prob = q, .in_place = in_place};
    d.how = (falcon_direct){.K = q->K,
                            .a_rs = q->a_rs * elem,
                            .a_cs = q->a_cs * elem,
                            .b_rs = (in_place ? q->b_rs : kern->nr) * elem,
                            .c_rs = q->c_rs * elem,
                            .alpha = q->alpha,
                            .beta = q->beta,
                            .watch = watch};
    d.strips = fl_div_up(q->M, kern->mr);
    d.rows = fl_div_up(q->M, d.strips);
    d.panels = fl_div_up(vectors, most);
    d.width = fl_div_up(vectors, d.panels) * kern->vlen;
    d.panel = in_place ? 0 : fl_up(q->K * kern->nr * elem, FL_LINE);
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

void fl_direct_strips(const fl_direct *d, fl_matrices at, const fl_matrices *next, ptrdiff_t first, ptrdiff_t end,
                      const char **packed) {
    const falcon_problem *q = d->prob;
    const falcon_kernel *kern = d->kern;
    const ptrdiff_t elem = kern->elem, M = FL_MIN(q->M, end * d->rows);
    const int is_packed = d->is_kept && *packed == at.b;
    fl_lines ahead[3];
    int a = 3;
    if (next && d->prefetches) {
        ahead[0] = lines_of(next->b, q->b_rs, q->b_cs, q->K, q->N, elem);
        ahead[1] = lines_of(next->a, q->a_rs, q->a_cs, q->M, q->K, elem);
        ahead[2] = lines_of(next->c, q->c_rs, q->c_cs, q->M, q->N, elem);
        a = next->b == at.b;
    }
    char *room = d->in_place ? NULL : fl_scratch();
    for (ptrdiff_t j = 0, z = 0; z < q->N; j++, z += d->width) {
        const ptrdiff_t cols = FL_MIN(d->width, q->N - z);
        const char *b = at.b + z * q->b_cs * elem;
        if (!d->in_place) {
            char *to = room + (d->is_kept ? j : 0) * d->panel;
            if (!is_packed)
                kern->pack_b(b, q->b_cs, q->b_rs, cols, q->K, to, q->K);
            b = to;
        }
        const falcon_direct_fn *of_columns = kern->direct + (cols - 1) / kern->vlen;
        for (ptrdiff_t x = first * d->rows; x < M; x += d->rows) {
            const char *pf = NULL;
            while (a < 3 && !(pf = next_lines(ahead + a, q->K)))
                a++;
            char *c = at.c + x * d->how.c_rs + z * elem;
            of_columns[(FL_MIN(d->rows, M - x) - 1) * (kern->nr / kern->vlen)](
                &d->how, at.a + x * d->how.a_rs, b, c, cols, pf ? pf : c, pf ? ahead[a].step : 0);
        }
    }
    *packed = at.b;
}
