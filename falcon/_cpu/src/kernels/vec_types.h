/* vec_types.h - the vector operations that are the same on every instruction set, in GCC vectors of VEC_BYTES: integer
 * accumulators, the types that operands and C may have, and how panels of them are multiplied.
 * Included by vec_x86.h and vec_gcc.h, which define f32, f64 and whatever their instruction sets do better.
 *
 * Accumulators (f32, f64, i32, i64):
 *   _T, _VEC, _IVEC (shuffle masks), _VLEN, _ZERO, _LOAD, _STORE, _STREAM, _SET1, _FMA; _LOAD_SOME, _STORE_SOME: of the
 *   first n elements of a vector alone (the others are 0), for a _MASK that is _FIRST(n); _COEF: a coefficient as _T;
 *   _SCALAR: a falcon_scalar as _T; _EXACT: arithmetic wraps and never rounds
 * Elements in memory, converted to and from the accumulators of the same name or of the type in _ACC:
 *   _T, _ID, _GET and _PUT (one value), _RAW (a vector of them as stored), _READ, _WRITE, _STREAMED, _WIDEN and _NARROW
 *   (between _RAW and accumulators; to nearest even, integers wrap)
 * Panels:
 *   _ACC: its accumulators; _KR: steps of K in a lane; _DOT(a, b, c): c + a b; _BITS(v): elements that are held in
 *   accumulators, as the low bits of integers; _FLIP: what A's lanes are xored with in a panel, which shifts its
 *   elements by 2^7;
 *   _BLOCK(a, b, c): see block_impl.h
 *   x_AS_p(q): lanes of a panel of type p from elements of type x at q
 */
#ifndef FALCON_VEC_TYPES_H
#define FALCON_VEC_TYPES_H

#define VECTOR_OF(T, n) T __attribute__((vector_size((n) * sizeof(T))))
#define UNALIGNED(T, n) T __attribute__((vector_size((n) * sizeof(T)), aligned(sizeof(T)), may_alias))
/* The elements of a and b, one vector after the other, whose numbers are in `from`. */
#ifdef __clang__ /* has no such function for numbers in a vector, but makes one instruction of this */
#define SHUFFLE(a, b, from)                                                                                            \
    ({                                                                                                                 \
        __typeof__((a) + (b)) a_ = (a), b_ = (b), to_;                                                                 \
        __typeof__(from) from_ = (from);                                                                               \
        enum { N_ = sizeof to_ / sizeof to_[0] };                                                                      \
        _Pragma("GCC unroll 16") for (int l_ = 0; l_ < N_; l_++) to_[l_] =                                             \
            from_[l_] < N_ ? a_[from_[l_]] : b_[from_[l_] - N_];                                                       \
        to_;                                                                                                           \
    })
#else
#define SHUFFLE(a, b, from) __builtin_shuffle(a, b, from)
#endif

/* ---- int32, modulo 2^32 -------------------------------------------------- */

#define i32_VLEN (VEC_BYTES / 4)
typedef VECTOR_OF(uint32_t, i32_VLEN) i32_VEC;
typedef UNALIGNED(uint32_t, i32_VLEN) i32_VECU;
typedef VECTOR_OF(int32_t, i32_VLEN) s32_VEC;
#define i32_T uint32_t
#define i32_IVEC f32_IVEC
#define i32_ZERO() ((i32_VEC){0})
#define i32_LOAD(p) ((i32_VEC) * (const i32_VECU *)(p))
#define i32_STORE(p, v) (*(i32_VECU *)(p) = (v))
#define i32_MASK f32_MASK
#define i32_FIRST(n) f32_FIRST(n)
#define i32_LOAD_SOME(p, some) ((i32_VEC)f32_LOAD_SOME((const float *)(p), some))
#define i32_STORE_SOME(p, some, v) f32_STORE_SOME((float *)(p), some, (f32_VEC)(v))
#define i32_STREAM(p, v) f32_STREAM((float *)(p), (f32_VEC)(v))
#ifndef i32_SET1
#define i32_SET1(x) ((i32_VEC){0} + (x))
#endif
#define i32_FMA(a, b, c) ((a) * (b) + (c))
#define i32_COEF(x) ((uint32_t)(int64_t)(x))
#define i32_SCALAR(s) ((uint32_t)(s).whole)
#define i32_EXACT 1

/* ---- int64, modulo 2^64 -------------------------------------------------- */

#define i64_VLEN (VEC_BYTES / 8)
typedef VECTOR_OF(uint64_t, i64_VLEN) i64_VEC;
typedef UNALIGNED(uint64_t, i64_VLEN) i64_VECU;
#define i64_T uint64_t
#define i64_IVEC f64_IVEC
#define i64_ZERO() ((i64_VEC){0})
#define i64_LOAD(p) ((i64_VEC) * (const i64_VECU *)(p))
#define i64_STORE(p, v) (*(i64_VECU *)(p) = (v))
#define i64_MASK f64_MASK
#define i64_FIRST(n) f64_FIRST(n)
#define i64_LOAD_SOME(p, some) ((i64_VEC)f64_LOAD_SOME((const double *)(p), some))
#define i64_STORE_SOME(p, some, v) f64_STORE_SOME((double *)(p), some, (f64_VEC)(v))
#define i64_STREAM(p, v) f64_STREAM((double *)(p), (f64_VEC)(v))
#define i64_SET1(x) ((i64_VEC){0} + (x))
#define i64_FMA(a, b, c) ((a) * (b) + (c))
#define i64_COEF(x) ((uint64_t)(int64_t)(x))
#define i64_SCALAR(s) ((uint64_t)(s).whole)
#define i64_EXACT 1
#define f32_COEF(x) ((float)(x))
#define f32_SCALAR(s) ((float)(s).real)
#define f32_EXACT 0
#define f64_COEF(x) ((double)(x))
#define f64_SCALAR(s) ((s).real)
#define f64_EXACT 0

/* ---- elements ------------------------------------------------------------- */

#define f32_T float
#define f32_PARTS 1 /* of complex64 */
#define f32_ID FALCON_F32
#define f32_GET(x) (x)
#define f32_PUT(x) (x)
#define f32_RAW f32_VEC
#define f32_READ(p) f32_LOAD(p)
#define f32_WRITE(p, v) f32_STORE(p, v)
#define f32_STREAMED(p, v) f32_STREAM(p, v)
#define f32_WIDEN(v) (v)
#define f32_NARROW(v) (v)

#define f64_T double
#define f64_PARTS 1
#define f64_ID FALCON_F64
#define f64_GET(x) (x)
#define f64_PUT(x) (x)
#define f64_RAW f64_VEC
#define f64_READ(p) f64_LOAD(p)
#define f64_WRITE(p, v) f64_STORE(p, v)
#define f64_STREAMED(p, v) f64_STREAM(p, v)
#define f64_WIDEN(v) (v)
#define f64_NARROW(v) (v)

#define i32_ID FALCON_I32
#define i32_GET(x) (x)
#define i32_PUT(x) (x)
#define i32_RAW i32_VEC
#define i32_READ(p) i32_LOAD(p)
#define i32_WRITE(p, v) i32_STORE(p, v)
#define i32_STREAMED(p, v) i32_STREAM(p, v)
#define i32_WIDEN(v) (v)
#define i32_NARROW(v) (v)

#define i64_ID FALCON_I64
#define i64_GET(x) (x)
#define i64_PUT(x) (x)
#define i64_RAW i64_VEC
#define i64_READ(p) i64_LOAD(p)
#define i64_WRITE(p, v) i64_STORE(p, v)
#define i64_STREAMED(p, v) i64_STREAM(p, v)
#define i64_WIDEN(v) (v)
#define i64_NARROW(v) (v)

/* int64 that is converted to and from float64. */
typedef VECTOR_OF(int64_t, i64_VLEN) s64_VEC;
typedef UNALIGNED(int64_t, i64_VLEN) s64_VECU;
#define i64f64_T int64_t
#define i64f64_ID FALCON_I64F64
#define i64f64_GET(x) ((double)(x))
#define i64f64_PUT(x) ((int64_t)(x))
#define i64f64_RAW s64_VEC
#define i64f64_READ(p) ((s64_VEC) * (const s64_VECU *)(p))
#define i64f64_WRITE(p, v) (*(s64_VECU *)(p) = (v))
#define i64f64_STREAMED(p, v) f64_STREAM((double *)(p), (f64_VEC)(v))
#define i64f64_WIDEN(v) __builtin_convertvector(v, f64_VEC)
#define i64f64_NARROW(v) __builtin_convertvector(v, s64_VEC)

/* float64 that is multiplied as float32, and float32 as float64: a vector of one is two of the other.  A C of float64
 * is added to as it is (_FINER, see c_impl.h). */
typedef struct {
    f64_VEC low, high;
} f64f32_RAW;
#ifndef f64f32_WIDEN
static inline f32_VEC f64f32_widened(f64f32_RAW x) {
    f32_VEC v = {0};
    for (int l = 0; l < f32_VLEN; l++)
        v[l] = (float)(l < f64_VLEN ? x.low[l] : x.high[l - f64_VLEN]);
    return v;
}
static inline f64f32_RAW f64f32_narrowed(f32_VEC v) {
    f64f32_RAW x = {{0}, {0}};
    for (int l = 0; l < f64_VLEN; l++)
        x.low[l] = v[l], x.high[l] = v[l + f64_VLEN];
    return x;
}
#define f64f32_WIDEN(x) f64f32_widened(x)
#define f64f32_NARROW(v) f64f32_narrowed(v)
#endif
#define f64f32_T double
#define f64f32_PARTS 1
#define f64f32_FINER 1
#define f64f32_ID FALCON_F64F32
#define f64f32_GET(x) ((float)(x))
#define f64f32_PUT(x) ((double)(x))
#define f64f32_READ(p) ((f64f32_RAW){f64_LOAD(p), f64_LOAD((p) + f64_VLEN)})
#define f64f32_WRITE(p, v) (f64_STORE(p, (v).low), f64_STORE((p) + f64_VLEN, (v).high))
#define f64f32_STREAMED(p, v) (f64_STREAM(p, (v).low), f64_STREAM((p) + f64_VLEN, (v).high))
static inline f64f32_RAW f64f32_added(f64f32_RAW c, double beta, f64f32_RAW x) {
    const f64_VEC b = f64_SET1(beta);
    return (f64f32_RAW){f64_FMA(b, c.low, x.low), f64_FMA(b, c.high, x.high)};
}
#define f64f32_ADDED(c, beta, x) f64f32_added(c, beta, x)

typedef float f32f64_RAW __attribute__((vector_size(VEC_BYTES / 2)));
typedef float f32f64_RAWU __attribute__((vector_size(VEC_BYTES / 2), aligned(4), may_alias));
#ifndef f32f64_WIDEN
#define f32f64_WIDEN(v) __builtin_convertvector(v, f64_VEC)
#define f32f64_NARROW(v) __builtin_convertvector(v, f32f64_RAW)
#endif
#define f32f64_T float
#define f32f64_PARTS 1
#define f32f64_ID FALCON_F32F64
#define f32f64_GET(x) ((double)(x))
#define f32f64_PUT(x) ((float)(x))
#define f32f64_READ(p) ((f32f64_RAW) * (const f32f64_RAWU *)(p))
#define f32f64_WRITE(p, v) (*(f32f64_RAWU *)(p) = (v))
#define f32f64_STREAMED(p, v) f32f64_WRITE(p, v)

/* Eight and sixteen bits: _RAW is shorter than a vector of accumulators. */
typedef VECTOR_OF(uint16_t, i32_VLEN) u16_RAW;
typedef UNALIGNED(uint16_t, i32_VLEN) u16_RAWU;
typedef VECTOR_OF(int16_t, i32_VLEN) i16_RAW;
typedef UNALIGNED(int16_t, i32_VLEN) i16_RAWU;
typedef VECTOR_OF(int8_t, i32_VLEN) i8_RAW;
typedef UNALIGNED(int8_t, i32_VLEN) i8_RAWU;
typedef VECTOR_OF(uint8_t, i32_VLEN) u8_RAW;
typedef UNALIGNED(uint8_t, i32_VLEN) u8_RAWU;
/* Conversions between them and 32-bit lanes; GCC 12 converts 8-bit elements one by one. */
#ifndef UNSIGNED_16
#define UNSIGNED_16(v) __builtin_convertvector(v, i32_VEC)
#define SIGNED_16(v) ((i32_VEC) __builtin_convertvector(v, s32_VEC))
#define UNSIGNED_8(v) __builtin_convertvector(v, i32_VEC)
#define SIGNED_8(v) ((i32_VEC) __builtin_convertvector(v, s32_VEC))
#define PAIRS_UNSIGNED_8(v) ((i32_VEC) __builtin_convertvector(v, i16_PAIRS))
#define PAIRS_SIGNED_8(v) ((i32_VEC) __builtin_convertvector(v, i16_PAIRS))
#endif
#ifndef LOWER_16
#define LOWER_16(v) __builtin_convertvector(v, u16_RAW)
#define LOWER_8(v) __builtin_convertvector(v, u8_RAW)
#endif
/* Non-temporal stores of 16-bit elements; ordinary ones where a micro-tile's row is less than a cache line. */
#ifndef u16_STREAM
#define u16_STREAM(p, v) (*(u16_RAWU *)(p) = (v))
#endif

#define i16_T int16_t
#define i16_ID FALCON_I16
#define i16_GET(x) ((uint32_t)(x))
#define i16_PUT(x) ((int16_t)(x))
#define i16_READ(p) ((i16_RAW) * (const i16_RAWU *)(p))
#define i16_WRITE(p, v) (*(i16_RAWU *)(p) = (v))
#define i16_STREAMED(p, v) u16_STREAM(p, (u16_RAW)(v))
#define i16_WIDEN(v) SIGNED_16(v)
#define i16_NARROW(v) ((i16_RAW)LOWER_16(v))

#define i8_T int8_t
#define i8_ID FALCON_I8
#define i8_GET(x) ((uint32_t)(x))
#define i8_PUT(x) ((int8_t)(x))
#define i8_READ(p) ((i8_RAW) * (const i8_RAWU *)(p))
#define i8_WRITE(p, v) (*(i8_RAWU *)(p) = (v))
#define i8_STREAMED(p, v) i8_WRITE(p, v)
#define i8_WIDEN(v) SIGNED_8(v)
#define i8_NARROW(v) ((i8_RAW)LOWER_8(v))

#define u8_T uint8_t
#define u8_ID FALCON_U8
#define u8_GET(x) ((uint32_t)(x))
#define u8_PUT(x) ((uint8_t)(x))
#define u8_READ(p) ((u8_RAW) * (const u8_RAWU *)(p))
#define u8_WRITE(p, v) (*(u8_RAWU *)(p) = (v))
#define u8_STREAMED(p, v) u8_WRITE(p, v)
#define u8_WIDEN(v) UNSIGNED_8(v)
#define u8_NARROW(v) LOWER_8(v)

/* bfloat16 is the upper half of a float32, rounded to nearest even; NaN stays NaN. */
static inline i32_VEC bf16_rounded(i32_VEC x) {
    const i32_VEC nan = (i32_VEC)((x & 0x7fffffff) > 0x7f800000);
    return ((x + 0x7fff + (x >> 16 & 1)) & ~nan) | ((x | 0x400000) & nan);
}
#define bf16_T uint16_t
#define bf16_ID FALCON_BF16
#define bf16_GET(x) (((f32_VEC)i32_SET1((uint32_t)(x) << 16))[0])
#define bf16_PUT(x) ((uint16_t)(bf16_rounded((i32_VEC)f32_SET1(x))[0] >> 16))
#define bf16_RAW u16_RAW
#define bf16_READ(p) ((u16_RAW) * (const u16_RAWU *)(p))
#define bf16_WRITE(p, v) (*(u16_RAWU *)(p) = (v))
#define bf16_STREAMED(p, v) u16_STREAM(p, v)
#define bf16_WIDEN(v) ((f32_VEC)(UNSIGNED_16(v) << 16))
#define bf16_NARROW(v) LOWER_16(bf16_rounded((i32_VEC)(v)) >> 16)

/* float32 and float64 that are multiplied as bfloat16: rounded as they are read.  A C of them (_C) is not. */
#define bf16_NEAREST(v) ((f32_VEC)(bf16_rounded((i32_VEC)(v)) & 0xffff0000))
#define f32bf16_T float
#define f32bf16_ID FALCON_F32BF16
#define f32bf16_ROUNDS 1
#define f32bf16_C f32
#define f32bf16_GET(x) bf16_GET(bf16_PUT(x))
#define f32bf16_READ(p) f32_LOAD(p)
#define f32bf16_WIDEN(v) bf16_NEAREST(v)
#define f64bf16_T double
#define f64bf16_ID FALCON_F64BF16
#define f64bf16_ROUNDS 1
#define f64bf16_C f64f32
#define f64bf16_GET(x) f32bf16_GET((float)(x))
#define f64bf16_READ(p) f64f32_READ(p)
#define f64bf16_WIDEN(v) bf16_NEAREST(f64f32_WIDEN(v))

#ifndef f16_WIDEN
/* float16 by integer operations: exponents are shifted by 112 and subnormals normalised by a subtraction. */
static inline f32_VEC f16_widened(u16_RAW half) {
    const i32_VEC h = __builtin_convertvector(half, i32_VEC), x = (h & 0x7fff) << 13;
    const i32_VEC small = (i32_VEC)(x < 0x00800000), large = (i32_VEC)(x >= 0x0f800000);
    const f32_VEC least = (f32_VEC)((i32_VEC){0} + 0x38800000); /* 2^-14 */
    const i32_VEC subnormal = (i32_VEC)((f32_VEC)(x + 0x38800000) - least);
    const i32_VEC normal = (x + 0x38000000) | (large & 0x7f800000);
    return (f32_VEC)((subnormal & small) | (normal & ~small) | (h & 0x8000) << 16);
}
static inline u16_RAW f16_narrowed(f32_VEC value) {
    const i32_VEC bits = (i32_VEC)value, x = bits & 0x7fffffff;
    const i32_VEC nan = (i32_VEC)(x > 0x7f800000), large = (i32_VEC)(x >= 0x47800000);
    const i32_VEC small = (i32_VEC)(x < 0x38800000);
    const f32_VEC half = (f32_VEC)((i32_VEC){0} + 0x3f000000); /* 0.5: its unit in the last place is 2^-24 */
    const i32_VEC subnormal = (i32_VEC)((f32_VEC)(x & small) + half) - 0x3f000000;
    const i32_VEC normal = (x - 0x38000000 + 0xfff + (x >> 13 & 1)) >> 13;
    const i32_VEC finite = (subnormal & small) | (normal & ~small);
    const i32_VEC found = (finite & ~large) | (large & 0x7c00) | (nan & 0x0200) | (bits >> 16 & 0x8000);
    return __builtin_convertvector(found, u16_RAW);
}
#define f16_WIDEN(v) f16_widened(v)
#define f16_NARROW(v) f16_narrowed(v)
#endif
#define f16_T uint16_t
#define f16_ID FALCON_F16
#define f16_GET(x) (f16_WIDEN((u16_RAW){x})[0])
#define f16_PUT(x) (f16_NARROW(f32_SET1(x))[0])
#define f16_RAW u16_RAW
#define f16_READ(p) bf16_READ(p)
#define f16_WRITE(p, v) bf16_WRITE(p, v)
#define f16_STREAMED(p, v) u16_STREAM(p, v)

/* ---- panels --------------------------------------------------------------- */

typedef uint32_t __attribute__((may_alias)) falcon_lane; /* some steps of K in 32 bits */
typedef uint32_t lanes_at __attribute__((vector_size(VEC_BYTES), aligned(1), may_alias));
#define LANES_AT(p) ((i32_VEC) * (const lanes_at *)(p)) /* of elements, whatever their alignment */
#ifndef SPREAD_LANE
#define SPREAD_LANE(p) i32_SET1(*(const falcon_lane *)(p))
#endif

#define f32_ACC f32
#define f32_KR 1
#define f32_DOT(a, b, c) f32_FMA(a, b, c)
#define f32_BITS(v) ((i32_VEC)(v))
#define f32_FLIP 0
#define f32_AS_f32(p) f32_LOAD(p)
#define f16_AS_f32(p) f16_WIDEN(f16_READ(p))
#define bf16_AS_f32(p) bf16_WIDEN(bf16_READ(p))

#define f64f32_AS_f32(p) f64f32_WIDEN(f64f32_READ(p))

#define f64_ACC f64
#define f64_KR 1
#define f64_DOT(a, b, c) f64_FMA(a, b, c)
#define f64_BITS(v) ((i32_VEC)(v))
#define f64_FLIP 0
#define f64_AS_f64(p) f64_LOAD(p)
#define i64f64_AS_f64(p) i64f64_WIDEN(i64f64_READ(p))
#define f32f64_AS_f64(p) f32f64_WIDEN(f32f64_READ(p))

#define i32_ACC i32
#define i32_KR 1
#ifndef i32_DOT
#define i32_DOT(a, b, c) i32_FMA(a, b, c)
#endif
#define i32_BITS(v) (v)
#define i32_FLIP 0
#define i32_AS_i32(p) i32_LOAD(p)

#define i64_ACC i64
#define i64_KR 1
#ifndef i64_DOT
#define i64_DOT(a, b, c) i64_FMA(a, b, c)
#endif
#define i64_BITS(v) ((i32_VEC)(v))
#define i64_FLIP 0
#define i64_AS_i64(p) i64_LOAD(p)

/* Pairs of int16, modulo 2^32: no sum of two products is rounded or saturated. */
#define i16_ACC i32
#define i16_KR 2
#ifndef i16_DOT
#define i16_DOT(a, b, c)                                                                                               \
    ((c) + (i32_VEC)(((s32_VEC)((a) << 16) >> 16) * ((s32_VEC)((b) << 16) >> 16)) +                                    \
     (i32_VEC)(((s32_VEC)(a) >> 16) * ((s32_VEC)(b) >> 16)))
#endif
#define i16_BITS(v) ((v) & 0xffff)
#define i16_FLIP 0
#define i16_AS_i16(p) LANES_AT(p)
typedef VECTOR_OF(int8_t, 2 * i32_VLEN) i8_PAIRS;
typedef UNALIGNED(int8_t, 2 * i32_VLEN) i8_PAIRSU;
typedef VECTOR_OF(uint8_t, 2 * i32_VLEN) u8_PAIRS;
typedef UNALIGNED(uint8_t, 2 * i32_VLEN) u8_PAIRSU;
typedef VECTOR_OF(int16_t, 2 * i32_VLEN) i16_PAIRS;
#define i8_AS_i16(p) PAIRS_SIGNED_8((i8_PAIRS) * (const i8_PAIRSU *)(p))
#define u8_AS_i16(p) PAIRS_UNSIGNED_8((u8_PAIRS) * (const u8_PAIRSU *)(p))

/* Pairs of bfloat16: where an instruction set has a bf16_DOT or a bf16_BLOCK. */
#define bf16_ACC f32
#define bf16_KR 2
#define bf16_BITS(v) ((i32_VEC)(v) >> 16)
#define bf16_FLIP 0
#define bf16_AS_bf16(p) LANES_AT(p)
#ifndef bf16_PAIRS
/* The nearest of neighbours, as pairs: of the lanes of x, then of those of y. */
static inline i32_VEC bf16_pairs(f32_VEC x, f32_VEC y) {
    const i32_VEC first = bf16_rounded((i32_VEC)x) >> 16, second = bf16_rounded((i32_VEC)y) >> 16;
    i32_VEC pairs = {0};
    for (int l = 0; l < i32_VLEN / 2; l++) {
        pairs[l] = first[2 * l] | first[2 * l + 1] << 16;
        pairs[l + i32_VLEN / 2] = second[2 * l] | second[2 * l + 1] << 16;
    }
    return pairs;
}
#define bf16_PAIRS(x, y) bf16_pairs(x, y)
#endif
#define f32bf16_AS_bf16(p) bf16_PAIRS(f32_LOAD(p), f32_LOAD((p) + f32_VLEN))
#define f64bf16_AS_bf16(p) bf16_PAIRS(f64f32_WIDEN(f64f32_READ(p)), f64f32_WIDEN(f64f32_READ((p) + f32_VLEN)))

/* Four 8-bit elements, where an instruction set has an i8_DOT and a u8_DOT, or an i8_BLOCK and a u8_BLOCK.  x86's
 * instruction multiplies unsigned by signed elements, so there A's are stored with the highest bit flipped: the kernel
 * subtracts what that adds, 2^7 times (for u8 -2^7 times) the sum of B's column. */
#define i8_ACC i32
#define i8_KR 4
#define i8_BITS(v) ((v) & 0xff)
#ifndef i8_FLIP
#define i8_FLIP 0x80808080
#define u8_FLIP 0x80808080
#endif
#define i8_AS_i8(p) LANES_AT(p)

#define u8_ACC i32
#define u8_KR 4
#define u8_BITS(v) ((v) & 0xff)
#define u8_AS_u8(p) LANES_AT(p)

/* Unsigned elements of A by signed ones of B, and the reverse: kernels for two types, with
 * panels of fours where an instruction set has a u8i8_DOT and an i8u8_DOT.  x86's instruction multiplies them as they
 * are; NEON's take two operands of a kind, so there A's elements are shifted to the kind of B's. */
#define u8i8_ID FALCON_U8I8
#define u8i8_PAIR 1 /* elements of panels are u8 for the sums of schemes: modulo 2^8 the kind does not matter */
#define u8i8_LEFT u8
#define u8i8_RIGHT i8
#define u8i8_SWAPPED i8u8
#define u8i8_OF_B i8 /* panels of B are those of that type */
#define i8u8_ID FALCON_I8U8
#define i8u8_PAIR 1
#define i8u8_LEFT i8
#define i8u8_RIGHT u8
#define i8u8_SWAPPED u8i8
#define i8u8_OF_B u8
#define i16_OF_B i16
#ifndef u8i8_FLIP
#define u8i8_FLIP 0
#define i8u8_FLIP 0
#endif

#define u8i8_ACC i32
#define u8i8_KR 4
#define u8i8_BITS(v) ((v) & 0xff)
#define u8_AS_u8i8(p) LANES_AT(p)

#define i8u8_ACC i32
#define i8u8_KR 4
#define i8u8_BITS(v) ((v) & 0xff)
#define i8_AS_i8u8(p) LANES_AT(p)

#endif
