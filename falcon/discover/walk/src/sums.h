/* Fewer additions: randomised greedy elimination of common pairs from ternary linear forms.
 *
 * A program is a list of temporaries t = x + ratio * y (ratio +1 or -1); each replaces its pair in
 * every row that holds it, up to a common sign. Its cost is one addition per temporary and one less
 * than the terms left per row.
 *
 * Sources: C. Paar, "Optimized arithmetic for Reed-Solomon encoders", ISIT 1997 (greedy);
 * A. I. Perminov, "Parallel heuristic exploration for additive complexity reduction in fast matrix
 * multiplication", 2025 (randomised strategies, greedy-intersections).
 */
#ifndef FALCON_SUMS_H
#define FALCON_SUMS_H

#include <stdint.h>

#define CSE_MAX_ROWS 640
#define CSE_MAX_COLUMNS 640
#define CSE_MAX_VARIABLES 1400

typedef struct {
    double overlap; /* weight of what a choice spoils for other pairs: 0 is plain greedy */
    double noise;   /* size of the random part of a score */
    double slack;   /* probability of a choice from one below the highest count */
} cse_strategy;

typedef struct {
    int32_t x, y, ratio;
} cse_pair;

/* Improve a program for `matrix` (rows x columns, entries -1, 0, 1) by `rounds` of partial
 * destruction and random completion, each with a strategy drawn at random. `pairs` holds the
 * program at entry (`*count` temporaries, maybe none) and the best at exit; `room` is its size.
 * Returns the additions, or -1 where the matrix is too large or memory is short. */
int cse_search(const int8_t *matrix, int rows, int columns, int rounds, uint64_t seed, cse_pair *pairs, int *count,
               int room);

#endif
