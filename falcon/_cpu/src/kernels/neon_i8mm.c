/* neon_i8mm.c - 8-bit integers by SMMLA, UMMLA and USMMLA (FEAT_I8MM, optional from ARMv8.2: two rows by two columns,
 * eight steps of K, modulo 2^32).  Has run under QEMU only. */
#include "kernel.h"
#include "vec_gcc.h"
#include <string.h>

#define ISA neon_i8mm
#define ISA_ID FALCON_NEON_I8MM
#define BLOCKS 1

#define i8u8_BY_COLUMNS 1
#define i8_SIZES 8, 12, 3, 1024
#define u8_SIZES 8, 12, 3, 1024
#define u8i8_SIZES 8, 12, 3, 1024
#define i8u8_SIZES 8, 12, 3, 1024
#include "bytes.h"
