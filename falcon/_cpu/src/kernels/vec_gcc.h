/* vec_gcc.h - the vector operations of vec_types.h in GCC vector extensions,
 * 16 bytes wide (VEC_BYTES; tests take 64): NEON on aarch64 (where a*b + c
 * contracts to fmla) and the portable kernels everywhere else (SSE2 on baseline
 * x86-64).  There is no portable non-temporal store; STREAM is an ordinary one.
 */
#ifndef FALCON_VEC_GCC_H
#define FALCON_VEC_GCC_H
#include <stdint.h>
#include <string.h>
#if defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#ifndef VEC_BYTES
#define VEC_BYTES 16
#endif
typedef float f32_VEC __attribute__((vector_size(VEC_BYTES)));
typedef double f64_VEC __attribute__((vector_size(VEC_BYTES)));
typedef float f32_VECU __attribute__((vector_size(VEC_BYTES), aligned(4), may_alias));
typedef double f64_VECU __attribute__((vector_size(VEC_BYTES), aligned(8), may_alias));
typedef int32_t f32_IVEC __attribute__((vector_size(VEC_BYTES)));
typedef int64_t f64_IVEC __attribute__((vector_size(VEC_BYTES)));
#define f32_VLEN (VEC_BYTES / 4)
#define f32_ZERO() ((f32_VEC){0})
#define f32_LOAD(p) ((f32_VEC) * (const f32_VECU *)(p))
#define f32_STORE(p, v) (*(f32_VECU *)(p) = (v))
#define f32_STREAM(p, v) f32_STORE(p, v)
#define f32_SET1(x) ((x) - (f32_VEC){0}) /* preserves -0.0 and NaN */
#define f32_FMA(a, b, c) ((a) * (b) + (c))
#define f64_VLEN (VEC_BYTES / 8)
#define f64_ZERO() ((f64_VEC){0})
#define f64_LOAD(p) ((f64_VEC) * (const f64_VECU *)(p))
#define f64_STORE(p, v) (*(f64_VECU *)(p) = (v))
#define f64_STREAM(p, v) f64_STORE(p, v)
#define f64_SET1(x) ((x) - (f64_VEC){0})
#define f64_FMA(a, b, c) ((a) * (b) + (c))
/* The first `some` elements of a vector, one by one. */
#define SOME_OF(VEC, p, some)                                                                                          \
    ({                                                                                                                 \
        VEC v_ = {0};                                                                                                  \
        for (int l_ = 0; l_ < (some); l_++)                                                                            \
            v_[l_] = (p)[l_];                                                                                          \
        v_;                                                                                                            \
    })
#define f32_MASK int
#define f32_FIRST(n) ((int)(n))
#define f32_LOAD_SOME(p, some) SOME_OF(f32_VEC, p, some)
#define f32_STORE_SOME(p, some, v)                                                                                     \
    for (int l_ = 0; l_ < (some); l_++)                                                                                \
    (p)[l_] = (v)[l_]
#define f64_MASK int
#define f64_FIRST(n) ((int)(n))
#define f64_LOAD_SOME(p, some) SOME_OF(f64_VEC, p, some)
#define f64_STORE_SOME(p, some, v) f32_STORE_SOME(p, some, v)
#define V_FENCE() ((void)0) /* no non-temporal stores to order */

#if VEC_BYTES == 16 && defined(__ARM_NEON)
#define f16_WIDEN(v) ((f32_VEC)vcvt_f32_f16((float16x4_t)(v)))
#define f16_NARROW(v) ((u16_RAW)vcvt_f16_f32((float32x4_t)(v)))
#ifdef __ARM_FEATURE_DOTPROD
/* Inline assembly: GCC 12 would broadcast all lanes of a step first, and spill accumulators. */
#define SPREAD_LANE(p)                                                                                                 \
    ({                                                                                                                 \
        i32_VEC v_;                                                                                                    \
        __asm__ volatile("ld1r {%0.4s}, %1" : "=w"(v_) : "Q"(*(const falcon_lane *)(p)));                              \
        v_;                                                                                                            \
    })
#endif
#if defined(__ARM_FEATURE_DOTPROD) || defined(__ARM_FEATURE_MATMUL_INT8)
#define i8_FLIP 0 /* signed by signed and unsigned by unsigned */
#define u8_FLIP 0
#define SUM_OF_BYTES(name, a, b, c)                                                                                    \
    ({                                                                                                                 \
        i32_VEC c_ = (c);                                                                                              \
        __asm__(name " %0.4s, %1.16b, %2.16b" : "+w"(c_) : "w"(a), "w"(b));                                            \
        c_;                                                                                                            \
    })
#define i8_DOT(a, b, c) SUM_OF_BYTES("sdot", a, b, c)
#define u8_DOT(a, b, c) SUM_OF_BYTES("udot", a, b, c)
#define i8_BLOCK(a, b, c) SUM_OF_BYTES("smmla", a, b, c)
#define u8_BLOCK(a, b, c) SUM_OF_BYTES("ummla", a, b, c)
/* One kind by the other: as it is by the matrix instruction, else A's elements are shifted to the kind of B's. */
#ifdef __ARM_FEATURE_MATMUL_INT8
#define u8i8_BLOCK(a, b, c) SUM_OF_BYTES("usmmla", a, b, c)
#define i8u8_BLOCK(a, b, c) SUM_OF_BYTES("usmmla", b, a, c) /* by columns */
#else
#define u8i8_FLIP 0x80808080
#define i8u8_FLIP 0x80808080
#define u8i8_DOT(a, b, c) i8_DOT(a, b, c)
#define i8u8_DOT(a, b, c) u8_DOT(a, b, c)
#endif
#endif
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
#define bf16_BLOCK(a, b, c) ((f32_VEC)vbfmmlaq_f32((float32x4_t)(c), (bfloat16x8_t)(a), (bfloat16x8_t)(b)))
#endif
#elif VEC_BYTES == 16 && defined(__SSE2__)
#define i16_DOT(a, b, c) ((c) + (i32_VEC)_mm_madd_epi16((__m128i)(a), (__m128i)(b)))
#endif
#include "vec_types.h"

#endif
