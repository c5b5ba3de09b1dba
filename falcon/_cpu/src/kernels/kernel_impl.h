/* kernel_impl.h - template: all that one instruction set has for one type of panel, and the types that use it.
 *
 * The including file defines ISA (name) and ISA_ID; P (a panel of vec_types.h), MR, NR, NR_VECS, KC; and X_1, maybe X_2
 * and X_3: the types of operands that are packed into such panels.  It gets a `falcon_kernel` for each of them, filled
 * in at the bottom of operand_impl.h.  All functions are static.
 *
 * What depends on panels and accumulators stands in here, in combine_impl.h and (for a C of accumulators) c_impl.h:
 * operands of several types share it.  For vectors of any width that the compiler knows: 64 bytes and more,
 * fixed-width builds of SVE among them.
 */
/* Bytes ahead in A to prefetch into L1 at every second step, 0: none. */
#ifndef A_AHEAD
#define A_AHEAD 0
#endif
#ifndef FALCON_KERNEL_IMPL_H
#define FALCON_KERNEL_IMPL_H
/* The C tile, see falcon_kernel; an instruction set may define its own. */
#ifndef B_KEPT
#define B_KEPT 0
#define A_KEPT_TILE {32, 16, 20, 25}
#define B_KEPT_TILE {0}
#endif
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define CAT3_(a, b, c) a##_##b##_##c
#define CAT3(a, b, c) CAT3_(a, b, c)
#define CAT4_(a, b, c, d) a##_##b##_##c##_##d
#define CAT4(a, b, c, d) CAT4_(a, b, c, d)
#define NAME(x) CAT3(ISA, P, x)
#define D CAT(P, _ACC) /* the type of accumulators */
#define T CAT(D, _T)
#define VEC CAT(D, _VEC)
#define IVEC CAT(D, _IVEC)
#define VLEN CAT(D, _VLEN)
#define V_ZERO CAT(D, _ZERO)
#define V_LOAD CAT(D, _LOAD)
#define V_STORE CAT(D, _STORE)
#define V_STREAM CAT(D, _STREAM)
#define V_SET1 CAT(D, _SET1)
#define V_FMA CAT(D, _FMA)
#define COEF CAT(D, _COEF)
#define NV (NR / VLEN)
#define KR CAT(P, _KR)
#define LANE CAT(P, _LANE)
#define LANE_VEC __typeof__(CAT(P, _LANES)((const LANE *)0))
#define P_T CAT(P, _T)
#define FLIP CAT(P, _FLIP)
#define INLINE static inline __attribute__((always_inline))
#endif

_Static_assert(NR % VLEN == 0 && NV <= 4 && MR <= 16, "the variant table below has 16 x 4 entries");

/* c += a b.  By a copy: GCC 12 keeps arrays in memory whose elements are cast to another type of vectors. */
INLINE void NAME(add)(VEC *c, LANE_VEC a, LANE_VEC b) {
    const VEC before = *c;
    *c = CAT(P, _DOT)(a, b, before);
}

/* One group of KR steps of the product: load a row of B's lanes, broadcast each lane of A. */
INLINE void NAME(step)(const int mr, const int nv, VEC c[MR + 1][NV], const LANE *a, const LANE *b) {
    LANE_VEC bv[NV];
#pragma GCC unroll 4
    for (int j = 0; j < nv; j++)
        bv[j] = CAT(P, _LANES)(b + j * VLEN);
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++) {
        const LANE_VEC av = CAT(P, _SPREAD)(a + i);
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            NAME(add)(c[i] + j, av, bv[j]);
    }
#if FLIP
#pragma GCC unroll 4
    for (int j = 0; j < nv; j++) /* what flipping A adds */
        NAME(add)(c[MR] + j, (LANE_VEC)i32_SET1(FLIP), bv[j]);
#endif
}

/* See falcon_ukr_fn.  mr and nv are constants in every instance; the
 * accumulators live in registers, H is touched only at the end. */
INLINE void NAME(ukr_body)(const int mr, const int nv, ptrdiff_t kc, const LANE *a, const LANE *b, ptrdiff_t ldb, T *h,
                           int accumulate, const char *pf, ptrdiff_t pf_step) {
    VEC c[MR + 1][NV];
#pragma GCC unroll 17
    for (int i = 0; i <= MR; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            c[i][j] = V_ZERO();
    if (accumulate)
        for (int i = 0; i < mr * NR; i += 64 / (int)sizeof(T))
            __builtin_prefetch(h + i, 1, 3);
    ptrdiff_t p = kc / KR;
    ldb /= KR;
    for (; p >= 2; p -= 2) {
        __builtin_prefetch(pf, 0, 2);
        pf += pf_step;
        if (A_AHEAD)
            __builtin_prefetch((const char *)a + A_AHEAD, 0, 3);
        NAME(step)(mr, nv, c, a, b);
        NAME(step)(mr, nv, c, a + MR, b + ldb);
        a += 2 * MR;
        b += 2 * ldb;
    }
    if (p)
        NAME(step)(mr, nv, c, a, b);
#if FLIP
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            c[i][j] -= c[MR][j];
#endif
    if (accumulate) {
#pragma GCC unroll 16
        for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                c[i][j] += V_LOAD(h + i * NR + j * VLEN);
    }
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            V_STORE(h + i * NR + j * VLEN, c[i][j]);
}

/* The variants: any number of rows up to MR, any number of vectors up to NV,
 * so that edge tiles and thin matrices do no work on padding. */
#undef UKR
#define UKR(r, v)                                                                                                      \
    static void NAME(ukr_##r##_##v)(ptrdiff_t kc, const void *a, const void *b, ptrdiff_t ldb, void *h,                \
                                    int accumulate, const char *pf, ptrdiff_t pf_step) {                               \
        NAME(ukr_body)(r <= MR ? r : MR, v <= NV ? v : NV, kc, a, b, ldb, h, accumulate, pf, pf_step);                 \
    }
#if NR_VECS == 2
#define UKRS(r) UKR(r, 1) UKR(r, 2)
#define UKR_NAMES(r) NAME(ukr_##r##_1), NAME(ukr_##r##_2)
#elif NR_VECS == 3
#define UKRS(r) UKR(r, 1) UKR(r, 2) UKR(r, 3)
#define UKR_NAMES(r) NAME(ukr_##r##_1), NAME(ukr_##r##_2), NAME(ukr_##r##_3)
#elif NR_VECS == 4
#define UKRS(r) UKR(r, 1) UKR(r, 2) UKR(r, 3) UKR(r, 4)
#define UKR_NAMES(r) NAME(ukr_##r##_1), NAME(ukr_##r##_2), NAME(ukr_##r##_3), NAME(ukr_##r##_4)
#endif
// clang-format off
UKRS(1) UKRS(2) UKRS(3) UKRS(4)
#if MR > 4
UKRS(5) UKRS(6)
#endif
#if MR > 6
UKRS(7) UKRS(8)
#endif
#if MR > 8
UKRS(9) UKRS(10) UKRS(11) UKRS(12)
#endif
#if MR > 12
UKRS(13) UKRS(14)
#endif
    // clang-format on
    _Static_assert(MR == 4 || MR == 6 || MR == 8 || MR == 12 || MR == 14, "add the row variants of this MR");
_Static_assert(NR_VECS == NV, "NR_VECS is NR in vectors, spelled for the preprocessor");

static const falcon_ukr_fn NAME(ukr_table)[MR * NV] = {
    UKR_NAMES(1),  UKR_NAMES(2),  UKR_NAMES(3),  UKR_NAMES(4),
#if MR > 4
    UKR_NAMES(5),  UKR_NAMES(6),
#endif
#if MR > 6
    UKR_NAMES(7),  UKR_NAMES(8),
#endif
#if MR > 8
    UKR_NAMES(9),  UKR_NAMES(10), UKR_NAMES(11), UKR_NAMES(12),
#endif
#if MR > 12
    UKR_NAMES(13), UKR_NAMES(14),
#endif
};

static void NAME(scatter)(void *dst_, const void *ct_, const void *h_, double coef) {
    T *dst = dst_;
    const T *ct = ct_, *h = h_;
    const VEC w = V_SET1(COEF(coef));
    if (!ct) {
#pragma GCC unroll 4
        for (int i = 0; i < MR * NR; i += VLEN)
            V_STORE(dst + i, w * V_LOAD(h + i));
    } else {
#pragma GCC unroll 4
        for (int i = 0; i < MR * NR; i += VLEN)
            V_STORE(dst + i, V_FMA(w, V_LOAD(h + i), V_LOAD(ct + i)));
    }
}

#if !CAT(D, _EXACT)
INLINE void NAME(scale_lines)(const int width, P_T *x, ptrdiff_t steps, const T *scale) {
    for (ptrdiff_t p = 0; p < steps; p += KR, x += width * KR)
#pragma GCC unroll 32
        for (int i = 0; i < width * KR; i++)
            x[i] = CAT(P, _PUT)(CAT(P, _GET)(x[i]) * scale[i / KR]);
}

static void NAME(scale_strip)(void *strip, ptrdiff_t steps, ptrdiff_t width, const double *scale, ptrdiff_t lines) {
    T s[MR > NR ? MR : NR];
    for (ptrdiff_t i = 0; i < width; i++)
        s[i] = i < lines ? (T)scale[i] : 1;
    if (width == MR)
        NAME(scale_lines)(MR, strip, steps, s);
    else
        NAME(scale_lines)(NR, strip, steps, s);
}

/* 0 stands at lines of zeros, where C is to hold nothing of what rounding left of other lines. */
INLINE double NAME(inverse)(double scale) {
    return scale != 0 ? 1 / scale : 0;
}

static void NAME(unscale)(void *tile, ptrdiff_t n_rows, ptrdiff_t n_columns, const double *rows,
                          const double *columns) {
    T *x = tile;
    double of_column[NR];
    for (ptrdiff_t j = 0; j < NR; j++)
        of_column[j] = columns && j < n_columns ? NAME(inverse)(columns[j]) : 1;
    for (ptrdiff_t i = 0; i < n_rows; i++, x += NR) {
        const double of_row = rows ? NAME(inverse)(rows[i]) : 1;
        for (ptrdiff_t j = 0; j < NR; j++)
            x[j] = (T)((double)x[j] * of_row * of_column[j]);
    }
}
#endif

static int NAME(tripped)(const void *watch) {
    for (int i = 0; i < VLEN; i++)
        if (((const T *)watch)[i] != 0)
            return 1;
    return 0;
}

static void NAME(fence)(void) {
    V_FENCE();
}

#include "combine_impl.h"

#define C D
#define C_NAME(x) CAT4(ISA, P, acc, x)
#include "c_impl.h"

#define X X_1
#include "operand_impl.h"
#ifdef X_2
#define X X_2
#include "operand_impl.h"
#endif
#ifdef X_3
#define X X_3
#include "operand_impl.h"
#endif
#undef P
#undef MR
#undef NR
#undef NR_VECS
#undef KC
#undef A_AHEAD
#undef INTERPRET_A
#undef UKRS
#undef UKR_NAMES
#undef X_1
#undef X_2
#undef X_3
