/* kernels_tiles.c - the AMX kernels with emulated tiles (tiles.h) and dot products (dots.h), in 64-byte GCC vectors, so
 * that kernels/tile_impl.h and its callers run on any machine.  The C driver and the Python tests put them in the table
 * of kernels (falcon_kernel_put).  Keep the numbers those of kernels/amx_*.c. */
#define VEC_BYTES 64
#include "kernels/kernel.h"
#include "kernels/vec_gcc.h"
#include "tiles.h"
#include <string.h>

#define ISA emulated
#define TILES 1

#define ISA_ID FALCON_AMX_BF16
#define P bf16
#define X_1 bf16
#define MR 32
#define NR 32
#define NR_VECS 2
#define KC 256
#include "kernels/kernel_impl.h"

#undef ISA_ID
#define ISA_ID FALCON_AMX_INT8
#define P i8
#define X_1 i8
#define MR 32
#define NR 32
#define NR_VECS 2
#define KC 512
#include "kernels/kernel_impl.h"

#define P u8
#define X_1 u8
#define MR 32
#define NR 32
#define NR_VECS 2
#define KC 512
#include "kernels/kernel_impl.h"

#define P u8i8
#define PAIR_1 u8i8
#define MR 32
#define NR 32
#define NR_VECS 2
#define KC 512
#include "kernels/kernel_impl.h"

#define P i8u8
#define PAIR_1 i8u8
#define MR 32
#define NR 32
#define NR_VECS 2
#define KC 512
#include "kernels/kernel_impl.h"
