/* Flip-graph walks over schemes with coefficients in {-1, 0, 1} or modulo 2.
 *
 * A scheme is a list of rank-one terms s * u (x) v (x) w. A factor is a vector of at most 64
 * entries held as two bit masks (the places of +1 and of -1; modulo 2 the second stays empty) and
 * normalised so that its lowest non-zero entry is +1; the sign stands at the term. Equal factors of
 * a mode form a class: classes are found by hashing, members hang on a ring, and the slots whose
 * class has more than one member are listed, so that a random flip and its bookkeeping are O(1).
 *
 * Sources: M. Kauers and J. Moosbauer, "Flip graphs for matrix multiplication", ISSAC 2023;
 * Y. Arai, Y. Ichikawa and K. Hukushima, "Adaptive flip graph algorithm for matrix
 * multiplication", ISSAC 2024 (plus-transitions).
 */
#ifndef FALCON_FLIPGRAPH_H
#define FALCON_FLIPGRAPH_H

#include <stdint.h>

#define FG_MAX_RANK 640
#define FG_BUCKETS 2048 /* a power of two, several times FG_MAX_RANK */

/* Popcount as an instruction where the machine has one; chosen when the library is loaded. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FG_CLONES __attribute__((target_clones("popcnt", "default")))
#else
#define FG_CLONES
#endif

typedef struct {
    uint64_t p, n; /* places of +1, places of -1 */
} fg_vec;

enum { FG_TERNARY = 0, FG_MOD2 = 1 };
enum { FG_NNZ = 0, FG_PHI = 1 };

/* Why a walk ended. */
enum { FG_LIMIT = 0, FG_REDUCED = 1, FG_STUCK = 2 };

typedef struct {
    int dims[3]; /* m, k, n */
    int ring;
    int rank;
    int active_count;
    uint64_t rng[2];
    int64_t flips; /* accepted flips so far */
    fg_vec v[3][FG_MAX_RANK];
    int8_t sign[FG_MAX_RANK];
    int16_t cls[3][FG_MAX_RANK];  /* class of a slot (mode, term) */
    int16_t next[3][FG_MAX_RANK]; /* ring of the members of a class */
    int16_t prev[3][FG_MAX_RANK];
    int16_t where[3][FG_MAX_RANK]; /* place in `active`, or -1 */
    int16_t count[3][FG_MAX_RANK]; /* members of a class */
    int16_t first[3][FG_MAX_RANK]; /* one member of a class */
    int16_t chain[3][FG_MAX_RANK]; /* next class in the same bucket */
    int16_t free_class[3][FG_MAX_RANK];
    int free_count[3];
    int16_t bucket[3][FG_BUCKETS];
    int16_t active[3 * FG_MAX_RANK]; /* slots (mode * FG_MAX_RANK + term) of classes >= 2 */
} fg_state;

/* A flip that might be made: two slots and their new values, not yet normalised. */
typedef struct {
    int mode_i, mode_j, i, j;
    fg_vec x, y;
} fg_change;

/* Terms as masks: `terms` holds 6 words per term, p and n of u, v, w. Returns 0, or -1 where the
 * rank is out of range or a factor is zero. Equal terms are legal. */
int fg_load(fg_state *s, const int *dims, int ring, int rank, const uint64_t *terms, uint64_t seed);
void fg_store(const fg_state *s, uint64_t *terms);

/* Random flips until the rank falls below that at entry (FG_REDUCED) or `limit` flips are made;
 * after every `plus_after` flips without gain a plus-transition, up to `margin` above entry. */
int fg_walk(fg_state *s, int64_t limit, int64_t plus_after, int margin);

/* Annealing at fixed rank: flips and changes of basis, accepted by Metropolis' rule on the number
 * of non-zeros or on Phi, the temperature falling geometrically from `hot` to `cold`. `best` gets
 * the terms of the best scheme seen; returns its cost, or -1 where the rank fell (the state then
 * holds the scheme of lower rank). */
int64_t fg_anneal(fg_state *s, int64_t limit, int objective, double hot, double cold, uint64_t *best);

/* Number of Brent equations that fail, exactly over the integers (or modulo 2). */
int64_t fg_violations(const int *dims, int ring, int rank, const uint64_t *terms);

/* --- shared by the parts -------------------------------------------------------------------- */

static inline uint64_t fg_random(uint64_t *r) { /* xoroshiro128+, Blackman and Vigna 2018 */
    uint64_t a = r[0], b = r[1], out = a + b;
    b ^= a;
    r[0] = ((a << 24) | (a >> 40)) ^ b ^ (b << 16);
    r[1] = (b << 37) | (b >> 27);
    return out;
}

static inline uint32_t fg_below(uint32_t bits, uint32_t bound) {
    return (uint32_t)(((uint64_t)bits * bound) >> 32);
}

static inline uint64_t fg_mix(uint64_t x) { /* splitmix64 */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t fg_hash(fg_vec x) {
    return ((x.p * 0x9e3779b97f4a7c15u) ^ (x.n * 0xc2b2ae3d27d4eb4fu)) * 0xff51afd7ed558ccdu >> 40;
}

/* x + t*y; the flag is set where an entry leaves {-1, 0, 1}. */
static inline fg_vec fg_add(fg_vec x, fg_vec y, int t, int ring, int *overflow) {
    fg_vec out;
    if (ring == FG_MOD2) {
        out.p = x.p ^ y.p;
        out.n = 0;
        return out;
    }
    uint64_t p = t > 0 ? y.p : y.n, n = t > 0 ? y.n : y.p;
    *overflow |= ((x.p & p) | (x.n & n)) != 0;
    out.p = (x.p & ~n) | (p & ~x.n);
    out.n = (x.n & ~p) | (n & ~x.p);
    return out;
}

static inline int fg_zero(fg_vec x) {
    return (x.p | x.n) == 0;
}

/* Make the lowest non-zero entry +1; return the sign taken out. */
static inline int fg_normalise(fg_vec *x) {
    uint64_t all = x->p | x->n, low = all & -all;
    if (x->n & low) {
        uint64_t p = x->p;
        x->p = x->n;
        x->n = p;
        return -1;
    }
    return 1;
}

void fg_set_slot(fg_state *s, int mode, int term, fg_vec value); /* value normalised */
void fg_append_slot(fg_state *s, int mode, int term, fg_vec value);
void fg_remove_slot(fg_state *s, int mode, int term);
void fg_clear(fg_state *s, uint64_t seed);
void fg_append(fg_state *s, const fg_vec *values, int sign);
void fg_remove(fg_state *s, int term);
int fg_propose(fg_state *s, fg_change *f); /* 0 where no flip was found */
void fg_apply(fg_state *s, const fg_change *f);
int fg_plus(fg_state *s); /* 0 where no pair of terms allows it */

#endif
