/* kernels_blocks.c - the NEON kernels by matrix instructions (kernels/neon_bf16.c, neon_i8mm.c) with these emulated
 * (blocks.h), for any machine.  The C driver and the Python tests put them in the table of kernels
 * (falcon_kernel_put). */
#include "blocks.h"
#include "kernels/kernel.h"
#include "kernels/vec_gcc.h"

#define neon_bf16 blocks
#define neon_i8mm blocks
#include "kernels/neon_bf16.c"
#undef ISA
#undef ISA_ID
#include "kernels/neon_i8mm.c"
