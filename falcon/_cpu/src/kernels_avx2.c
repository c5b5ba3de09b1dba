/* kernels_avx2.c - AVX2 + FMA kernels (compiled with -mavx2 -mfma).
 * A new dtype: one more block like those below, and a line in registry.c. */
#include "falcon_cpu.h"
#include "vec_x86.h"
#include <string.h>

#define ISA avx2
#define ISA_ID FALCON_AVX2
/* Zen 3, 2 threads: 1 % faster than with the defaults in f32, 2 % in f64 (medians, 8 shapes, 5 algorithms). */
#define A_PANELS 48
#define A_SHARE 150
#define B_SHARE 64

#define D f32
#define T float
#define DTYPE_ID FALCON_F32
#define MR 6
#define NR 16
#define NR_VECS 2
#define KC 320
#include "kernel_impl.h"

#define D f64
#define T double
#define DTYPE_ID FALCON_F64
#define MR 6
#define NR 8
#define NR_VECS 2
#define KC 320
#include "kernel_impl.h"
