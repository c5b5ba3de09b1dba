/* direct_impl.h - template: products of operands that fit into the caches, without packing, for panels that hold
 * elements as they are: A is read by any strides, B by rows, and C is written from the registers; included by
 * kernel_impl.h.
 *
 * Three pointers and two strides reach 12 rows of A: as many pointers as rows would be too many for the registers. */
INLINE const LANE *NAME(row)(const int i, const char *const a[MR / 3 + 1], ptrdiff_t rs) {
    return (const LANE *)(a[i / 3] + i % 3 * rs);
}

/* See falcon_direct_fn.  mr, nv and whole (whether the last vector is) are constants in every instance. */
INLINE void NAME(direct_body)(const int mr, const int nv, const int whole, const falcon_direct *how, const char *a,
                              const char *b, char *c, ptrdiff_t cols, const char *pf, ptrdiff_t pf_step) {
    VEC s[MR + 1][NV];
    const CAT(D, _MASK) some = CAT(D, _FIRST)(cols - (nv - 1) * VLEN);
    const ptrdiff_t rs = how->a_rs, cs = how->a_cs, ldb = how->b_rs, ldc = how->c_rs;
    const char *at[MR / 3 + 1];
    NAME(start)(nv, s);
#pragma GCC unroll 6
    for (int i = 0; i < mr; i += 3)
        at[i / 3] = a + i * rs;
    for (ptrdiff_t k = how->K; k > 0; k--, b += ldb, pf += pf_step) {
        __builtin_prefetch(pf, 0, 2);
        VEC bv[NV];
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            bv[j] = whole || j < nv - 1 ? V_LOAD((const T *)b + j * VLEN)
                                        : CAT(D, _LOAD_SOME)((const T *)b + j * VLEN, some);
#pragma GCC unroll 16
        for (int i = 0; i < mr; i++) {
            const VEC av = LANE_SPREAD(NAME(row)(i, at, rs));
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                NAME(add)(s[i] + j, av, bv[j]);
        }
#pragma GCC unroll 6
        for (int i = 0; i < mr; i += 3)
            at[i / 3] += cs;
    }
    if (how->alpha.real != 1) {
        const VEC alpha = V_SET1(SCALAR(how->alpha));
#pragma GCC unroll 16
        for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                s[i][j] = alpha * s[i][j];
    }
#if !CAT(D, _EXACT)
    if (how->watch) {
        VEC seen = V_LOAD((const T *)how->watch);
#pragma GCC unroll 16
        for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                seen = V_FMA(s[i][j], V_ZERO(), seen);
        V_STORE((T *)how->watch, seen);
    }
#endif
    if (SCALAR(how->beta) != 0) {
        const VEC beta = V_SET1(SCALAR(how->beta));
#pragma GCC unroll 16
        for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++) {
                const T *from = (const T *)(c + i * ldc) + j * VLEN;
                const VEC old = whole || j < nv - 1 ? V_LOAD(from) : CAT(D, _LOAD_SOME)(from, some);
                s[i][j] = V_FMA(beta, old, s[i][j]);
            }
    }
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) {
            T *to = (T *)(c + i * ldc) + j * VLEN;
            if (whole || j < nv - 1)
                V_STORE(to, s[i][j]);
            else
                CAT(D, _STORE_SOME)(to, some, s[i][j]);
        }
}

#define DIRECT(r, v)                                                                                                   \
    static void NAME(direct_##r##_##v)(const falcon_direct *how, const void *a, const void *b, void *c,                \
                                       ptrdiff_t cols, const char *pf, ptrdiff_t pf_step) {                            \
        if (cols == v * VLEN)                                                                                          \
            NAME(direct_body)(r <= MR ? r : MR, v <= NV ? v : NV, 1, how, a, b, c, cols, pf, pf_step);                 \
        else                                                                                                           \
            NAME(direct_body)(r <= MR ? r : MR, v <= NV ? v : NV, 0, how, a, b, c, cols, pf, pf_step);                 \
    }
#define DIRECT_NAME(r, v) NAME(direct_##r##_##v),
// clang-format off
EACH_VARIANT(DIRECT)
static const falcon_direct_fn NAME(direct_table)[MR * NV] = {EACH_VARIANT(DIRECT_NAME)};
// clang-format on
