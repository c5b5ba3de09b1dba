/* amx_split.c - float32 by AMX_BF16: elements in three or two parts of bfloat16, whose products are summed in float32
 * tiles (split_impl.h, tile_amx.h).  Three parts (six products) err less than float32 arithmetic, two (three products)
 * about 15 times as much. */
#include "kernel.h"
#include "tile_amx.h"
#include "vec_x86.h"
#include <string.h>

#define ISA_ID FALCON_AMX_BF16
/* Their names in the table of kernels. */
#define falcon_kernel_amx_bf16x6_f32 falcon_kernel_amx_bf16_f32x6
#define falcon_kernel_amx_bf16x3_f32 falcon_kernel_amx_bf16_f32x3
#define TILES 1

#define f32_SIZES 32, 32, 2, (PARTS == 3 ? 96 : 192)

#define ISA amx_bf16x6
#define PARTS 3
#define PARTS_ID FALCON_F32X6
#define P f32
#include "kernel_impl.h"
#undef ISA
#undef PARTS
#undef PARTS_ID

#define ISA amx_bf16x3
#define PARTS 2
#define PARTS_ID FALCON_F32X3
#define P f32
#include "kernel_impl.h"
