/* neon_dot.c - 8-bit integers by the dot products of ARMv8.2 (SDOT, UDOT: groups of 4 steps of K, modulo 2^32).  With
 * operands of two kinds 6 rows, not 8: the sums of what flipping A adds take three more accumulators.  Has run under
 * QEMU only. */
#include "kernel.h"
#include "vec_gcc.h"
#include <string.h>

#define ISA neon_dot
#define ISA_ID FALCON_NEON_DOT

#define P i8
#define X_1 i8
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 1024
#include "kernel_impl.h"

#define P u8
#define X_1 u8
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 1024
#include "kernel_impl.h"

#define P u8i8
#define PAIR_1 u8i8
#define MR 6
#define NR 12
#define NR_VECS 3
#define KC 1024
#include "kernel_impl.h"

#define P i8u8
#define PAIR_1 i8u8
#define MR 6
#define NR 12
#define NR_VECS 3
#define KC 1024
#include "kernel_impl.h"
