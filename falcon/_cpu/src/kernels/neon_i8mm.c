/* neon_i8mm.c - 8-bit integers by SMMLA, UMMLA and USMMLA (FEAT_I8MM, optional from ARMv8.2: two rows by two columns,
 * eight steps of K, modulo 2^32).  Has run under QEMU only. */
#include "kernel.h"
#include "vec_gcc.h"
#include <string.h>

#define ISA neon_i8mm
#define ISA_ID FALCON_NEON_I8MM
#define BLOCKS 1

#define P i8
#define X_1 i8
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 1024
#include "kernel_impl.h"

#define P u8
#define X_1 u8
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 1024
#include "kernel_impl.h"

#define P u8i8
#define PAIR_1 u8i8
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 1024
#include "kernel_impl.h"

#define P i8u8
#define PAIR_1 i8u8
#define BY_COLUMNS 1
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 1024
#include "kernel_impl.h"
