/* kernels_blocks.c - the NEON kernels by matrix instructions with these emulated (blocks.h), so that
 * kernels/block_impl.h and its callers run on any machine.  The C driver and the Python tests put them in the table of
 * kernels (falcon_kernel_put).  Keep the numbers those of kernels/neon_bf16.c and neon_i8mm.c. */
#include "blocks.h"
#include "kernels/kernel.h"
#include "kernels/vec_gcc.h"
#include <string.h>

#define ISA blocks
#define BLOCKS 1

#define ISA_ID FALCON_NEON_BF16
#define P bf16
#define X_1 bf16
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 512
#include "kernels/kernel_impl.h"

#undef ISA_ID
#define ISA_ID FALCON_NEON_I8MM
#define P i8
#define X_1 i8
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 1024
#include "kernels/kernel_impl.h"

#define P u8
#define X_1 u8
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 1024
#include "kernels/kernel_impl.h"

#define P u8i8
#define PAIR_1 u8i8
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 1024
#include "kernels/kernel_impl.h"

#define P i8u8
#define PAIR_1 i8u8
#define BY_COLUMNS 1
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 1024
#include "kernels/kernel_impl.h"
