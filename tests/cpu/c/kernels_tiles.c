/* kernels_tiles.c - the AMX kernels (kernels/amx_*.c) with emulated tiles (tiles.h) and dot products (dots.h), in
 * 64-byte GCC vectors, for any machine.  The C driver and the Python tests put them in the table of kernels
 * (falcon_kernel_put). */
#define VEC_BYTES 64
#include "kernels/kernel.h"
#include "kernels/vec_gcc.h"
#include "tiles.h"

/* Not to be included: what the files above take the place of. */
#define FALCON_TILE_AMX_H
#define FALCON_VEC_X86_H

#define amx_bf16 emulated
#define amx_int8 emulated
#define amx_bf16x6 emulated_x6
#define amx_bf16x3 emulated_x3
#include "kernels/amx_bf16.c"
#undef ISA
#undef ISA_ID
#include "kernels/amx_int8.c"
#undef ISA
#undef ISA_ID
#undef TILES
#undef PARTS
#include "kernels/amx_split.c"
