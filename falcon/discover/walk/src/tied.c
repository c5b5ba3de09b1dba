/* Walks towards tied terms, of equal first factors u (x) u (x) w: products Y Y^T of half the work. */
#include "flipgraph.h"

#include <math.h>

/* Factors are normalised: equal up to sign. */
static inline int tied(const fg_heat *heat, fg_vec u, fg_vec v, fg_vec w) {
    return u.p == v.p && u.n == v.n && !((w.p | w.n) & heat->barred);
}

static inline int is_tied(const fg_state *s, const fg_heat *heat, int term) {
    return tied(heat, s->v[0][term], s->v[1][term], s->v[2][term]);
}

static inline int weight(fg_vec x) {
    return __builtin_popcountll(x.p | x.n);
}

/* Two for every term, less one where it is tied. */
static int64_t cost(const fg_state *s, const fg_heat *heat) {
    int64_t sum = 0;
    for (int r = 0; r < s->rank; r++)
        sum += 2 - is_tied(s, heat, r);
    return sum;
}

static double energy_of(const fg_state *s, const fg_heat *heat) {
    int64_t nonzeros = 0;
    for (int r = 0; r < s->rank; r++)
        nonzeros += weight(s->v[0][r]) + weight(s->v[1][r]) + weight(s->v[2][r]);
    return (double)cost(s, heat) + heat->sparsity * (double)nonzeros;
}

/* Whether a term is tied once its factor of a mode has become x. */
static int tied_with(const fg_state *s, const fg_heat *heat, int term, int mode, fg_vec x) {
    fg_vec factors[3] = {s->v[0][term], s->v[1][term], s->v[2][term]};
    fg_normalise(&x);
    factors[mode] = x;
    return tied(heat, factors[0], factors[1], factors[2]);
}

/* What a flip adds to the energy, where it does not make terms vanish. */
static double change(const fg_state *s, const fg_heat *heat, const fg_change *f) {
    int lost = is_tied(s, heat, f->i) - tied_with(s, heat, f->i, f->mode_i, f->x);
    lost += is_tied(s, heat, f->j) - tied_with(s, heat, f->j, f->mode_j, f->y);
    int grown = weight(f->x) - weight(s->v[f->mode_i][f->i]);
    grown += weight(f->y) - weight(s->v[f->mode_j][f->j]);
    return lost + heat->sparsity * grown;
}

FG_CLONES int64_t fg_tied_walk(fg_state *s, int64_t limit, const fg_heat *heat, int64_t plus_after, int margin,
                               uint64_t *best, int *best_rank) {
    double energy = energy_of(s, heat), lowest = energy;
    int64_t least = cost(s, heat), last = 0;
    int entry = s->rank;
    fg_store(s, best);
    *best_rank = s->rank;
    for (int64_t tries = 0; tries < limit; tries++) {
        if (tries - last >= plus_after || !s->active_count) {
            last = tries;
            if (s->rank < entry + margin && fg_plus(s))
                energy = energy_of(s, heat);
            else if (!s->active_count)
                return least;
        }
        fg_change f;
        if (!fg_propose(s, &f))
            continue;
        double delta = change(s, heat, &f);
        if (delta > 0 && (double)(fg_random(s->rng) >> 11) * 0x1p-53 >= exp(-delta / heat->temperature))
            continue;
        int rank = s->rank;
        fg_apply(s, &f);
        energy += delta;
        if (s->rank != rank) /* terms have vanished or merged */
            energy = energy_of(s, heat);
        if (s->rank < entry)
            entry = s->rank;
        if (energy < lowest - 1e-6) {
            lowest = energy;
            least = cost(s, heat);
            last = tries;
            fg_store(s, best);
            *best_rank = s->rank;
        }
    }
    return least;
}
