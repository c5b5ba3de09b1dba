/* kernels_avx2.c - AVX2 + FMA kernels (compiled with -mavx2 -mfma).
 * A new dtype: one more block like those below, and a line in registry.c. */
#include "falcon_cpu.h"
#include "vec_x86.h"
#include <string.h>

#define ISA avx2
#define ISA_ID FALCON_AVX2
/* Zen 3: B's panel (20 KiB) rests in L1, a block of A of some 180 KiB streams from L2. */
#define B_RESTS 1
#define A_PANELS 24
#define B_PANELS 64
#define A_SHARE 40
#define B_SHARE 1000

#define D f32
#define T float
#define DTYPE_ID FALCON_F32
#define MR 6
#define NR 16
#define NR_VECS 2
#define KC 320
#define A_AHEAD 128 /* 4 % faster in f32; f64, whose calls do half the work per byte, gains nothing */
#include "kernel_impl.h"

#define D f64
#define T double
#define DTYPE_ID FALCON_F64
#define MR 6
#define NR 8
#define NR_VECS 2
#define KC 320
#include "kernel_impl.h"
