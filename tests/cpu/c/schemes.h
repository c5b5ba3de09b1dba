/* schemes.h - schemes for the C test driver, built from dense U, V, W.
 *
 * Strassen; Strassen with some factors scaled by powers of two (rational, yet
 * exact on small integers); and products with classical formats, so that m, k,
 * n differ.  The programs use temporaries, the accumulator and scaled stores,
 * and two thirds of the products reach C through a sum with a slot of its own.
 */
#ifndef FALCON_TEST_SCHEMES_H
#define FALCON_TEST_SCHEMES_H
#include "falcon_cpu.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    int m, k, n, R;
    double *U, *V, *W;
} dense_scheme;

static dense_scheme dense_new(int m, int k, int n, int R) {
    return (dense_scheme){
        m, k, n, R, calloc((size_t)(R * m * k), 8), calloc((size_t)(R * k * n), 8), calloc((size_t)(R * m * n), 8)};
}

static void dense_free(dense_scheme d) {
    free(d.U);
    free(d.V);
    free(d.W);
}

static dense_scheme dense_strassen(int scaled) {
    static const double U[7][4] = {{1, 0, 0, 1}, {0, 0, 1, 1},  {1, 0, 0, 0}, {0, 0, 0, 1},
                                   {1, 1, 0, 0}, {-1, 0, 1, 0}, {0, 1, 0, -1}};
    static const double V[7][4] = {{1, 0, 0, 1}, {1, 0, 0, 0}, {0, 1, 0, -1}, {-1, 0, 1, 0},
                                   {0, 0, 0, 1}, {1, 1, 0, 0}, {0, 0, 1, 1}};
    static const double W[7][4] = {{1, 0, 0, 1},  {0, 0, 1, -1}, {0, 1, 0, 1}, {1, 0, 1, 0},
                                   {-1, 1, 0, 0}, {0, 0, 0, 1},  {1, 0, 0, 0}};
    dense_scheme d = dense_new(2, 2, 2, 7);
    for (int r = 0; r < 7; r++)
        for (int q = 0; q < 4; q++) {
            const double f = scaled ? (r % 3 == 0 ? 0.5 : r % 3 == 1 ? 2 : -4) : 1;
            const double g = scaled ? (r % 2 ? 0.25 : -1) : 1;
            d.U[r * 4 + q] = U[r][q] * f;
            d.V[r * 4 + q] = V[r][q] * g;
            d.W[r * 4 + q] = W[r][q] / (f * g);
        }
    return d;
}

static dense_scheme dense_classical(int m, int k, int n) {
    dense_scheme d = dense_new(m, k, n, m * k * n);
    int r = 0;
    for (int i = 0; i < m; i++)
        for (int l = 0; l < k; l++)
            for (int j = 0; j < n; j++, r++) {
                d.U[r * m * k + i * k + l] = 1;
                d.V[r * k * n + l * n + j] = 1;
                d.W[r * m * n + i * n + j] = 1;
            }
    return d;
}

static void kron(const double *x, int xr, int xc, const double *y, int yr, int yc, double *out) {
    for (int i = 0; i < xr; i++)
        for (int j = 0; j < xc; j++)
            for (int p = 0; p < yr; p++)
                for (int q = 0; q < yc; q++)
                    out[(i * yr + p) * xc * yc + j * yc + q] = x[i * xc + j] * y[p * yc + q];
}

static dense_scheme dense_compose(dense_scheme a, dense_scheme b) {
    dense_scheme d = dense_new(a.m * b.m, a.k * b.k, a.n * b.n, a.R * b.R);
    for (int r = 0; r < a.R; r++)
        for (int s = 0; s < b.R; s++) {
            const int t = r * b.R + s;
            kron(a.U + r * a.m * a.k, a.m, a.k, b.U + s * b.m * b.k, b.m, b.k, d.U + t * d.m * d.k);
            kron(a.V + r * a.k * a.n, a.k, a.n, b.V + s * b.k * b.n, b.k, b.n, d.V + t * d.k * d.n);
            kron(a.W + r * a.m * a.n, a.m, a.n, b.W + s * b.m * b.n, b.m, b.n, d.W + t * d.m * d.n);
        }
    return d;
}

/* One chain per output, through the accumulator or a temporary in turn; fractions are scaled first, in another one. */
static falcon_program program_of(const double *F, int R, int n_in) {
    const int none = -2; /* neither a register nor FALCON_ACC */
    falcon_op *ops = calloc((size_t)(R * (2 * n_in + 2)), sizeof *ops);
    int n = 0;
    for (int r = 0; r < R; r++) {
        int terms = 0, first = none;
        for (int q = 0; q < n_in; q++)
            terms += F[r * n_in + q] != 0;
        const int sum = r % 2 ? n_in : FALCON_ACC;
        for (int q = 0; q < n_in; q++) {
            const double w = F[r * n_in + q];
            if (w == 0)
                continue;
            if (terms == 1)
                ops[n++] = (falcon_op){FALCON_OP_STORE, r, q, 0, w};
            else if (first == none && w == 1)
                first = q;
            else if (first == none)
                ops[n++] = (falcon_op){FALCON_OP_SCALE, sum, q, 0, w}, first = sum;
            else {
                const int scaled = w != 1 && w != -1;
                if (scaled)
                    ops[n++] = (falcon_op){FALCON_OP_SCALE, n_in + 1, q, 0, w};
                ops[n++] = (falcon_op){w == -1 ? FALCON_OP_SUB : FALCON_OP_ADD, sum, first, scaled ? n_in + 1 : q, 1};
                first = sum;
            }
        }
        if (terms > 1)
            ops[n++] = (falcon_op){FALCON_OP_STORE, r, sum, 0, 1};
    }
    return (falcon_program){.n_in = n_in, .n_out = R, .n_temp = 2, .n_ops = n, .ops = ops};
}

/* Of three products one goes to C itself, one through a sum that it begins and completes, and one through a sum that
 * the next product completes by adding 0. */
static void steps_of(dense_scheme d, falcon_scheme *s) {
    const int c = d.m * d.n, sum = c;
    int32_t *start = calloc((size_t)d.R + 1, sizeof *start);
    falcon_step *w = calloc((size_t)(d.R * (c + 2)), sizeof *w);
    int n = 0, late = -1; /* the product whose sum is still to be completed */
    for (int r = 0; r < d.R; r++) {
        const int through = late < 0 && r % 3 == 1, later = late < 0 && r % 3 == 2 && r + 1 < d.R;
        if (through || later)
            w[n++] = (falcon_step){sum, FALCON_PRODUCT, FALCON_FIRST | (through ? FALCON_LAST : 0), -1};
        if (late >= 0) {
            w[n++] = (falcon_step){sum, FALCON_PRODUCT, FALCON_LAST, 0};
            for (int q = 0; q < c; q++)
                if (d.W[late * c + q] != 0)
                    w[n++] = (falcon_step){q, sum, 0, -d.W[late * c + q]};
        }
        late = later ? r : -1;
        for (int q = 0; q < c && !later; q++)
            if (d.W[r * c + q] != 0)
                w[n++] = (falcon_step){q, through ? sum : FALCON_PRODUCT, 0, d.W[r * c + q] * (through ? -1 : 1)};
        start[r + 1] = n;
    }
    for (int q = 0; q < c; q++) {
        int first = -1, last = -1;
        for (int e = 0; e < n; e++)
            if (w[e].slot == q)
                first = first < 0 ? e : first, last = e;
        w[first].flags |= FALCON_FIRST, w[last].flags |= FALCON_LAST;
    }
    s->w_start = start, s->w = w, s->n_slots = c + 1;
}

static falcon_scheme scheme_of(dense_scheme d) {
    falcon_scheme s = {.m = d.m, .k = d.k, .n = d.n, .R = d.R, .parts = 1};
    s.u = program_of(d.U, d.R, d.m * d.k);
    s.v = program_of(d.V, d.R, d.k * d.n);
    steps_of(d, &s);
    dense_free(d);
    return s;
}

/* Of complex matrices, with three (or four) real products for each of d. */
static falcon_scheme complex_scheme_of(dense_scheme d, int four) {
    static const double U[2][4][2] = {{{1, 0}, {0, 1}, {1, 1}}, {{1, 0}, {0, 1}, {1, 0}, {0, 1}}};
    static const double V[2][4][2] = {{{1, 0}, {0, 1}, {1, 1}}, {{1, 0}, {0, 1}, {0, 1}, {1, 0}}};
    static const double W[2][4][2] = {{{1, -1}, {-1, -1}, {0, 1}}, {{1, 0}, {-1, 0}, {0, 1}, {0, 1}}};
    const int a = d.m * d.k, b = d.k * d.n, c = d.m * d.n, rank = four ? 4 : 3;
    dense_scheme x = dense_new(2 * d.m, d.k, d.n, rank * d.R); /* a block of C for each part */
    x.V = realloc(x.V, (size_t)(x.R * b) * 16);
    for (int r = 0; r < d.R; r++)
        for (int s = 0; s < rank; s++) {
            const int t = r * rank + s;
            kron(d.U + r * a, 1, a, U[four][s], 1, 2, x.U + t * 2 * a);
            kron(d.V + r * b, 1, b, V[four][s], 1, 2, x.V + t * 2 * b);
            kron(d.W + r * c, 1, c, W[four][s], 1, 2, x.W + t * 2 * c);
        }
    falcon_scheme s = {.m = d.m, .k = d.k, .n = d.n, .R = x.R, .parts = 2};
    s.u = program_of(x.U, x.R, 2 * a);
    s.v = program_of(x.V, x.R, 2 * b);
    steps_of(x, &s);
    for (int e = 0; e < s.w_start[s.R]; e++) {
        int other = e + 1; /* the step that completes the other part */
        while (other < s.w_start[s.R] && !(s.w[other].slot == (s.w[e].slot ^ 1) && s.w[other].flags & FALCON_LAST))
            other++;
        if (s.w[e].slot < 2 * c && s.w[e].flags & FALCON_LAST && other < s.w_start[s.R])
            ((falcon_step *)s.w)[e].flags |= FALCON_WAITS;
    }
    dense_free(x);
    dense_free(d);
    return s;
}

static void scheme_free(falcon_scheme s) {
    free((void *)s.u.ops);
    free((void *)s.v.ops);
    free((void *)s.w_start);
    free((void *)s.w);
}

#endif
