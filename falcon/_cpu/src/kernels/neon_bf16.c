/* neon_bf16.c - bfloat16 by BFDOT (ARMv8.6: pairs of steps of K, summed in float32; on CPUs without EBF16, products and
 * sums are rounded to odd, and subnormals are 0).  A scheme's sums are formed in float32 and rounded once to bfloat16.
 * Has run under QEMU only. */
#include "kernel.h"
#include "vec_gcc.h"
#include <string.h>

#define ISA neon_bf16
#define ISA_ID FALCON_NEON_BF16

#define P bf16
#define X_1 bf16
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 512
#include "kernel_impl.h"
