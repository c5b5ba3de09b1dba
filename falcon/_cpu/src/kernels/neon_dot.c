/* neon_dot.c - 8-bit integers by the dot products of ARMv8.2 (SDOT, UDOT: groups of 4 steps of K, modulo 2^32).  With
 * operands of two kinds 6 rows, not 8: the sums of what flipping A adds take three more accumulators.  Has run under
 * QEMU only. */
#include "kernel.h"
#include "vec_gcc.h"
#include <string.h>

#define ISA neon_dot
#define ISA_ID FALCON_NEON_DOT

#define i8_SIZES 8, 12, 3, 1024
#define u8_SIZES 8, 12, 3, 1024
#define u8i8_SIZES 6, 12, 3, 1024
#define i8u8_SIZES 6, 12, 3, 1024
#include "bytes.h"
