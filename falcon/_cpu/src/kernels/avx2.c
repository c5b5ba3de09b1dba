/* avx2.c - AVX2 + FMA kernels (compiled with -mavx2 -mfma -mf16c). */
#include "kernel.h"
#include "vec_x86.h"
#include <string.h>

#define ISA avx2
#define ISA_ID FALCON_AVX2
/* Zen 3: B's panel (20 KiB) is kept in L1, a block of A of some 180 KiB streams from L2.  With a single slice of K
 * it is better to go along the rows of C (fl_b_kept).  1000 %: L2 is no limit for the operand that is kept. */
#define B_KEPT 1
#define A_KEPT_TILE {48, 16, 150, 64}
#define B_KEPT_TILE {24, 64, 40, 1000}

#define P f32
#define X_1 f32
#define X_2 f16
#define X_3 bf16
#define MR 6
#define NR 16
#define NR_VECS 2
#define KC 320
#define A_AHEAD 128 /* 4 % faster; f64 gains nothing */
#include "kernel_impl.h"

#define P f64
#define X_1 f64
#define X_2 i64f64
#define MR 6
#define NR 8
#define NR_VECS 2
#define KC 320
#include "kernel_impl.h"

#define P i32
#define X_1 i32
#define MR 6
#define NR 16
#define NR_VECS 2
#define KC 320
#include "kernel_impl.h"

#define P i64
#define X_1 i64
#define MR 4
#define NR 8
#define NR_VECS 2
#define KC 320
#include "kernel_impl.h"

#define P i16
#define X_1 i16
#define X_2 i8
#define X_3 u8
#define PAIR_1 u8i8
#define PAIR_2 i8u8
#define MR 6
#define NR 16
#define NR_VECS 2
#define KC 640
#include "kernel_impl.h"
