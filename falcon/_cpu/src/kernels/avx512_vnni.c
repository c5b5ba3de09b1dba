/* avx512_vnni.c - 8-bit and 16-bit integers by AVX512_VNNI (vec_x86.h): panels hold groups of 4 and 2 steps of K. */
#include "kernel.h"
#include "vec_x86.h"
#include <string.h>

#define ISA avx512_vnni
#define ISA_ID FALCON_AVX512_VNNI

#define P i16
#define X_1 i16
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 768
#include "kernel_impl.h"

#define P i8
#define X_1 i8
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 1536
#include "kernel_impl.h"

#define P u8
#define X_1 u8
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 1536
#include "kernel_impl.h"

#define P u8i8
#define PAIR_1 u8i8
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 1536
#include "kernel_impl.h"

#define P i8u8
#define PAIR_1 i8u8
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 1536
#include "kernel_impl.h"
