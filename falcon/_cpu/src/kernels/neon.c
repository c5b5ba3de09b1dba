/* neon.c - aarch64 NEON kernels (baseline flags; a*b + c contracts to fmla). */
#include "kernel.h"
#include "vec_gcc.h"
#include <string.h>

#define ISA neon
#define ISA_ID FALCON_NEON

#define f32_SIZES 8, 12, 3, 256
#define f64_SIZES 6, 8, 4, 256
#define i32_SIZES 8, 12, 3, 256
#define i64_SIZES 6, 8, 4, 256
#define i16_SIZES 8, 12, 3, 512
#include "all_types.h"
