/* neon_bf16.c - bfloat16 by BFMMLA (FEAT_BF16, optional from ARMv8.2: two rows by two columns, four steps of K).
 * How it rounds: docs/cpu.md.  A scheme's sums are formed in float32 and rounded once to bfloat16.  Has run under QEMU
 * only. */
#include "kernel.h"
#include "vec_gcc.h"
#include <string.h>

#define ISA neon_bf16
#define ISA_ID FALCON_NEON_BF16
#define BLOCKS 1

#define bf16_SIZES 8, 12, 3, 512
#define P bf16
#define X_1 f32bf16
#define X_2 f64bf16
#include "kernel_impl.h"
