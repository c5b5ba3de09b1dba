/* avx512.c - AVX-512 F/DQ/BW/VL kernels (compiled with those flags and -mfma).
 * f32 12x32 by itself runs at the FMA peak of Zen 4 and 5; 8x48 was 3 % faster in
 * the classical driver on Zen 4, equal with Strassen, slower on Zen 5.  f64
 * 8x24 was 4 % faster than 12x16 in the driver on Zen 4: its A panel (16 KiB
 * at kc 256) stays in L1. */
#include "kernel.h"
#include "vec_x86.h"
#include <string.h>

#define ISA avx512
#define ISA_ID FALCON_AVX512
#define STREAMS_ROWS 1 /* falcon/_core/problem.py has the measurements */

#define P f32
#define X_1 f32
#define X_2 f16
#define X_3 bf16
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 384
#include "kernel_impl.h"

#define P f64
#define X_1 f64
#define X_2 i64f64
#define MR 8
#define NR 24
#define NR_VECS 3
#define KC 256
#include "kernel_impl.h"

#define P i32
#define X_1 i32
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 384
#include "kernel_impl.h"

#define P i64
#define X_1 i64
#define MR 8
#define NR 24
#define NR_VECS 3
#define KC 256
#include "kernel_impl.h"

#define P i16
#define X_1 i16
#define X_2 i8
#define X_3 u8
#define PAIR_1 u8i8
#define PAIR_2 i8u8
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 768
#include "kernel_impl.h"
