/* avx512_bf16.c - bfloat16 by VDPBF16PS (AVX512_BF16): panels hold pairs of steps of K as they are, products are summed
 * in float32.  The instruction rounds to nearest even, takes subnormals for 0 and returns 0 for them.  A scheme's sums
 * are formed in float32 and rounded once to bfloat16. */
#include "kernel.h"
#include "vec_x86.h"
#include <string.h>

#define ISA avx512_bf16
#define ISA_ID FALCON_AVX512_BF16

#define bf16_SIZES 12, 32, 2, 768
#define P bf16
#define X_1 f32bf16
#define X_2 f64bf16
#include "kernel_impl.h"
