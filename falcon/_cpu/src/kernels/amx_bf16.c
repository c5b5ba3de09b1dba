/* amx_bf16.c - bfloat16 by AMX_BF16: tiles of pairs of steps of K, products summed in float32 (tile_amx.h).  A scheme's
 * sums are formed in float32 and rounded once to bfloat16.  Sizes follow measurements of a bare micro-kernel on a Xeon
 * (32 x 32, kc 256: 66 % of the tiles' peak with one panel in L1 and the other from L2); this file itself has run in
 * emulation only. */
#include "kernel.h"
#include "tile_amx.h"
#include "vec_x86.h"
#include <string.h>

#define ISA amx_bf16
#define ISA_ID FALCON_AMX_BF16
#define TILES 1

#define P bf16
#define X_1 bf16
#define MR 32
#define NR 32
#define NR_VECS 2
#define KC 256
#include "kernel_impl.h"
