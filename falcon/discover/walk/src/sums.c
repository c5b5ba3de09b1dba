/* Randomised common-subexpression elimination: see sums.h. */
#include "sums.h"

#include "flipgraph.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    int16_t var;
    int8_t sign;
} term;

typedef struct {
    int rows, columns, stride;
    int cost; /* additions as it stands */
    int temporaries;
    uint64_t rng[2];
    int *length;     /* terms per row */
    term *terms;     /* rows x columns */
    int16_t *count;  /* rows that hold a pair: [x][y][ratio < 0], x < y */
    int32_t *stamp;  /* step at which a pair was scored last */
    int32_t *gained; /* per variable and sign, scratch of score() */
    int32_t steps;
} table;

static inline size_t index_of(const table *t, int x, int y, int ratio) {
    return ((size_t)x * t->stride + y) * 2 + (ratio < 0);
}

static inline size_t pair_of(const table *t, term a, term b) {
    return a.var < b.var ? index_of(t, a.var, b.var, a.sign * b.sign) : index_of(t, b.var, a.var, a.sign * b.sign);
}

static void fill(table *t, const int8_t *matrix) {
    memset(t->count, 0, (size_t)t->stride * t->stride * 2 * sizeof *t->count);
    t->cost = t->temporaries = 0;
    for (int r = 0; r < t->rows; r++) {
        term *row = t->terms + (size_t)r * t->columns;
        int n = 0;
        for (int c = 0; c < t->columns; c++)
            if (matrix[(size_t)r * t->columns + c])
                row[n++] = (term){(int16_t)c, matrix[(size_t)r * t->columns + c]};
        t->length[r] = n;
        t->cost += n > 1 ? n - 1 : 0;
        for (int i = 0; i < n; i++)
            for (int j = i + 1; j < n; j++)
                t->count[pair_of(t, row[i], row[j])]++;
    }
}

/* Places of the pair in a row, or 0. */
static inline int find(const table *t, int r, cse_pair p, int *i, int *j) {
    const term *row = t->terms + (size_t)r * t->columns;
    int a = -1, b = -1;
    for (int x = 0; x < t->length[r]; x++) {
        a = row[x].var == p.x ? x : a;
        b = row[x].var == p.y ? x : b;
    }
    *i = a, *j = b;
    return a >= 0 && b >= 0 && row[a].sign * row[b].sign == p.ratio;
}

static void substitute(table *t, cse_pair p) {
    int fresh = t->columns + t->temporaries++;
    t->cost++;
    for (int r = 0; r < t->rows; r++) {
        int i, j;
        if (!find(t, r, p, &i, &j))
            continue;
        term *row = t->terms + (size_t)r * t->columns;
        term a = row[i], b = row[j], n = {(int16_t)fresh, a.sign};
        t->count[pair_of(t, a, b)]--;
        for (int z = 0; z < t->length[r]; z++) {
            if (z == i || z == j)
                continue;
            t->count[pair_of(t, a, row[z])]--;
            t->count[pair_of(t, b, row[z])]--;
            t->count[pair_of(t, row[z], n)]++;
        }
        row[i] = n;
        row[j] = row[--t->length[r]];
        t->cost--;
    }
}

/* What a substitution spoils: pairs shared so far that its rows no longer offer, less the pairs
 * with the new variable that they offer instead. */
static int spoiled(table *t, cse_pair p) {
    int loss = 0;
    memset(t->gained, 0, (size_t)2 * (t->columns + t->temporaries) * sizeof *t->gained);
    for (int r = 0; r < t->rows; r++) {
        int i, j;
        if (!find(t, r, p, &i, &j))
            continue;
        const term *row = t->terms + (size_t)r * t->columns;
        for (int z = 0; z < t->length[r]; z++) {
            if (z == i || z == j)
                continue;
            loss += t->count[pair_of(t, row[i], row[z])] > 1;
            loss += t->count[pair_of(t, row[j], row[z])] > 1;
            loss -= t->gained[2 * row[z].var + (row[z].sign * row[i].sign < 0)]++ > 0;
        }
    }
    return loss;
}

static inline double uniform(table *t) {
    return (double)(fg_random(t->rng) >> 11) * 0x1p-53;
}

/* Choose a pair that at least two rows hold; 0 where there is none. */
static int choose(table *t, cse_strategy how, cse_pair *out) {
    int highest = 1;
    for (int r = 0; r < t->rows; r++) {
        const term *row = t->terms + (size_t)r * t->columns;
        for (int i = 0; i < t->length[r]; i++)
            for (int j = i + 1; j < t->length[r]; j++) {
                int c = t->count[pair_of(t, row[i], row[j])];
                highest = c > highest ? c : highest;
            }
    }
    if (highest < 2)
        return 0;
    int level = highest > 2 && uniform(t) < how.slack ? highest - 1 : highest;
    double best = -1e300;
    t->steps++;
    for (int r = 0; r < t->rows; r++) {
        const term *row = t->terms + (size_t)r * t->columns;
        for (int i = 0; i < t->length[r]; i++)
            for (int j = i + 1; j < t->length[r]; j++) {
                size_t key = pair_of(t, row[i], row[j]);
                if (t->count[key] < level || t->stamp[key] == t->steps)
                    continue;
                t->stamp[key] = t->steps;
                term a = row[i], b = row[j];
                cse_pair p = {a.var < b.var ? a.var : b.var, a.var < b.var ? b.var : a.var, a.sign * b.sign};
                double score = t->count[key] + how.noise * uniform(t);
                if (how.overlap > 0)
                    score -= how.overlap * spoiled(t, p);
                if (score > best) {
                    best = score;
                    *out = p;
                }
            }
    }
    return best > -1e300;
}

int cse_search(const int8_t *matrix, int rows, int columns, int rounds, uint64_t seed, cse_pair *pairs, int *count,
               int room) {
    if (rows < 1 || columns < 1 || rows > CSE_MAX_ROWS || columns > CSE_MAX_COLUMNS)
        return -1;
    table t = {.rows = rows, .columns = columns};
    t.stride = columns + room;
    if (t.stride > CSE_MAX_VARIABLES)
        return -1;
    size_t cells = (size_t)t.stride * t.stride * 2;
    t.length = malloc((size_t)rows * sizeof *t.length);
    t.terms = malloc((size_t)rows * columns * sizeof *t.terms);
    t.count = malloc(cells * sizeof *t.count);
    t.stamp = calloc(cells, sizeof *t.stamp);
    t.gained = calloc((size_t)t.stride * 2, sizeof *t.gained);
    cse_pair *trial = malloc((size_t)(room + 1) * sizeof *trial);
    int lowest = -1;
    if (t.length && t.terms && t.count && t.stamp && t.gained && trial) {
        t.rng[0] = fg_mix(seed);
        t.rng[1] = fg_mix(seed + 1) | 1;
        fill(&t, matrix);
        for (int x = 0; x < *count; x++)
            substitute(&t, pairs[x]);
        lowest = t.cost;
        for (int round = 0; round < rounds; round++) {
            cse_strategy how = {0, 0.5, 0};
            uint64_t bits = fg_random(t.rng);
            if (bits & 1)
                how.overlap = 0.02 + 0.5 * uniform(&t);
            if (bits & 2)
                how.noise = 2 * uniform(&t);
            if (bits & 4)
                how.slack = 0.3 * uniform(&t);
            /* Keep a random part of the best program; now and then nothing. */
            int keep = 0;
            if (*count && (bits >> 8) % 4)
                keep = (int)fg_below((uint32_t)(bits >> 32), (uint32_t)*count);
            int drop = keep && (bits >> 4 & 1); /* destroy a window, not the whole tail */
            fill(&t, matrix);
            int n = 0;
            for (int x = 0; x < *count && n < keep; x++) {
                trial[n++] = pairs[x];
                substitute(&t, pairs[x]);
            }
            if (drop) {
                /* Leave out one temporary and keep those after it that do not need it. */
                int map[CSE_MAX_VARIABLES];
                for (int v = 0; v < columns + keep; v++)
                    map[v] = v;
                map[columns + keep] = -1;
                for (int x = keep + 1; x < *count && n < room; x++) {
                    cse_pair p = {map[pairs[x].x], map[pairs[x].y], pairs[x].ratio};
                    map[columns + x] = -1;
                    if (p.x < 0 || p.y < 0 || uniform(&t) < 0.1)
                        continue;
                    if (t.count[index_of(&t, p.x, p.y, p.ratio)] < 2)
                        continue;
                    map[columns + x] = columns + n;
                    trial[n++] = p;
                    substitute(&t, p);
                }
            }
            while (n < room && choose(&t, how, &trial[n]))
                substitute(&t, trial[n++]);
            if (t.cost <= lowest) { /* equals too: a walk along the plateau */
                lowest = t.cost;
                memcpy(pairs, trial, (size_t)n * sizeof *pairs);
                *count = n;
            }
        }
    }
    free(t.length), free(t.terms), free(t.count), free(t.stamp), free(t.gained), free(trial);
    return lowest;
}
