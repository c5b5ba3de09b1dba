/* avx_vnni.c - 8-bit and 16-bit integers by AVX_VNNI (vec_x86.h): AVX512_VNNI's dot products in 32-byte vectors.  With
 * 8 bits of one kind 4 rows, not 6: the sums of what flipping A adds take two more accumulators than 16 registers
 * have. */
#include "kernel.h"
#include "vec_x86.h"
#include <string.h>

#define ISA avx_vnni
#define ISA_ID FALCON_AVX_VNNI
/* As in avx2.c. */
#define B_KEPT 1
#define A_KEPT_TILE {48, 16, 150, 64}
#define B_KEPT_TILE {24, 64, 40, 1000}

#define i16_SIZES 6, 16, 2, 640
#define i8_SIZES 4, 16, 2, 1280
#define u8_SIZES 4, 16, 2, 1280
#define u8i8_SIZES 6, 16, 2, 1280
#define i8u8_SIZES 6, 16, 2, 1280
#define P i16
#include "kernel_impl.h"

#include "bytes.h"
