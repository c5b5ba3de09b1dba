/* Z3-symmetric walks: see symmetric.h. */
#include "symmetric.h"

#include <string.h>

static inline uint64_t get(const fz_state *z, int slot) {
    return z->slots.v[0][slot].p;
}

static inline void set(fz_state *z, int slot, uint64_t value) {
    fg_set_slot(&z->slots, 0, slot, (fg_vec){value, 0});
}

static inline int turned(int slot, int by) { /* the slot `by` places on, in the same orbit */
    int orbit = slot / 3, place = slot - 3 * orbit + by;
    return 3 * orbit + (place >= 3 ? place - 3 : place);
}

static void append(fz_state *z, uint64_t a, uint64_t b, uint64_t c) {
    uint64_t x[3] = {a, b, c};
    for (int i = 0; i < 3; i++)
        fg_append_slot(&z->slots, 0, 3 * z->orbits + i, (fg_vec){x[i], 0});
    z->orbits++;
}

static void drop(fz_state *z, int orbit) {
    int last = --z->orbits;
    for (int i = 0; i < 3; i++) {
        if (orbit != last)
            set(z, 3 * orbit + i, get(z, 3 * last + i));
        fg_remove_slot(&z->slots, 0, 3 * last + i);
    }
}

static void toggle_cube(fz_state *z, uint64_t a) {
    for (int x = 0; x < z->cubes; x++) {
        if (z->cube[x] == a) {
            z->cube[x] = z->cube[--z->cubes];
            return;
        }
    }
    z->cube[z->cubes++] = a;
}

/* An orbit with a zero vanishes; three equal factors are, modulo 2, one cube. */
static int settle(fz_state *z, int orbit) {
    uint64_t a = get(z, 3 * orbit), b = get(z, 3 * orbit + 1), c = get(z, 3 * orbit + 2);
    int equal = a == b && b == c;
    if (a && b && c && !(equal && z->cubes < FZ_MAX_CUBES))
        return 0;
    drop(z, orbit);
    if (a && equal)
        toggle_cube(z, a);
    return 1;
}

/* Orbits that share two neighbouring factors are one: (a, b, c) + (a, b, c') = (a, b, c + c'). */
static int merge(fz_state *z, int slot) {
    fg_state *s = &z->slots;
    uint64_t b = get(z, turned(slot, 1)), c = get(z, turned(slot, 2));
    for (int o = s->next[0][slot]; o != slot; o = s->next[0][o]) {
        int orbit = o / 3, third;
        if (orbit == slot / 3)
            continue;
        if (get(z, turned(o, 1)) == b)
            third = 2;
        else if (get(z, turned(o, 2)) == c)
            third = 1;
        else
            continue;
        uint64_t sum = get(z, turned(slot, third)) ^ get(z, turned(o, third));
        int mine = slot / 3, last = z->orbits - 1;
        set(z, turned(slot, third), sum);
        drop(z, orbit);
        settle(z, mine == last ? orbit : mine);
        return 1;
    }
    return 0;
}

int fz_load(fz_state *z, int orbits, const uint64_t *terms, int cubes, const uint64_t *cube, uint64_t seed) {
    if (orbits < 1 || cubes < 0 || cubes > FZ_MAX_CUBES || 3 * orbits > FG_MAX_RANK - 24)
        return -1;
    fg_clear(&z->slots, seed);
    z->slots.ring = FG_MOD2;
    z->orbits = 0;
    z->cubes = cubes;
    memcpy(z->cube, cube, (size_t)cubes * sizeof *cube);
    for (int o = 0; o < orbits; o++) {
        const uint64_t *t = terms + 3 * o;
        if (!t[0] || !t[1] || !t[2])
            return -1;
        append(z, t[0], t[1], t[2]);
    }
    return 0;
}

int fz_store(const fz_state *z, uint64_t *terms) {
    for (int x = 0; x < z->cubes; x++)
        for (int i = 0; i < 3; i++)
            *terms++ = z->cube[x];
    for (int o = 0; o < z->orbits; o++)
        for (int turn = 0; turn < 3; turn++)
            for (int i = 0; i < 3; i++)
                *terms++ = get(z, 3 * o + (turn + i) % 3);
    return z->cubes + 3 * z->orbits;
}

static void flip(fz_state *z) {
    fg_state *s = &z->slots;
    uint64_t bits = fg_random(s->rng);
    int p = s->active[fg_below((uint32_t)(bits >> 32), (uint32_t)s->active_count)];
    int members = s->count[0][s->cls[0][p]], q = s->next[0][p];
    if (members > 2)
        for (int step = (int)fg_below((uint32_t)(bits << 4), (uint32_t)(members - 1)); step; step--)
            q = s->next[0][q];
    int i = p / 3, j = q / 3;
    if (i == j)
        return;
    int first = bits & 1 ? 1 : 2, second = 3 - first;
    int x = turned(p, first), y = turned(q, second);
    uint64_t new_x = get(z, x) ^ get(z, turned(q, first));
    uint64_t new_y = get(z, y) ^ get(z, turned(p, second));
    s->flips++;
    set(z, x, new_x);
    set(z, y, new_y);
    if (settle(z, i > j ? i : j) | settle(z, i > j ? j : i))
        return;
    if (s->where[0][x] >= 0 && merge(z, x))
        return;
    if (s->where[0][y] >= 0)
        merge(z, y);
}

static int plus(fz_state *z) {
    fg_state *s = &z->slots;
    if (z->orbits < 2 || 3 * z->orbits > FG_MAX_RANK - 24)
        return 0;
    for (int attempt = 0; attempt < 1000; attempt++) {
        uint64_t bits = fg_random(s->rng);
        int p = (int)fg_below((uint32_t)(bits >> 32), (uint32_t)(3 * z->orbits));
        int q = (int)fg_below((uint32_t)bits, (uint32_t)(3 * z->orbits));
        if (p / 3 == q / 3)
            continue;
        uint64_t a = get(z, p), b = get(z, turned(p, 1)), c = get(z, turned(p, 2));
        uint64_t a2 = get(z, q), b2 = get(z, turned(q, 1)), c2 = get(z, turned(q, 2));
        if (a == a2 || b == b2 || c == c2)
            continue;
        set(z, p, a ^ a2);
        set(z, turned(q, 1), b ^ b2);
        append(z, a2, b, c ^ c2);
        return 1;
    }
    return 0;
}

int fz_walk(fz_state *z, int64_t limit, int64_t plus_after, int margin) {
    fg_state *s = &z->slots;
    int entry = z->orbits, cubes = z->cubes, lowest = z->orbits;
    int64_t end = s->flips + limit, last = s->flips;
    for (int64_t tries = 0; s->flips < end && tries < 64 * limit; tries++) {
        if (s->active_count)
            flip(z);
        if (3 * z->orbits + z->cubes < 3 * entry + cubes)
            return FG_REDUCED;
        if (z->orbits < lowest)
            lowest = z->orbits, last = s->flips;
        if (s->flips - last >= plus_after || !s->active_count) {
            if (z->orbits < entry + margin) {
                if (!plus(z))
                    return FG_STUCK;
                lowest = z->orbits;
            } else if (!s->active_count) {
                return FG_STUCK;
            }
            last = s->flips;
        }
    }
    return FG_LIMIT;
}
