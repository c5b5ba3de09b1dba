/* Z3-symmetric flip-graph walks modulo 2 over n x n x n.
 *
 * In the trace form (w transposed) a scheme may be invariant under rotating its factors: it is a sum
 * of cubes a(x)a(x)a and of orbits a(x)b(x)c + b(x)c(x)a + c(x)a(x)b. A flip of two orbits is done in
 * all three rotations at once, so the rank moves in steps of three and the space is far smaller.
 */
#ifndef FALCON_SYMMETRIC_H
#define FALCON_SYMMETRIC_H

#include "flipgraph.h"

#define FZ_MAX_CUBES 64

typedef struct {
    int orbits, cubes;
    uint64_t cube[FZ_MAX_CUBES];
    fg_state slots; /* of this only one mode: slot 3 * orbit + position */
} fz_state;

/* Orbits as three masks each. Returns 0, or -1 where a number is out of range or a mask empty. */
int fz_load(fz_state *z, int orbits, const uint64_t *terms, int cubes, const uint64_t *cube, uint64_t seed);
/* All terms, cubes first, as one mask per factor; returns the rank. */
int fz_store(const fz_state *z, uint64_t *terms);
/* As fg_walk, counting in orbits. */
int fz_walk(fz_state *z, int64_t limit, int64_t plus_after, int margin);

#endif
