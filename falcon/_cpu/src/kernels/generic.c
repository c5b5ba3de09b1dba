/* generic.c - portable kernels in GCC vector extensions (baseline flags). */
#include "kernel.h"
#include "vec_gcc.h"
#include <string.h>

#define ISA generic
#define ISA_ID FALCON_GENERIC

#define f32_SIZES 4, 8, 2, 256
#define f64_SIZES 4, 4, 2, 256
#define i32_SIZES 4, 8, 2, 256
#define i64_SIZES 4, 4, 2, 256
#define i16_SIZES 4, 8, 2, 512
#include "all_types.h"
