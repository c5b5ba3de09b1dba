/* avx512.c - AVX-512 F/DQ/BW/VL kernels (compiled with those flags and -mfma).
 * f32 12x32 by itself runs at the FMA peak of Zen 4 and 5; 8x48 was 3 % faster in
 * the classical driver on Zen 4, equal with Strassen, slower on Zen 5.  f64
 * 8x24 was 4 % faster than 12x16 in the driver on Zen 4: its A panel (16 KiB
 * at kc 256) stays in L1. */
#include "kernel.h"
#include "vec_x86.h"
#include <string.h>

#define ISA avx512
#define CODED 1000 /* all programs */
#define ISA_ID FALCON_AVX512
#define STREAMS_ROWS 1 /* falcon/_core/problem.py has the measurements */

#define f32_SIZES 12, 32, 2, 384
#define f64_SIZES 8, 24, 3, 256
#define i32_SIZES 12, 32, 2, 384
#define i64_SIZES 8, 24, 3, 256
#define i16_SIZES 12, 32, 2, 768
#include "all_types.h"
