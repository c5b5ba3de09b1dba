/* The steps of fit.h for one type of numbers: `real`, with RELAX as the name of the function. */
#include "fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VECTOR (32 / (int)sizeof(real))
#define PANEL (2 * VECTOR) /* columns of a tile; a row of any matrix here is as many or a multiple */
#define ATTEMPTS 8         /* to take a step, with more and more damping */

/* Instructions chosen when the library is loaded, where the toolchain can. (With FMA it is no faster.) */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FIT_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define FIT_CLONES
#endif

typedef real vec __attribute__((vector_size(32), aligned(sizeof(real))));

typedef struct {
    const fit_problem *asked;
    int all, wide;      /* rows together; rank in whole panels, of which the last columns are 0 */
    long pairs, padded; /* rows of V times rows of W, and in whole panels */
    long size, square;  /* all * wide, wide * wide */
    int even;           /* whether all weights are the same, and all entries free */
    real *weight, *centre;
    real *free;                                     /* 1 or 0 */
    real *products, *turned;                        /* Khatri-Rao product of V and W (pairs, wide), and transposed */
    real *missed;                                   /* what the equations are missed by (rows of U, padded) */
    real *over;                                     /* that, summed over the rows of U (pairs, wide) */
    real *grams[3], *parts[3], *crossed[3], *mixed; /* (wide, wide) */
    real *inverses; /* one (wide, wide) for each mode, or for each row where weights differ */
} fit_state;

/* For the small matrices here this and `invert` are faster than BLAS and LAPACK (docs/finding.md), and
 * the result is the same on every machine of a kind.
 *
 * Matrix product: out (rows, columns) = A B, or out += A B; A[i,k] = a[i * step_i + k * step_k],
 * B (depth, columns) by rows, columns in whole panels. */
FIT_CLONES static void multiply(int rows, int columns, int depth, const real *a, long step_i, long step_k,
                                const real *b, real *out, int add) {
    for (int i = 0; i < rows; i += 4) {
        int left = rows - i < 4 ? rows - i : 4;
        const real *row[4];
        for (int r = 0; r < 4; r++)
            row[r] = a + (i + (r < left ? r : 0)) * step_i;
        for (int j = 0; j < columns; j += PANEL) {
            vec sum[4][2] = {{{0}}};
            const real *line = b + j;
            for (long k = 0; k < depth; k++, line += columns) {
                vec low = *(const vec *)line, high = *(const vec *)(line + VECTOR);
                for (int r = 0; r < 4; r++) {
                    real x = row[r][k * step_k];
                    sum[r][0] += x * low;
                    sum[r][1] += x * high;
                }
            }
            for (int r = 0; r < left; r++) {
                vec *to = (vec *)(out + (long)(i + r) * columns + j);
                to[0] = add ? to[0] + sum[r][0] : sum[r][0];
                to[1] = add ? to[1] + sum[r][1] : sum[r][1];
            }
        }
    }
}

/* Panels are summed in single, their sums in double precision. */
FIT_CLONES static double dot(long size, const real *x, const real *y) {
    double total = 0;
    for (long i = 0; i < size; i += PANEL) {
        vec sum = *(const vec *)(x + i) * *(const vec *)(y + i) +
                  *(const vec *)(x + i + VECTOR) * *(const vec *)(y + i + VECTOR);
        for (int lane = 0; lane < VECTOR; lane++)
            total += sum[lane];
    }
    return total;
}

/* Invert a symmetric positive definite matrix in place, by Gauss and Jordan. */
FIT_CLONES static void invert(int rank, int wide, real *a) {
    for (int k = 0; k < rank; k++) {
        real *pivot = a + (long)k * wide;
        real scale = 1 / pivot[k];
        pivot[k] = 1;
        for (int j = 0; j < wide; j++)
            pivot[j] *= scale;
        for (int i = 0; i < rank; i++) {
            real *row = a + (long)i * wide;
            real share = row[k];
            if (i == k)
                continue;
            row[k] = 0;
            for (int j = 0; j < wide; j++)
                row[j] -= share * pivot[j];
        }
    }
}

/* Sum of the weights' part; adds half of its gradient to `slope`. */
FIT_CLONES static double pulled(const fit_state *f, const real *x, real *slope) {
    double total = 0;
    for (long i = 0; i < f->size; i++) {
        real away = x[i] - f->centre[i], force = f->weight[i] * away;
        total += (double)force * away;
        if (slope)
            slope[i] += force;
    }
    return total;
}

/* The error, and half of its gradient. */
FIT_CLONES static double error_at(fit_state *f, const real *x, real *gradient) {
    const int *rows = f->asked->rows, wide = f->wide;
    const real *v = x + (long)rows[0] * wide, *w = v + (long)rows[1] * wide;
    real *gradient_v = gradient + (long)rows[0] * wide, *gradient_w = gradient_v + (long)rows[1] * wide;
    double error = 0;

    for (long pair = 0; pair < f->pairs; pair++) {
        const real *p = v + pair / rows[2] * wide, *q = w + pair % rows[2] * wide;
        real *line = f->products + pair * wide;
        for (int r = 0; r < wide; r++) {
            line[r] = p[r] * q[r];
            f->turned[r * f->padded + pair] = line[r];
        }
    }
    multiply(rows[0], f->padded, wide, x, wide, 1, f->turned, f->missed, 0);
    for (int i = 0; i < rows[0]; i++) {
        real *line = f->missed + i * f->padded;
        const double *wanted = f->asked->target + i * f->pairs;
        for (long pair = 0; pair < f->pairs; pair++)
            line[pair] -= wanted[pair];
        error += dot(f->padded, line, line);
    }
    multiply(rows[0], wide, f->pairs, f->missed, f->padded, 1, f->products, gradient, 0);
    multiply(f->pairs, wide, rows[0], f->missed, 1, f->padded, x, f->over, 0);
    memset(gradient_v, 0, (size_t)(rows[1] + rows[2]) * wide * sizeof(real));
    for (long pair = 0; pair < f->pairs; pair++) {
        long i = pair / rows[2] * wide, j = pair % rows[2] * wide;
        const real *line = f->over + pair * wide;
        for (int r = 0; r < wide; r++) {
            gradient_v[i + r] += line[r] * w[j + r];
            gradient_w[j + r] += line[r] * v[i + r];
        }
    }
    return error;
}

/* Gram matrices, and J^T J within a row of each factor: their products. */
FIT_CLONES static void prepare(fit_state *f, const real *x) {
    for (int mode = 0; mode < 3; mode++) {
        multiply(f->wide, f->wide, f->asked->rows[mode], x, 1, f->wide, x, f->grams[mode], 0);
        x += (long)f->asked->rows[mode] * f->wide;
    }
    for (int mode = 0; mode < 3; mode++) {
        const real *p = f->grams[(mode + 1) % 3], *q = f->grams[(mode + 2) % 3];
        for (long i = 0; i < f->square; i++)
            f->parts[mode][i] = p[i] * q[i];
    }
}

static void invert_blocks(fit_state *f, real damping) {
    int row = 0;
    for (int mode = 0; mode < 3; mode++) {
        for (int i = 0; i < f->asked->rows[mode]; i++, row++) {
            if (f->even && i)
                continue;
            real *block = f->inverses + (f->even ? mode : row) * f->square;
            const real *weight = f->weight + (long)row * f->wide, *free = f->free + (long)row * f->wide;
            memcpy(block, f->parts[mode], f->square * sizeof(real));
            for (int r = 0; r < f->asked->rank; r++) {
                real *line = block + (long)r * f->wide;
                for (int s = 0; !f->even && s < f->asked->rank; s++)
                    line[s] *= free[r] * free[s];
                line[r] += free[r] > 0 ? weight[r] + damping : 1;
            }
            invert(f->asked->rank, f->wide, block);
        }
    }
}

static void condition(const fit_state *f, const real *x, real *out) {
    long at = 0;
    for (int mode = 0, row = 0; mode < 3; mode++) {
        int rows = f->asked->rows[mode];
        for (int i = 0; i < rows; i++, row++) {
            int together = f->even ? rows : 1;
            const real *block = f->inverses + (f->even ? mode : row) * f->square;
            multiply(together, f->wide, f->wide, x + at, f->wide, 1, block, out + at, 0);
            at += (long)together * f->wide;
            if (f->even)
                break;
        }
    }
}

/* out = (J^T J + diag(weight + damping)) y at x. */
FIT_CLONES static void times(fit_state *f, const real *x, const real *y, real damping, real *out) {
    const int *rows = f->asked->rows, wide = f->wide;
    long at = 0;
    for (long i = 0; i < f->size; i++)
        out[i] = (f->weight[i] + damping) * y[i];
    for (int mode = 0; mode < 3; mode++) {
        multiply(wide, wide, rows[mode], y + at, 1, wide, x + at, f->crossed[mode], 0);
        at += (long)rows[mode] * wide;
    }
    at = 0;
    for (int mode = 0; mode < 3; mode++) {
        int p = (mode + 1) % 3, q = (mode + 2) % 3;
        for (long i = 0; i < f->square; i++)
            f->mixed[i] = f->crossed[p][i] * f->grams[q][i] + f->grams[p][i] * f->crossed[q][i];
        multiply(rows[mode], wide, wide, y + at, wide, 1, f->parts[mode], out + at, 1);
        multiply(rows[mode], wide, wide, x + at, wide, 1, f->mixed, out + at, 1);
        at += (long)rows[mode] * wide;
    }
    for (long i = 0; i < f->size; i++)
        out[i] *= f->free[i];
}

FIT_CLONES static void add(long size, real share, const real *x, real *to) {
    for (long i = 0; i < size; i++)
        to[i] += share * x[i];
}

/* One step by conjugate gradients. `scratch` has room for four arrays like x. */
static void solve(fit_state *f, const real *x, const real *slope, real damping, real *step, real *scratch) {
    long size = f->size;
    real *rest = scratch, *ahead = rest + size, *direction = ahead + size, *image = direction + size;

    invert_blocks(f, damping);
    memset(step, 0, size * sizeof(real));
    for (long i = 0; i < size; i++)
        rest[i] = -slope[i] * f->free[i];
    condition(f, rest, ahead);
    memcpy(direction, ahead, size * sizeof(real));
    double now = dot(size, rest, ahead), enough = f->asked->accuracy * f->asked->accuracy * now;
    if (!(now > 0)) /* the blocks are singular in this precision */
        return;
    for (int k = 0; k < f->asked->iterations; k++) {
        times(f, x, direction, damping, image);
        double along = dot(size, direction, image), before = now;
        if (!(along > 0)) /* rounding has used the directions up */
            return;
        add(size, (real)(now / along), direction, step);
        add(size, (real)(-now / along), image, rest);
        condition(f, rest, ahead);
        now = dot(size, rest, ahead);
        if (!(now > enough))
            return;
        add(size, (real)(now / before), direction, ahead);
        real *other = direction;
        direction = ahead;
        ahead = other;
    }
}

/* Share the memory out, or only count it where there is none yet: `memory` is NULL then. */
static size_t share_out(fit_state *f, real *memory, real **arrays, int count) {
    size_t used = 0;
    long blocks = f->even ? 3 : f->all;
#define ROOM(to, wanted) (to = memory ? memory + used : NULL, used += (size_t)(wanted))
    ROOM(f->weight, f->size);
    ROOM(f->centre, f->size);
    ROOM(f->free, f->size);
    ROOM(f->products, f->pairs * f->wide);
    ROOM(f->turned, f->padded * f->wide);
    ROOM(f->missed, f->padded * f->asked->rows[0]);
    ROOM(f->over, f->pairs * f->wide);
    for (int mode = 0; mode < 3; mode++) {
        ROOM(f->grams[mode], f->square);
        ROOM(f->parts[mode], f->square);
        ROOM(f->crossed[mode], f->square);
    }
    ROOM(f->mixed, f->square);
    ROOM(f->inverses, f->square * blocks);
    for (int i = 0; i < count; i++)
        ROOM(arrays[i], f->size);
#undef ROOM
    return used;
}

static void spread(const fit_state *f, const double *from, real *to) {
    for (int row = 0; row < f->all; row++)
        for (int r = 0; r < f->asked->rank; r++)
            to[(long)row * f->wide + r] = (real)from[(long)row * f->asked->rank + r];
}

double RELAX(const fit_problem *problem, double *x, double *damping) {
    enum { AT, TRIED, GRADIENT, TRIED_GRADIENT, SLOPE, STEP, SCRATCH, ARRAYS = SCRATCH + 4 };
    real *arrays[ARRAYS];
    const int *rows = problem->rows, rank = problem->rank;
    fit_state f = {.asked = problem, .even = 1};
    f.all = rows[0] + rows[1] + rows[2];
    f.wide = (rank + PANEL - 1) / PANEL * PANEL;
    f.pairs = (long)rows[1] * rows[2];
    f.padded = (f.pairs + PANEL - 1) / PANEL * PANEL;
    f.size = (long)f.all * f.wide;
    f.square = (long)f.wide * f.wide;
    for (long i = 0; f.even && i < (long)f.all * rank; i++)
        f.even = problem->free[i] && problem->weight[i] == problem->weight[0];
    real *memory = calloc(share_out(&f, NULL, arrays, ARRAYS), sizeof(real));
    if (!memory)
        return -1;
    share_out(&f, memory, arrays, ARRAYS);
    spread(&f, problem->weight, f.weight);
    spread(&f, problem->centre, f.centre);
    spread(&f, problem->free, f.free);
    spread(&f, x, arrays[AT]);

    double error = error_at(&f, arrays[AT], arrays[GRADIENT]);
    double best = error + pulled(&f, arrays[AT], NULL);
    double seen[6] = {0}; /* totals after the last steps */
    for (int step = 0; step < problem->steps && error > problem->goal; step++) {
        double growth = 2, tried = 0, tried_best = 0;
        int attempt = 0;
        memcpy(arrays[SLOPE], arrays[GRADIENT], f.size * sizeof(real));
        pulled(&f, arrays[AT], arrays[SLOPE]);
        prepare(&f, arrays[AT]);
        for (; attempt < ATTEMPTS; attempt++, *damping *= growth, growth *= 2) {
            solve(&f, arrays[AT], arrays[SLOPE], (real)*damping, arrays[STEP], arrays[SCRATCH]);
            memcpy(arrays[TRIED], arrays[AT], f.size * sizeof(real));
            add(f.size, 1, arrays[STEP], arrays[TRIED]);
            tried = error_at(&f, arrays[TRIED], arrays[TRIED_GRADIENT]);
            tried_best = tried + pulled(&f, arrays[TRIED], NULL);
            if (tried_best < best)
                break;
        }
        if (attempt == ATTEMPTS)
            break;
        double expected = *damping * dot(f.size, arrays[STEP], arrays[STEP]) - dot(f.size, arrays[STEP], arrays[SLOPE]);
        double quality = (best - tried_best) / fmax(expected, 1e-300);
        *damping *= fmax(0.2, 1 - pow(2 * quality - 1, 3));
        *damping = fmax(*damping, problem->least_damping);
        for (int swap = AT; swap <= GRADIENT; swap += GRADIENT - AT) {
            real *other = arrays[swap];
            arrays[swap] = arrays[swap + 1];
            arrays[swap + 1] = other;
        }
        error = tried;
        best = tried_best;
        memmove(seen + 1, seen, 5 * sizeof(double));
        seen[0] = best;
        if (problem->stall > 0 && step >= 10 && seen[5] - best < problem->stall * best)
            break;
    }
    for (long i = 0; i < (long)f.all * rank; i++)
        if (problem->free[i] != 0)
            x[i] = arrays[AT][i / rank * f.wide + i % rank];
    free(memory);
    return error;
}
