/* Walks at fixed rank that lower a cost (non-zeros, or Phi), and the exact Brent check. */
#include "flipgraph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- cost ----------------------------------------------------------------------------------- */

static inline int weight(fg_vec x) {
    return __builtin_popcountll(x.p | x.n);
}

static inline int64_t term_phi(const fg_state *s, int r) {
    return (int64_t)weight(s->v[0][r]) * weight(s->v[1][r]) * weight(s->v[2][r]);
}

static int64_t total(const fg_state *s, int objective) {
    int64_t sum = 0;
    for (int r = 0; r < s->rank; r++)
        sum += objective == FG_PHI ? term_phi(s, r) : weight(s->v[0][r]) + weight(s->v[1][r]) + weight(s->v[2][r]);
    return sum;
}

/* --- changes of basis ----------------------------------------------------------------------- */

/* Row (or column) i of every matrix of a factor += t * row (column) j. */
static int shear(const fg_state *s, int mode, int columns, int i, int j, int t, fg_vec *out) {
    int rows_of[3] = {s->dims[0], s->dims[1], s->dims[0]};
    int cols_of[3] = {s->dims[1], s->dims[2], s->dims[2]};
    int rows = rows_of[mode], cols = cols_of[mode], overflow = 0;
    uint64_t mask = 0;
    for (int x = 0; x < (columns ? rows : cols); x++)
        mask |= (uint64_t)1 << (columns ? x * cols + j : j * cols + x);
    int shift = columns ? i - j : (i - j) * cols;
    for (int r = 0; r < s->rank; r++) {
        fg_vec y = {s->v[mode][r].p & mask, s->v[mode][r].n & mask};
        y.p = shift > 0 ? y.p << shift : y.p >> -shift;
        y.n = shift > 0 ? y.n << shift : y.n >> -shift;
        out[r] = fg_add(s->v[mode][r], y, t, s->ring, &overflow);
    }
    return !overflow;
}

/* A random transvection of one of the three dimensions, as new values of two factors; the
 * factors' modes, or -1 where a coefficient leaves {-1, 0, 1}. */
static int transvection(fg_state *s, fg_vec *x, fg_vec *y, int *second) {
    uint64_t bits = fg_random(s->rng);
    int axis = (int)((bits & 0xffff) % 3), size = s->dims[axis];
    if (size < 2)
        return -1;
    int i = (int)fg_below((uint32_t)(bits >> 32), (uint32_t)size);
    int j = (int)fg_below((uint32_t)(bits << 8), (uint32_t)(size - 1));
    j += j >= i;
    int t = bits & 0x10000 ? 1 : -1;
    /* m: rows of u and of w; k: columns of u and rows of v; n: columns of v and of w. */
    int first = axis == 2 ? 1 : 0;
    *second = axis == 1 ? 1 : 2;
    if (!shear(s, first, axis > 0, i, j, t, x))
        return -1;
    return shear(s, *second, axis == 2, j, i, -t, y) ? first : -1;
}

static void replace(fg_state *s, int mode, const fg_vec *values) {
    for (int r = 0; r < s->rank; r++) {
        fg_vec x = values[r];
        s->sign[r] = (int8_t)(s->sign[r] * fg_normalise(&x));
        fg_set_slot(s, mode, r, x);
    }
}

/* --- annealing ------------------------------------------------------------------------------ */

FG_CLONES static int64_t value(const fg_state *s, int objective) {
    return total(s, objective);
}

static int accept(fg_state *s, int64_t delta, double temperature) {
    if (delta <= 0)
        return 1;
    if (temperature <= 0)
        return 0;
    double u = (double)(fg_random(s->rng) >> 11) * 0x1p-53;
    return u < exp(-(double)delta / temperature);
}

FG_CLONES int64_t fg_anneal(fg_state *s, int64_t limit, int objective, double hot, double cold, uint64_t *best) {
    static const int64_t STEP = 1024; /* flips between changes of temperature */
    int entry = s->rank;
    fg_vec x[FG_MAX_RANK], y[FG_MAX_RANK];
    int64_t now = value(s, objective), lowest = now;
    fg_store(s, best);
    double temperature = hot;
    double factor = pow(cold / hot, (double)STEP / (double)(limit > STEP ? limit : STEP));
    for (int64_t tries = 0; tries < limit; tries++) {
        if (tries % STEP == 0)
            temperature = tries ? temperature * factor : hot;
        if (tries % 64 == 0 || s->active_count == 0) { /* a change of basis costs a whole pass */
            int second, first = transvection(s, x, y, &second);
            if (first < 0)
                continue;
            int64_t then = 0;
            for (int r = 0; r < s->rank; r++) {
                int wx = weight(x[r]), wy = weight(y[r]), third = 3 - first - second;
                int wz = weight(s->v[third][r]);
                then += objective == FG_PHI ? (int64_t)wx * wy * wz : wx + wy + wz;
            }
            if (!accept(s, then - now, temperature))
                continue;
            replace(s, first, x);
            replace(s, second, y);
            now = then;
        } else {
            fg_change f;
            if (!fg_propose(s, &f))
                continue;
            int64_t delta;
            if (objective == FG_PHI) {
                int zi = weight(s->v[3 - f.mode_i - f.mode_j][f.i]);
                int zj = weight(s->v[3 - f.mode_i - f.mode_j][f.j]);
                delta = (int64_t)zi * weight(s->v[f.mode_j][f.i]) * (weight(f.x) - weight(s->v[f.mode_i][f.i])) +
                        (int64_t)zj * weight(s->v[f.mode_i][f.j]) * (weight(f.y) - weight(s->v[f.mode_j][f.j]));
            } else {
                delta = weight(f.x) - weight(s->v[f.mode_i][f.i]) + weight(f.y) - weight(s->v[f.mode_j][f.j]);
            }
            if (!accept(s, delta, temperature))
                continue;
            fg_apply(s, &f);
            if (s->rank < entry)
                return -1;
            now += delta;
        }
        if (now < lowest) {
            lowest = now;
            fg_store(s, best);
        }
    }
    return lowest;
}

/* --- proof ---------------------------------------------------------------------------------- */

int64_t fg_violations(const int *dims, int ring, int rank, const uint64_t *terms) {
    int m = dims[0], k = dims[1], n = dims[2];
    int a = m * k, b = k * n, c = m * n;
    int32_t *sum = calloc((size_t)a * b * c, sizeof *sum);
    if (!sum)
        return -1;
    for (int r = 0; r < rank; r++) {
        const uint64_t *t = terms + 6 * r;
        for (int x = 0; x < a; x++) {
            int u = (int)(t[0] >> x & 1) - (int)(t[1] >> x & 1);
            if (!u)
                continue;
            for (int y = 0; y < b; y++) {
                int v = u * ((int)(t[2] >> y & 1) - (int)(t[3] >> y & 1));
                if (!v)
                    continue;
                int32_t *row = sum + ((size_t)x * b + y) * c;
                for (int z = 0; z < c; z++)
                    row[z] += v * ((int)(t[4] >> z & 1) - (int)(t[5] >> z & 1));
            }
        }
    }
    for (int i = 0; i < m; i++)
        for (int l = 0; l < k; l++)
            for (int j = 0; j < n; j++)
                sum[((size_t)(i * k + l) * b + l * n + j) * c + i * n + j] -= 1;
    int64_t wrong = 0;
    for (size_t x = 0; x < (size_t)a * b * c; x++)
        wrong += ring == FG_MOD2 ? sum[x] & 1 : sum[x] != 0;
    free(sum);
    return wrong;
}
