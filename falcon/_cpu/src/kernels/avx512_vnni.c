/* avx512_vnni.c - 8-bit and 16-bit integers by AVX512_VNNI: VPDPBUSD multiplies fours of unsigned by signed 8-bit
 * elements, VPDPWSSD pairs of 16-bit ones; both add modulo 2^32 and saturate nothing. */
#include "kernel.h"
/* As text: GCC 12 spills accumulators of the intrinsics, which it moves between types of vectors. */
#define VNNI(name, a, b, c)                                                                                            \
    ({                                                                                                                 \
        i32_VEC c_ = (c);                                                                                              \
        __asm__(name " %2, %1, %0" : "+v"(c_) : "v"(a), "v"(b));                                                       \
        c_;                                                                                                            \
    })
#define i16_DOT(a, b, c) VNNI("vpdpwssd", a, b, c)
#define i8_DOT(a, b, c) VNNI("vpdpbusd", a, b, c)
#define u8_DOT(a, b, c) VNNI("vpdpbusd", b, a, c)
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
