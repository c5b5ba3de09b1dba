/* vec_x86.h - the vector operations of vec_types.h for AVX-512 and AVX2.  Included by kernels of these instruction sets
 * only; everything is a macro or static, so that no wide code can leak into objects compiled for the baseline.
 * LOAD and STORE take any address, STREAM one aligned to the vector.
 */
#ifndef FALCON_VEC_X86_H
#define FALCON_VEC_X86_H
#include <immintrin.h>
#include <stdint.h>

/* MM: the instructions of this width.  HALF, QUARTER: so many of a vector's bytes. */
#if defined(__AVX512F__)
#define VEC_BYTES 64
#define MM(name) _mm512_##name
#define HALF(v) ((__m256i)(v))
#define QUARTER(v) ((__m128i)(v))
#define f32_VEC __m512
#define f64_VEC __m512d
#define f32_MASK __mmask16
#define f32_FIRST(n) ((__mmask16)((1u << (n)) - 1))
#define f32_LOAD_SOME(p, mask) _mm512_maskz_loadu_ps(mask, p)
#define f32_STORE_SOME(p, mask, v) _mm512_mask_storeu_ps(p, mask, v)
#define f64_MASK __mmask8
#define f64_FIRST(n) ((__mmask8)((1u << (n)) - 1))
#define f64_LOAD_SOME(p, mask) _mm512_maskz_loadu_pd(mask, p)
#define f64_STORE_SOME(p, mask, v) _mm512_mask_storeu_pd(p, mask, v)
#define u16_STREAM(p, v) _mm256_stream_si256((__m256i *)(p), (__m256i)(v))
#define LOWER_16(v) ((u16_RAW)_mm512_cvtepi32_epi16((__m512i)(v)))
#define LOWER_8(v) ((u8_RAW)_mm512_cvtepi32_epi8((__m512i)(v)))
#define f64f32_WIDEN(x)                                                                                                \
    _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps((x).low)), _mm512_cvtpd_ps((x).high), 1)
#define f64f32_NARROW(v)                                                                                               \
    ((f64f32_RAW){_mm512_cvtps_pd(_mm512_castps512_ps256(v)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1))})
#define f32f64_WIDEN(v) _mm512_cvtps_pd((__m256)(v))
#define f32f64_NARROW(v) ((f32f64_RAW)_mm512_cvtpd_ps(v))
#else
#define VEC_BYTES 32
#define MM(name) _mm256_##name
#define HALF(v) ((__m128i)(v))
#define QUARTER(v) _mm_cvtsi64_si128((long long)(v))
#define f32_VEC __m256
#define f64_VEC __m256d
#define f32_MASK __m256i
#define f32_FIRST(n) _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define f32_LOAD_SOME(p, mask) _mm256_maskload_ps(p, mask)
#define f32_STORE_SOME(p, mask, v) _mm256_maskstore_ps(p, mask, v)
#define f64_MASK __m256i
#define f64_FIRST(n) _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3))
#define f64_LOAD_SOME(p, mask) _mm256_maskload_pd(p, mask)
#define f64_STORE_SOME(p, mask, v) _mm256_maskstore_pd(p, mask, v)
#define f64f32_WIDEN(x) _mm256_set_m128(_mm256_cvtpd_ps((x).high), _mm256_cvtpd_ps((x).low))
#define f64f32_NARROW(v)                                                                                               \
    ((f64f32_RAW){_mm256_cvtps_pd(_mm256_castps256_ps128(v)), _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))})
#define f32f64_WIDEN(v) _mm256_cvtps_pd((__m128)(v))
#define f32f64_NARROW(v) ((f32f64_RAW)_mm256_cvtpd_ps(v))
#endif
typedef int32_t f32_IVEC __attribute__((vector_size(VEC_BYTES)));
typedef int64_t f64_IVEC __attribute__((vector_size(VEC_BYTES)));
#define f32_VLEN (VEC_BYTES / 4)
#define f32_ZERO() MM(setzero_ps)()
#define f32_LOAD(p) MM(loadu_ps)(p)
#define f32_STORE(p, v) MM(storeu_ps)(p, v)
#define f32_STREAM(p, v) MM(stream_ps)(p, v)
#define f32_SET1(x) MM(set1_ps)(x)
#define f32_FMA(a, b, c) MM(fmadd_ps)(a, b, c)
#define f64_VLEN (VEC_BYTES / 8)
#define f64_ZERO() MM(setzero_pd)()
#define f64_LOAD(p) MM(loadu_pd)(p)
#define f64_STORE(p, v) MM(storeu_pd)(p, v)
#define f64_STREAM(p, v) MM(stream_pd)(p, v)
#define f64_SET1(x) MM(set1_pd)(x)
#define f64_FMA(a, b, c) MM(fmadd_pd)(a, b, c)
#define i32_SET1(x) ((i32_VEC)MM(set1_epi32)((int)(x)))
#define f16_WIDEN(v) MM(cvtph_ps)(HALF(v))
#define f16_NARROW(v) ((u16_RAW)MM(cvtps_ph)(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#define UNSIGNED_16(v) ((i32_VEC)MM(cvtepu16_epi32)(HALF(v)))
#define SIGNED_16(v) ((i32_VEC)MM(cvtepi16_epi32)(HALF(v)))
#define UNSIGNED_8(v) ((i32_VEC)MM(cvtepu8_epi32)(QUARTER(v)))
#define SIGNED_8(v) ((i32_VEC)MM(cvtepi8_epi32)(QUARTER(v)))
#define PAIRS_UNSIGNED_8(v) ((i32_VEC)MM(cvtepu8_epi16)(HALF(v)))
#define PAIRS_SIGNED_8(v) ((i32_VEC)MM(cvtepi8_epi16)(HALF(v)))
#define V_FENCE() _mm_sfence()
/* c + a b by two instructions.  Inline assembly: with expressions, GCC 12 spills accumulators. */
#define MULTIPLY_ADD(VEC, multiply, add, a, b, c)                                                                      \
    ({                                                                                                                 \
        VEC product_, sum_ = (c);                                                                                      \
        __asm__(multiply " %3, %2, %1\n\t" add " %1, %0, %0" : "+v"(sum_), "=&v"(product_) : "v"(a), "v"(b));          \
        sum_;                                                                                                          \
    })
#define i32_DOT(a, b, c) MULTIPLY_ADD(i32_VEC, "vpmulld", "vpaddd", a, b, c)
#ifdef __AVX512DQ__
#define i64_DOT(a, b, c) MULTIPLY_ADD(i64_VEC, "vpmullq", "vpaddq", a, b, c)
#endif
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
/* 8 and 16 bits by AVX512_VNNI or AVX_VNNI: VPDPBUSD multiplies four unsigned by four signed 8-bit elements,
 * VPDPWSSD pairs of 16-bit ones; both add modulo 2^32 without saturation.  Inline assembly: with the intrinsics, which
 * convert between vector types, GCC 12 spills accumulators. */
#ifdef __AVX512VNNI__
#define VNNI_FORM ""
#else
#define VNNI_FORM "%{vex%} "
#endif
#define VNNI(name, a, b, c)                                                                                            \
    ({                                                                                                                 \
        i32_VEC c_ = (c);                                                                                              \
        __asm__(VNNI_FORM name " %2, %1, %0" : "+v"(c_) : "v"(a), "v"(b));                                             \
        c_;                                                                                                            \
    })
#define i16_DOT(a, b, c) VNNI("vpdpwssd", a, b, c)
#define i8_DOT(a, b, c) VNNI("vpdpbusd", a, b, c)
#define u8_DOT(a, b, c) VNNI("vpdpbusd", b, a, c)
#define u8i8_DOT(a, b, c) VNNI("vpdpbusd", a, b, c)
#define i8u8_DOT(a, b, c) VNNI("vpdpbusd", b, a, c)
#else
#define i16_DOT(a, b, c) MULTIPLY_ADD(i32_VEC, "vpmaddwd", "vpaddd", a, b, c)
#endif
#ifdef __AVX512BF16__
#define bf16_DOT(a, b, c) _mm512_dpbf16_ps(c, (__m512bh)(a), (__m512bh)(b))
#define bf16_PAIRS(x, y) ((i32_VEC)_mm512_cvtne2ps_pbh(y, x))
#endif
#include "vec_types.h"

#endif
