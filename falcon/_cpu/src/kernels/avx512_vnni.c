/* avx512_vnni.c - 8-bit and 16-bit integers by AVX512_VNNI (vec_x86.h): panels hold groups of 4 and 2 steps of K. */
#include "kernel.h"
#include "vec_x86.h"
#include <string.h>

#define ISA avx512_vnni
#define ISA_ID FALCON_AVX512_VNNI

#define i16_SIZES 12, 32, 2, 768
#define i8_SIZES 12, 32, 2, 1536
#define u8_SIZES 12, 32, 2, 1536
#define u8i8_SIZES 12, 32, 2, 1536
#define i8u8_SIZES 12, 32, 2, 1536
#define P i16
#include "kernel_impl.h"

#include "bytes.h"
