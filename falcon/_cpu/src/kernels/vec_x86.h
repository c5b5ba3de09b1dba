/* vec_x86.h - the small vector vocabulary that the kernel template is written
 * in, for AVX-512 and AVX2.  Included by avx512.c and avx2.c only; everything is a macro or static, so that no wide
 * code can leak into objects compiled for the baseline.
 *
 * Per dtype D: D##_VEC, D##_IVEC (integer vector for shuffles), D##_VLEN and
 * D##_{ZERO, LOAD, STORE, STREAM, SET1, FMA}; LOAD and STORE take
 * any address, STREAM one aligned to the vector.
 */
#ifndef FALCON_VEC_X86_H
#define FALCON_VEC_X86_H
#include <immintrin.h>
#include <stdint.h>

#if defined(__AVX512F__)
typedef int32_t f32_IVEC __attribute__((vector_size(64)));
typedef int64_t f64_IVEC __attribute__((vector_size(64)));
#define f32_VEC __m512
#define f32_VLEN 16
#define f32_ZERO() _mm512_setzero_ps()
#define f32_LOAD(p) _mm512_loadu_ps(p)
#define f32_STORE(p, v) _mm512_storeu_ps(p, v)
#define f32_STREAM(p, v) _mm512_stream_ps(p, v)
#define f32_SET1(x) _mm512_set1_ps(x)
#define f32_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define f64_VEC __m512d
#define f64_VLEN 8
#define f64_ZERO() _mm512_setzero_pd()
#define f64_LOAD(p) _mm512_loadu_pd(p)
#define f64_STORE(p, v) _mm512_storeu_pd(p, v)
#define f64_STREAM(p, v) _mm512_stream_pd(p, v)
#define f64_SET1(x) _mm512_set1_pd(x)
#define f64_FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#else
typedef int32_t f32_IVEC __attribute__((vector_size(32)));
typedef int64_t f64_IVEC __attribute__((vector_size(32)));
#define f32_VEC __m256
#define f32_VLEN 8
#define f32_ZERO() _mm256_setzero_ps()
#define f32_LOAD(p) _mm256_loadu_ps(p)
#define f32_STORE(p, v) _mm256_storeu_ps(p, v)
#define f32_STREAM(p, v) _mm256_stream_ps(p, v)
#define f32_SET1(x) _mm256_set1_ps(x)
#define f32_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define f64_VEC __m256d
#define f64_VLEN 4
#define f64_ZERO() _mm256_setzero_pd()
#define f64_LOAD(p) _mm256_loadu_pd(p)
#define f64_STORE(p, v) _mm256_storeu_pd(p, v)
#define f64_STREAM(p, v) _mm256_stream_pd(p, v)
#define f64_SET1(x) _mm256_set1_pd(x)
#define f64_FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#endif
#define V_FENCE() _mm_sfence()

#endif
