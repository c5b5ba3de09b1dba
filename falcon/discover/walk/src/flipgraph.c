/* State of a walk, flips, reductions, plus-transitions: see flipgraph.h. */
#include "flipgraph.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* --- classes of equal factors --------------------------------------------------------------- */

INLINE void activate(fg_state *s, int mode, int term) {
    s->where[mode][term] = (int16_t)s->active_count;
    s->active[s->active_count++] = (int16_t)(mode * FG_MAX_RANK + term);
}

INLINE void deactivate(fg_state *s, int mode, int term) {
    int place = s->where[mode][term];
    int16_t last = s->active[--s->active_count];
    s->active[place] = last;
    (&s->where[0][0])[last] = (int16_t)place;
    s->where[mode][term] = -1;
}

INLINE void leave(fg_state *s, int mode, int term) {
    int c = s->cls[mode][term];
    int left = --s->count[mode][c];
    if (left == 0) {
        int16_t *link = &s->bucket[mode][fg_hash(s->v[mode][term]) & (FG_BUCKETS - 1)];
        while (*link != c)
            link = &s->chain[mode][*link];
        *link = s->chain[mode][c];
        s->free_class[mode][s->free_count[mode]++] = (int16_t)c;
        return;
    }
    int a = s->prev[mode][term], b = s->next[mode][term];
    s->next[mode][a] = (int16_t)b;
    s->prev[mode][b] = (int16_t)a;
    s->first[mode][c] = (int16_t)a;
    deactivate(s, mode, term);
    if (left == 1)
        deactivate(s, mode, a);
}

INLINE void join(fg_state *s, int mode, int term) {
    fg_vec x = s->v[mode][term];
    int16_t *head = &s->bucket[mode][fg_hash(x) & (FG_BUCKETS - 1)];
    for (int c = *head; c >= 0; c = s->chain[mode][c]) {
        int a = s->first[mode][c];
        if (s->v[mode][a].p == x.p && s->v[mode][a].n == x.n) {
            int b = s->next[mode][a];
            s->next[mode][a] = s->prev[mode][b] = (int16_t)term;
            s->prev[mode][term] = (int16_t)a;
            s->next[mode][term] = (int16_t)b;
            s->cls[mode][term] = (int16_t)c;
            if (++s->count[mode][c] == 2)
                activate(s, mode, a);
            activate(s, mode, term);
            return;
        }
    }
    int c = s->free_class[mode][--s->free_count[mode]];
    s->chain[mode][c] = *head;
    *head = (int16_t)c;
    s->count[mode][c] = 1;
    s->first[mode][c] = s->next[mode][term] = s->prev[mode][term] = (int16_t)term;
    s->cls[mode][term] = (int16_t)c;
    s->where[mode][term] = -1;
}

INLINE void set_slot(fg_state *s, int mode, int term, fg_vec value) {
    leave(s, mode, term);
    s->v[mode][term] = value;
    join(s, mode, term);
}

void fg_set_slot(fg_state *s, int mode, int term, fg_vec value) {
    set_slot(s, mode, term, value);
}

void fg_append_slot(fg_state *s, int mode, int term, fg_vec value) {
    s->v[mode][term] = value;
    join(s, mode, term);
}

void fg_remove_slot(fg_state *s, int mode, int term) {
    leave(s, mode, term);
}

void fg_append(fg_state *s, const fg_vec *values, int sign) {
    int term = s->rank++;
    s->sign[term] = (int8_t)sign;
    for (int mode = 0; mode < 3; mode++) {
        s->v[mode][term] = values[mode];
        join(s, mode, term);
    }
}

void fg_remove(fg_state *s, int term) {
    int last = --s->rank;
    for (int mode = 0; mode < 3; mode++) {
        leave(s, mode, term);
        if (term != last) {
            leave(s, mode, last);
            s->v[mode][term] = s->v[mode][last];
            join(s, mode, term);
        }
    }
    s->sign[term] = s->sign[last];
}

/* --- input and output ----------------------------------------------------------------------- */

void fg_clear(fg_state *s, uint64_t seed) {
    s->rank = s->active_count = 0;
    s->flips = 0;
    s->rng[0] = fg_mix(seed);
    s->rng[1] = fg_mix(s->rng[0] ^ seed) | 1;
    memset(s->bucket, 0xff, sizeof s->bucket);
    for (int mode = 0; mode < 3; mode++) {
        s->free_count[mode] = FG_MAX_RANK;
        for (int c = 0; c < FG_MAX_RANK; c++)
            s->free_class[mode][c] = (int16_t)(FG_MAX_RANK - 1 - c);
    }
}

int fg_load(fg_state *s, const int *dims, int ring, int rank, const uint64_t *terms, uint64_t seed) {
    if (rank < 1 || rank > FG_MAX_RANK - 8)
        return -1;
    memcpy(s->dims, dims, sizeof s->dims);
    fg_clear(s, seed);
    s->ring = ring;
    for (int r = 0; r < rank; r++) {
        fg_vec x[3];
        int sign = 1;
        for (int mode = 0; mode < 3; mode++) {
            x[mode].p = terms[6 * r + 2 * mode];
            x[mode].n = terms[6 * r + 2 * mode + 1];
            if (ring == FG_MOD2) {
                x[mode].p |= x[mode].n;
                x[mode].n = 0;
            }
            if (fg_zero(x[mode]) || (x[mode].p & x[mode].n))
                return -1;
            sign *= fg_normalise(&x[mode]);
        }
        fg_append(s, x, sign);
    }
    return 0;
}

void fg_store(const fg_state *s, uint64_t *terms) {
    for (int r = 0; r < s->rank; r++) {
        for (int mode = 0; mode < 3; mode++) {
            fg_vec x = s->v[mode][r];
            int swap = mode == 2 && s->sign[r] < 0 && s->ring != FG_MOD2;
            terms[6 * r + 2 * mode] = swap ? x.n : x.p;
            terms[6 * r + 2 * mode + 1] = swap ? x.p : x.n;
        }
    }
}

/* --- reductions ----------------------------------------------------------------------------- */

/* A term beside `term` that shares two of its factors and whose third can be added; the mode of
 * the third, or -1. */
INLINE int twin(fg_state *s, int mode, int term, int *other) {
    int c = s->cls[mode][term];
    if (s->count[mode][c] < 2)
        return -1;
    int y = mode == 2 ? 0 : mode + 1, z = 3 - mode - y;
    for (int o = s->next[mode][term]; o != term; o = s->next[mode][o]) {
        int third = -1;
        if (s->cls[y][o] == s->cls[y][term])
            third = z;
        else if (s->cls[z][o] == s->cls[z][term])
            third = y;
        if (third >= 0) {
            int overflow = 0;
            fg_add(s->v[third][term], s->v[third][o], s->sign[term] * s->sign[o], s->ring, &overflow);
            if (!overflow) {
                *other = o;
                return third;
            }
        }
    }
    return -1;
}

/* Merge `term` with any term that shares two factors with it, as long as there is one. */
static void merge(fg_state *s, int term) {
    for (;;) {
        int other = -1, third = -1;
        for (int mode = 0; mode < 3 && third < 0; mode++)
            third = twin(s, mode, term, &other);
        if (third < 0)
            return;
        int overflow = 0;
        fg_vec sum = fg_add(s->v[third][term], s->v[third][other], s->sign[term] * s->sign[other], s->ring, &overflow);
        if (fg_zero(sum)) {
            fg_remove(s, term > other ? term : other);
            fg_remove(s, term > other ? other : term);
            return;
        }
        s->sign[term] = (int8_t)(s->sign[term] * fg_normalise(&sum));
        fg_set_slot(s, third, term, sum);
        fg_remove(s, other);
        if (term == s->rank) /* the last term has moved to the place of the one removed */
            term = other;
    }
}

/* --- flips ---------------------------------------------------------------------------------- */

/* a(x)b(x)c + a(x)b'(x)c' = a(x)(b + t b')(x)c + a(x)b'(x)(c' - t c); 0 where it cannot be. */
INLINE int propose(fg_state *s, fg_change *f, int ring) {
    uint64_t bits = fg_random(s->rng);
    int slot = s->active[fg_below((uint32_t)(bits >> 32), (uint32_t)s->active_count)];
    int mode = (slot >= FG_MAX_RANK) + (slot >= 2 * FG_MAX_RANK), i = slot - mode * FG_MAX_RANK;
    int members = s->count[mode][s->cls[mode][i]];
    int j = s->next[mode][i];
    if (members > 2)
        for (int step = (int)fg_below((uint32_t)(bits << 4), (uint32_t)(members - 1)); step; step--)
            j = s->next[mode][j];
    int y = mode == 2 ? 0 : mode + 1, z = 3 - mode - y;
    if (bits & 1) {
        int swap = y;
        y = z;
        z = swap;
    }
    int overflow = 0, t = bits & 2 ? 1 : -1;
    f->mode_i = y, f->mode_j = z, f->i = i, f->j = j;
    int turn = s->sign[i] * s->sign[j];
    f->x = fg_add(s->v[y][i], s->v[y][j], t, ring, &overflow);
    f->y = fg_add(s->v[z][j], s->v[z][i], -t * turn, ring, &overflow);
    if (!overflow || ring == FG_MOD2)
        return 1;
    overflow = 0;
    f->x = fg_add(s->v[y][i], s->v[y][j], -t, ring, &overflow);
    f->y = fg_add(s->v[z][j], s->v[z][i], t * turn, ring, &overflow);
    return !overflow;
}

INLINE void apply(fg_state *s, const fg_change *f) {
    fg_vec x = f->x, y = f->y;
    int i = f->i, j = f->j, gone_i = fg_zero(x), gone_j = fg_zero(y);
    s->flips++;
    if (__builtin_expect(!(gone_i | gone_j), 1)) {
        s->sign[i] = (int8_t)(s->sign[i] * fg_normalise(&x));
        s->sign[j] = (int8_t)(s->sign[j] * fg_normalise(&y));
        set_slot(s, f->mode_i, i, x);
        set_slot(s, f->mode_j, j, y);
        int other;
        if (__builtin_expect(twin(s, f->mode_i, i, &other) >= 0, 0)) {
            /* merge() may move or drop the second term: look at it only if nothing happened. */
            merge(s, i);
        } else if (__builtin_expect(twin(s, f->mode_j, j, &other) >= 0, 0)) {
            merge(s, j);
        }
        return;
    }
    if (!gone_i) {
        s->sign[i] = (int8_t)(s->sign[i] * fg_normalise(&x));
        set_slot(s, f->mode_i, i, x);
    }
    if (!gone_j) {
        s->sign[j] = (int8_t)(s->sign[j] * fg_normalise(&y));
        set_slot(s, f->mode_j, j, y);
    }
    if (gone_i && gone_j) {
        fg_remove(s, i > j ? i : j);
        fg_remove(s, i > j ? j : i);
    } else {
        fg_remove(s, gone_i ? i : j);
    }
}

int fg_propose(fg_state *s, fg_change *f) {
    return s->active_count && propose(s, f, s->ring);
}

void fg_apply(fg_state *s, const fg_change *f) {
    apply(s, f);
}

/* One term more: a(x)b(x)c + a'(x)b'(x)c' =
 * (a - t a')(x)b(x)c + a'(x)b(x)(t c + w c') + a'(x)(b' - w b)(x)c'  (signs at the terms). */
int fg_plus(fg_state *s) {
    if (s->rank < 2 || s->rank >= FG_MAX_RANK - 1)
        return 0;
    for (int attempt = 0; attempt < 1000; attempt++) {
        uint64_t bits = fg_random(s->rng);
        int i = (int)fg_below((uint32_t)(bits >> 32), (uint32_t)s->rank);
        int j = (int)fg_below((uint32_t)(bits << 8), (uint32_t)s->rank);
        int a = (int)((bits & 0xff) % 3), b = (int)((a + 1 + (bits >> 8 & 1)) % 3), c = 3 - a - b;
        int t = bits & 512 ? 1 : -1, w = bits & 1024 ? 1 : -1, overflow = 0;
        if (i == j || s->cls[a][i] == s->cls[a][j] || s->cls[b][i] == s->cls[b][j] || s->cls[c][i] == s->cls[c][j])
            continue;
        int si = s->sign[i], sj = s->sign[j];
        fg_vec x = fg_add(s->v[a][i], s->v[a][j], -t, s->ring, &overflow);
        fg_vec y = fg_add(s->v[b][j], s->v[b][i], -w, s->ring, &overflow);
        fg_vec z = fg_add(s->v[c][i], s->v[c][j], t * si * w * sj, s->ring, &overflow);
        if (overflow || fg_zero(x) || fg_zero(y) || fg_zero(z))
            continue;
        fg_vec fresh[3];
        fresh[a] = s->v[a][j];
        fresh[b] = s->v[b][i];
        fresh[c] = z;
        int sign = t * si * fg_normalise(&fresh[c]);
        s->sign[i] = (int8_t)(si * fg_normalise(&x));
        s->sign[j] = (int8_t)(sj * fg_normalise(&y));
        set_slot(s, a, i, x);
        set_slot(s, b, j, y);
        fg_append(s, fresh, sign);
        return 1;
    }
    return 0;
}

/* --- the walk ------------------------------------------------------------------------------- */

INLINE int walk(fg_state *s, int64_t limit, int64_t plus_after, int margin, int ring) {
    int entry = s->rank, lowest = s->rank;
    int64_t end = s->flips + limit, last = s->flips;
    for (int64_t tries = 0; s->flips < end && tries < 64 * limit; tries++) {
        fg_change f;
        if (__builtin_expect(s->active_count != 0, 1)) {
            if (propose(s, &f, ring))
                apply(s, &f);
            if (__builtin_expect(s->rank < entry, 0))
                return FG_REDUCED;
            if (s->rank < lowest)
                lowest = s->rank, last = s->flips;
        }
        if (__builtin_expect(s->flips - last >= plus_after || s->active_count == 0, 0)) {
            if (s->rank < entry + margin) {
                if (!fg_plus(s))
                    return FG_STUCK;
                lowest = s->rank;
            } else if (s->active_count == 0) {
                return FG_STUCK;
            }
            last = s->flips;
        }
    }
    return FG_LIMIT;
}

int fg_walk(fg_state *s, int64_t limit, int64_t plus_after, int margin) {
    return s->ring == FG_MOD2 ? walk(s, limit, plus_after, margin, FG_MOD2)
                              : walk(s, limit, plus_after, margin, FG_TERNARY);
}
