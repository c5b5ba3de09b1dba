/* avx2.c - AVX2 + FMA kernels (compiled with -mavx2 -mfma -mf16c). */
#include "kernel.h"
#include "vec_x86.h"
#include <string.h>

#define ISA avx2
#define CODED 5 /* the programs of few blocks, whose sums fit into 16 registers */
#define ISA_ID FALCON_AVX2
/* Zen 3: B's panel (20 KiB) is kept in L1, a block of A of some 180 KiB streams from L2.  With a single slice of K
 * it is better to go along the rows of C (fl_b_kept).  1000 %: L2 is no limit for the operand that is kept. */
#define B_KEPT 1
#define A_KEPT_TILE {48, 16, 150, 64}
#define B_KEPT_TILE {24, 64, 40, 1000}

#define f32_SIZES 6, 16, 2, 320
#define f32_AHEAD 128 /* 4 % faster; f64 gains nothing */
#define f64_SIZES 6, 8, 2, 320
#define i32_SIZES 6, 16, 2, 320
#define i64_SIZES 4, 8, 2, 320
#define i16_SIZES 6, 16, 2, 640
#include "all_types.h"
