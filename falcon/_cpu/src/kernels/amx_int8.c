/* amx_int8.c - 8-bit integers by AMX_INT8: tiles of groups of 4 steps of K, products summed modulo 2^32 (tile_amx.h).
 * Sizes are those of amx_bf16.c in bytes. */
#include "kernel.h"
#include "tile_amx.h"
#include "vec_x86.h"
#include <string.h>

#define ISA amx_int8
#define ISA_ID FALCON_AMX_INT8
#define TILES 1

#define P i8
#define X_1 i8
#define MR 32
#define NR 32
#define NR_VECS 2
#define KC 512
#include "kernel_impl.h"

#define P u8
#define X_1 u8
#define MR 32
#define NR 32
#define NR_VECS 2
#define KC 512
#include "kernel_impl.h"

#define P u8i8
#define PAIR_1 u8i8
#define MR 32
#define NR 32
#define NR_VECS 2
#define KC 512
#include "kernel_impl.h"

#define P i8u8
#define PAIR_1 i8u8
#define MR 32
#define NR 32
#define NR_VECS 2
#define KC 512
#include "kernel_impl.h"
