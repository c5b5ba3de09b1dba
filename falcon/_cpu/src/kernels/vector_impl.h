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
        if (A_AHEAD)
            __builtin_prefetch((const char *)a + A_AHEAD, 0, 3);
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
