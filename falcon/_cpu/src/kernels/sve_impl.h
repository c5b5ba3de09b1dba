/* sve_impl.h - template: the micro-kernel for scalable vectors (SVE), in place of vector_impl.h; included by
 * kernel_impl.h, whose macros it uses.
 *
 * One kernel for every width.  A micro-panel of B has NR columns, 128 bytes of accumulators, whatever the width; the
 * micro-kernel computes two vectors of them at a time, over all of K: once at 512 bits, four times at 128, with A's
 * panel in L1.  So panels, and the order in which a sum is formed, do not depend on the width.  All that is not the
 * micro-kernel is done in NEON's vectors.
 */
#ifndef FALCON_SVE_IMPL_H
#define FALCON_SVE_IMPL_H
#include <arm_sve.h>
#define f32_SV svfloat32_t
#define f64_SV svfloat64_t
#define f32_SV_LEN svcntw()
#define f64_SV_LEN svcntd()
#define f32_SV_BELOW(i, end) svwhilelt_b32((int64_t)(i), (int64_t)(end))
#define f64_SV_BELOW(i, end) svwhilelt_b64((int64_t)(i), (int64_t)(end))
#define f32_SV_SET1(x) svdup_f32(x)
#define f64_SV_SET1(x) svdup_f64(x)
#define EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define ACCUMULATORS(i) SV x##i = CAT(D, _SV_SET1)(0), y##i = CAT(D, _SV_SET1)(0);
#define ADD_PRODUCTS(i)                                                                                                \
    if (i < mr) {                                                                                                      \
        x##i = svmla_x(all, x##i, b0, a[i]);                                                                           \
        y##i = svmla_x(all, y##i, b1, a[i]);                                                                           \
    }
#define STORE_ROW(i)                                                                                                   \
    if (i < mr) {                                                                                                      \
        T *to = h + i * NR + j;                                                                                        \
        if (how & FALCON_ADD) {                                                                                        \
            x##i = svadd_x(in0, x##i, svld1(in0, to));                                                                 \
            y##i = svadd_x(in1, y##i, svld1(in1, to + vl));                                                            \
        }                                                                                                              \
        svst1(in0, to, x##i);                                                                                          \
        svst1(in1, to + vl, y##i);                                                                                     \
    }
#endif
#define SV CAT(D, _SV)
_Static_assert(MR == 12 && NR * sizeof(T) == 128 && KR == 1, "rows of EACH_ROW; halves of a row of 64 bytes");

/* See falcon_ukr_fn.  A "vector" of its variants is a half of NR, 64 bytes: mr and halves are constants. */
INLINE void NAME(ukr_body)(const int mr, const int halves, ptrdiff_t kc, const T *a0, const T *b, ptrdiff_t ldb, T *h,
                           int how, const char *pf, ptrdiff_t pf_step) {
    const ptrdiff_t vl = (ptrdiff_t)CAT(D, _SV_LEN), columns = halves * NR / 2;
    const svbool_t all = svptrue_b8();
    for (ptrdiff_t j = 0; j < columns; j += 2 * vl, pf_step = 0) { /* later turns prefetch one line again */
        const svbool_t in0 = CAT(D, _SV_BELOW)(j, columns), in1 = CAT(D, _SV_BELOW)(j + vl, columns);
        const T *a = a0, *row = b + j;
        EACH_ROW(ACCUMULATORS)
        for (ptrdiff_t p = 0; p < kc; p++, a += MR, row += ldb) {
            const SV b0 = svld1(in0, row), b1 = svld1(in1, row + vl);
            if (p % FALCON_PF_EVERY == 0) {
                __builtin_prefetch(pf, 0, 2);
                pf += pf_step;
            }
            EACH_ROW(ADD_PRODUCTS)
        }
        EACH_ROW(STORE_ROW)
    }
}
#undef SV

/* Any number of rows up to MR, one half or both. */
#undef UKR
#define UKR(r, halves)                                                                                                 \
    static void NAME(ukr_##r##_##halves)(ptrdiff_t kc, const void *a, const void *b, ptrdiff_t ldb, void *h, int how,  \
                                         const char *pf, ptrdiff_t pf_step) {                                          \
        NAME(ukr_body)(r, halves, kc, a, b, ldb, h, how, pf, pf_step);                                                 \
    }
#undef UKRS
#define UKRS(r) UKR(r, 1) UKR(r, 2)
// clang-format off
UKRS(1) UKRS(2) UKRS(3) UKRS(4) UKRS(5) UKRS(6) UKRS(7) UKRS(8) UKRS(9) UKRS(10) UKRS(11) UKRS(12)
// clang-format on
#undef UKR_NAMES
#define UKR_NAMES(r) NAME(ukr_##r##_1), NAME(ukr_##r##_2)
    static const falcon_ukr_fn NAME(ukr_table)[2 * MR] = {
        UKR_NAMES(1), UKR_NAMES(2), UKR_NAMES(3), UKR_NAMES(4),  UKR_NAMES(5),  UKR_NAMES(6),
        UKR_NAMES(7), UKR_NAMES(8), UKR_NAMES(9), UKR_NAMES(10), UKR_NAMES(11), UKR_NAMES(12),
};
