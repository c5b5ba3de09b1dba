/* vector_impl.h - template: the micro-kernel for vector registers, MR rows of NV accumulators (with BLOCKS, as many
 * vectors of blocks: block_impl.h); included by kernel_impl.h, whose macros it uses. */
_Static_assert(NR % VLEN == 0 && NV <= 4 && MR <= 16, "the variant table below has 16 x 4 entries");

/* See falcon_ukr_fn.  mr and nv are constants in every instance; the
 * accumulators live in registers, H is touched only at the end. */
INLINE void NAME(ukr_body)(const int mr, const int nv, ptrdiff_t kc, const LANE *a, const LANE *b, ptrdiff_t ldb, T *h,
                           int how, const char *pf, ptrdiff_t pf_step) {
    VEC c[V_ROWS + 1][NV];
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
        NAME(step)(mr, nv, 1, c, a, b);
        NAME(step)(mr, nv, 1, c, a + MR, b + ldb);
        a += 2 * MR;
        b += 2 * ldb;
    }
    if (p)
        NAME(step)(mr, nv, 1, c, a, b);
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
