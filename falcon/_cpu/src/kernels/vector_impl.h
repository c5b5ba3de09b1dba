/* vector_impl.h - template: the micro-kernel for vector registers, MR rows of NV accumulators (with BLOCKS, as many
 * vectors of blocks: block_impl.h); included by kernel_impl.h, whose macros it uses. */
_Static_assert(NR % VLEN == 0 && NV <= 4 && MR <= 16, "the variant table below has 16 x 4 entries");

/* c += a b.  On a copy of *c: GCC 12 keeps an array in memory if its elements are cast to another vector type. */
INLINE void NAME(add)(VEC *c, LANE_VEC a, LANE_VEC b) {
    const VEC before = *c;
#if BLOCKS
    *c = CAT(P, _BLOCK)(a, b, before);
#else
    *c = CAT(P, _DOT)(a, b, before);
#endif
}

INLINE void NAME(start)(const int nv, VEC c[MR + 1][NV]) {
#pragma GCC unroll 17
    for (int i = 0; i <= MR; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            c[i][j] = V_ZERO();
}

#if BLOCKS
#include "block_impl.h"
#else
/* KR steps of the product: load a row of B's lanes, broadcast each lane of A. */
INLINE void NAME(step)(const int mr, const int nv, VEC c[MR + 1][NV], const LANE *a, const LANE *b) {
    LANE_VEC bv[NV];
#pragma GCC unroll 4
    for (int j = 0; j < nv; j++)
        bv[j] = LANE_LOAD(b + j * VLEN);
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++) {
        const LANE_VEC av = LANE_SPREAD(a + i);
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            NAME(add)(c[i] + j, av, bv[j]);
    }
#if FLIP
#pragma GCC unroll 4
    for (int j = 0; j < nv; j++) /* what flipping A adds; finish() subtracts it */
        NAME(add)(c[MR] + j, (LANE_VEC)i32_SET1(FLIP), bv[j]);
#endif
}
#endif

/* Store the accumulators: H is touched only here. */
INLINE void NAME(finish)(const int mr, const int nv, VEC c[MR + 1][NV], T *h, int how) {
#if FLIP
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            c[i][j] -= c[MR][j];
#endif
#if BLOCKS
    NAME(rows_of_blocks)(mr, nv, c);
#endif
    if (how & FALCON_ADD) {
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

/* See falcon_ukr_fn.  mr and nv are constants in every instance; the
 * accumulators live in registers, H is touched only at the end. */
INLINE void NAME(ukr_body)(const int mr, const int nv, ptrdiff_t kc, const LANE *a, const LANE *b, ptrdiff_t ldb, T *h,
                           int how, const char *pf, ptrdiff_t pf_step) {
    VEC c[MR + 1][NV];
    NAME(start)(nv, c);
    if (how & FALCON_ADD)
        for (int i = 0; i < mr * NR; i += 64 / (int)sizeof(T))
            __builtin_prefetch(h + i, 1, 3);
    ptrdiff_t p = kc / KR;
    ldb /= KR;
    for (; p >= 2; p -= 2) {
        __builtin_prefetch(pf, 0, 2);
        pf += pf_step;
#if CAT(P, _AHEAD)
        __builtin_prefetch((const char *)a + CAT(P, _AHEAD), 0, 3);
#endif
        NAME(step)(mr, nv, c, a, b);
        NAME(step)(mr, nv, c, a + MR, b + ldb);
        a += 2 * MR;
        b += 2 * ldb;
    }
    if (p)
        NAME(step)(mr, nv, c, a, b);
    NAME(finish)(mr, nv, c, h, how);
}

/* The variants: any number of rows up to MR, any number of vectors up to NV,
 * so that edge tiles and thin matrices do no work on padding. */
#undef UKR
#define UKR(r, v)                                                                                                      \
    static void NAME(ukr_##r##_##v)(ptrdiff_t kc, const void *a, const void *b, ptrdiff_t ldb, void *h, int how,       \
                                    const char *pf, ptrdiff_t pf_step) {                                               \
        NAME(ukr_body)(r <= MR ? r : MR, v <= NV ? v : NV, kc, a, b, ldb, h, how, pf, pf_step);                        \
    }
#define UKR_NAME(r, v) NAME(ukr_##r##_##v),
#define EACH_VARIANT(X) CAT(ROWS_, MR)(CAT(VECS_, NR_VECS), X)
#define VECS_2(r, X) X(r, 1) X(r, 2)
#define VECS_3(r, X) VECS_2(r, X) X(r, 3)
#define VECS_4(r, X) VECS_3(r, X) X(r, 4)
#define ROWS_4(V, X) V(1, X) V(2, X) V(3, X) V(4, X)
#define ROWS_6(V, X) ROWS_4(V, X) V(5, X) V(6, X)
#define ROWS_8(V, X) ROWS_6(V, X) V(7, X) V(8, X)
#define ROWS_12(V, X) ROWS_8(V, X) V(9, X) V(10, X) V(11, X) V(12, X)
#define ROWS_14(V, X) ROWS_12(V, X) V(13, X) V(14, X)
// clang-format off
EACH_VARIANT(UKR)
static const falcon_ukr_fn NAME(ukr_table)[MR * NV] = {EACH_VARIANT(UKR_NAME)};
// clang-format on
_Static_assert(NR_VECS == NV, "NR_VECS is NR in vectors, spelled for the preprocessor");
