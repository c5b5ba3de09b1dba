/* amx_int8.c - 8-bit integers by AMX_INT8: tiles of groups of 4 steps of K, products summed modulo 2^32 (tile_amx.h).
 * Sizes are those of amx_bf16.c in bytes. */
#include "kernel.h"
#include "tile_amx.h"
#include "vec_x86.h"
#include <string.h>

#define ISA amx_int8
#define ISA_ID FALCON_AMX_INT8
#define TILES 1

#define i8_SIZES 32, 32, 2, 512
#define u8_SIZES 32, 32, 2, 512
#define u8i8_SIZES 32, 32, 2, 512
#define i8u8_SIZES 32, 32, 2, 512
#include "bytes.h"
