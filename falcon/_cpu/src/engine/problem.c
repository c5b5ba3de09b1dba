/* problem.c - orientation, number of threads and special shapes (thin, matrix-vector) of a problem. */
#include "engine.h"
#include "team.h"

/* Multiply-adds that each thread must have to pay for waking it: about 20
 * microseconds of work, a few times what an OpenMP region costs. */
static const double macs_per_thread = 1e6;

static double worth(const falcon_problem *prob) {
    return (double)prob->M * (double)prob->N * (double)prob->K / macs_per_thread;
}

int fl_threads_of(const falcon_problem *prob, int threads) {
    return FL_MAX(1, (int)FL_MIN((double)threads, worth(prob)));
}

int fl_threads(const falcon_problem *prob, int threads) {
    return fl_team_size(worth(prob), threads);
}

/* A column-major C is computed as C' = B'A', so that vectors run along its
 * columns.  A packed B can't become the left operand. */
int fl_wants_transpose(const falcon_problem *prob) {
    return prob->c_cs != 1 && prob->c_rs == 1 && !prob->packed_b;
}

falcon_problem fl_transposed_problem(const falcon_problem *p) {
    falcon_problem t = *p; /* what is listed changes sides; a packed B has no transpose */
    t.M = p->N, t.N = p->M;
    t.a = p->b, t.a_rs = p->b_cs, t.a_cs = p->b_rs, t.a_conj = p->b_conj;
    t.b = p->a, t.b_rs = p->a_cs, t.b_cs = p->a_rs, t.b_conj = p->a_conj;
    t.c_rs = p->c_cs, t.c_cs = p->c_rs, t.mirror_rs = p->mirror_cs, t.mirror_cs = p->mirror_rs;
    t.a_units = p->b_units, t.b_units = p->a_units;
    t.a_scale = p->b_scale, t.a_means = p->b_means, t.a_means_step = p->b_means_step;
    t.b_scale = p->a_scale, t.b_means = p->a_means, t.b_means_step = p->a_means_step;
    t.left = p->right, t.right = p->left;
    t.triangle = p->triangle == FALCON_WHOLE ? FALCON_WHOLE : FALCON_LOWER + FALCON_UPPER - p->triangle;
    return t;
}

/* So few rows that a copy of B would cost more than it saves: B is read in
 * place, if its rows are contiguous.  Decided by shape and strides alone,
 * because the K slices depend on it.  In one order slices are long, and rows of
 * B are in the way of one another: packing them was faster for 8 rows of A
 * (float32, 4096 x 4096: 3.9 ms, in place 2 for 4 rows, 7 to 8 for 8). */
int fl_is_thin(const falcon_kernel *kern, const falcon_scheme *s, const falcon_problem *t) {
    const int in_place = s == &fl_classical_scheme && !t->packed_b && !t->weights && t->b_cs == 1;
    return in_place && t->M <= kern->rows_in_place / (t->one_order ? 4 : 1);
}

int falcon_reads_b_in_place(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob) {
    const int by_rows = !scheme && !prob->packed_b && prob->b_cs == 1 && !fl_wants_transpose(prob);
    return by_rows && (fl_is_thin(kern, FL_SCHEME(scheme), prob) || kern->streams_rows);
}

int fl_is_gemv(const falcon_scheme *scheme, const falcon_problem *prob) {
    const int by_panels = prob->packed_b || prob->weights || prob->one_order;
    return !scheme && !by_panels && !prob->triangle && !prob->mirror && (prob->M == 1 || prob->N == 1);
}

int falcon_form(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob) {
    const int swap = fl_wants_transpose(prob);
    const falcon_problem t = swap ? fl_transposed_problem(prob) : *prob;
    return swap | fl_is_thin(kern, FL_SCHEME(scheme), &t) << 1 | fl_is_gemv(scheme, prob) << 2 |
           falcon_in_forked_child() << 3 | (!scheme && fl_is_direct(kern, &t) ? FALCON_IN_PLACE : 0);
}
