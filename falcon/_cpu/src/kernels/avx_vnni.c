/* avx_vnni.c - 8-bit and 16-bit integers by AVX_VNNI (vec_x86.h): AVX512_VNNI's dot products in 32-byte vectors.  With
 * 8 bits of one kind 4 rows, not 6: the sums of what flipping A adds take two more accumulators than 16 registers
 * have. */
#include "kernel.h"
#include "vec_x86.h"
#include <string.h>

#define ISA avx_vnni
#define ISA_ID FALCON_AVX_VNNI
/* As in avx2.c. */
#define B_KEPT 1
#define A_KEPT_TILE {48, 16, 150, 64}
#define B_KEPT_TILE {24, 64, 40, 1000}

#define P i16
#define X_1 i16
#define MR 6
#define NR 16
#define NR_VECS 2
#define KC 640
#include "kernel_impl.h"

#define P i8
#define X_1 i8
#define MR 4
#define NR 16
#define NR_VECS 2
#define KC 1280
#include "kernel_impl.h"

#define P u8
#define X_1 u8
#define MR 4
#define NR 16
#define NR_VECS 2
#define KC 1280
#include "kernel_impl.h"

#define P u8i8
#define PAIR_1 u8i8
#define MR 6
#define NR 16
#define NR_VECS 2
#define KC 1280
#include "kernel_impl.h"

#define P i8u8
#define PAIR_1 i8u8
#define MR 6
#define NR 16
#define NR_VECS 2
#define KC 1280
#include "kernel_impl.h"
