/* amx_bf16.c - bfloat16 by AMX_BF16: tiles of pairs of steps of K, products summed in float32 (tile_amx.h).  A scheme's
 * sums are formed in float32 and rounded once to bfloat16.
 *
 * Measured on a Xeon with AMX (tiles' peak 3,840 GFLOP/s a core, random data): the micro-kernel alone 2,440 with A's
 * panel in L1, B's and H from L2, 2,050 before stores and loads of H lay between products; 1,850 where the panels come
 * from L3. kc 192 to 384 and other tiles were no faster. */
#include "kernel.h"
#include "tile_amx.h"
#include "vec_x86.h"
#include <string.h>

#define ISA amx_bf16
#define ISA_ID FALCON_AMX_BF16
#define TILES 1

#define bf16_SIZES 32, 32, 2, 256
#define P bf16
#define X_1 f32bf16
#define X_2 f64bf16
#include "kernel_impl.h"
