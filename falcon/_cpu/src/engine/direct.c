/* direct.c - products of operands that fit into the caches, by kernels that read and write them where they are.
 *
 * Strips of A's rows by panels of B's columns, which stay in L1 meanwhile.  Where B's rows are not contiguous it is
 * packed first, panel by panel, or as a whole where the room suffices: then further products can use it.
 */
#include "engine.h"

/* The longest K of such a product: one slice of it in the other paths too, so that they add up in the same order. */
enum { DIRECT_K = 256 };
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
    return d;
}

void fl_direct_strips(const fl_direct *d, const char *a, const char *b, char *c, ptrdiff_t first, ptrdiff_t end,
                      const char **packed) {
    const falcon_problem *q = d->prob;
    const falcon_kernel *kern = d->kern;
    const ptrdiff_t elem = kern->elem, M = FL_MIN(q->M, end * d->rows);
    const int is_packed = d->is_kept && *packed == b;
    char *room = d->in_place ? NULL : fl_scratch();
    for (ptrdiff_t j = 0, z = 0; z < q->N; j++, z += d->width) {
        const ptrdiff_t cols = FL_MIN(d->width, q->N - z);
        const char *from = b + z * q->b_cs * elem;
        if (!d->in_place) {
            char *to = room + (d->is_kept ? j : 0) * d->panel;
            if (!is_packed)
                kern->pack_b(from, q->b_cs, q->b_rs, cols, q->K, to, q->K);
            from = to;
        }
        const falcon_direct_fn *of_columns = kern->direct + (cols - 1) / kern->vlen;
        for (ptrdiff_t x = first * d->rows; x < M; x += d->rows)
            of_columns[(FL_MIN(d->rows, M - x) - 1) * (kern->nr / kern->vlen)](
                &d->how, a + x * d->how.a_rs, from, c + x * d->how.c_rs + z * elem, cols);
    }
    *packed = b;
}
