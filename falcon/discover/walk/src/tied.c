/* Walks towards terms of equal first factors, u (x) u (x) w: products Y Y^T of half the work. */
#include "flipgraph.h"

#include <math.h>

static inline int tied(fg_vec x, fg_vec y) { /* factors are normalised: equal up to sign */
    return x.p == y.p && x.n == y.n;
}

static inline int weight(fg_vec x) {
    return __builtin_popcountll(x.p | x.n);
}

/* Twice the cost: two for every term, less one where it is tied. */
static int64_t cost(const fg_state *s) {
    int64_t sum = 0;
    for (int r = 0; r < s->rank; r++)
        sum += 2 - tied(s->v[0][r], s->v[1][r]);
    return sum;
}

static int64_t nonzeros(const fg_state *s) {
    int64_t sum = 0;
    for (int r = 0; r < s->rank; r++)
        sum += weight(s->v[0][r]) + weight(s->v[1][r]) + weight(s->v[2][r]);
    return sum;
}

/* Whether a term is tied once its factor of a mode has become x. */
static int tied_with(const fg_state *s, int term, int mode, fg_vec x) {
    if (mode == 2)
        return tied(s->v[0][term], s->v[1][term]);
    fg_normalise(&x);
    return tied(x, s->v[1 - mode][term]);
}

/* What a flip adds to the energy, where it does not make terms vanish. */
static double change(const fg_state *s, const fg_change *f, double sparsity) {
    int lost = tied(s->v[0][f->i], s->v[1][f->i]) - tied_with(s, f->i, f->mode_i, f->x);
    lost += tied(s->v[0][f->j], s->v[1][f->j]) - tied_with(s, f->j, f->mode_j, f->y);
    int grown = weight(f->x) - weight(s->v[f->mode_i][f->i]);
    grown += weight(f->y) - weight(s->v[f->mode_j][f->j]);
    return lost + sparsity * grown;
}

FG_CLONES int64_t fg_tied_walk(fg_state *s, int64_t limit, const fg_heat *heat, int64_t plus_after, int margin,
                               uint64_t *best, int *best_rank) {
    double energy = (double)cost(s) + heat->sparsity * (double)nonzeros(s), lowest = energy;
    int64_t least = cost(s), last = 0;
    int entry = s->rank;
    fg_store(s, best);
    *best_rank = s->rank;
    for (int64_t tries = 0; tries < limit; tries++) {
        if (tries - last >= plus_after || !s->active_count) {
            last = tries;
            if (s->rank < entry + margin && fg_plus(s))
                energy = (double)cost(s) + heat->sparsity * (double)nonzeros(s);
            else if (!s->active_count)
                return least;
        }
        fg_change f;
        if (!fg_propose(s, &f))
            continue;
        double delta = change(s, &f, heat->sparsity);
        if (delta > 0 && (double)(fg_random(s->rng) >> 11) * 0x1p-53 >= exp(-delta / heat->temperature))
            continue;
        int rank = s->rank;
        fg_apply(s, &f);
        energy += delta;
        if (s->rank != rank) /* terms have vanished or merged */
            energy = (double)cost(s) + heat->sparsity * (double)nonzeros(s);
        if (s->rank < entry)
            entry = s->rank;
        if (energy < lowest - 1e-6) {
            lowest = energy;
            least = cost(s);
            last = tries;
            fg_store(s, best);
            *best_rank = s->rank;
        }
    }
    return least;
}
