/* avx2.c - AVX2 + FMA kernels (compiled with -mavx2 -mfma).
 * A new dtype: one more block like those below, and a line in registry.c. */
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

#define D f32
#define T float
#define DTYPE_ID FALCON_F32
#define MR 6
#define NR 16
#define NR_VECS 2
#define KC 320
#define A_AHEAD 128 /* 4 % faster; f64 gains nothing */
#include "kernel_impl.h"

#define D f64
#define T double
#define DTYPE_ID FALCON_F64
#define MR 6
#define NR 8
#define NR_VECS 2
#define KC 320
#include "kernel_impl.h"
