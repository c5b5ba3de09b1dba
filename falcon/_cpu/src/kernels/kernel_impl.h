/* kernel_impl.h - template: micro-kernels and C update for one (ISA, dtype).
 *
 * The including file defines D (f32 or f64: prefix of the vector vocabulary),
 * T (element type), MR, NR, KC, ISA_ID, DTYPE_ID and ISA (name), and gets a
 * `falcon_kernel` filled in at the bottom of combine_impl.h, which this file
 * includes last, after pack_impl.h.  All functions are static.
 *
 * For types whose elements are their own sums, panels and accumulators, one step of K at a time (float32, float64), and
 * for vectors of any width that the compiler knows: 64 bytes and more, fixed-width builds of SVE among them.
 */
/* Bytes ahead in A to prefetch into L1 at every second step, 0: none. */
#ifndef A_AHEAD
#define A_AHEAD 0
#endif
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
#define NAME(x) CAT3(ISA, D, x)
#define VEC CAT(D, _VEC)
#define IVEC CAT(D, _IVEC)
#define VLEN CAT(D, _VLEN)
#define V_ZERO CAT(D, _ZERO)
#define V_LOAD CAT(D, _LOAD)
#define V_STORE CAT(D, _STORE)
#define V_STREAM CAT(D, _STREAM)
#define V_SET1 CAT(D, _SET1)
#define V_FMA CAT(D, _FMA)
#define NV (NR / VLEN)
#define INLINE static inline __attribute__((always_inline))
#define LINE ((ptrdiff_t)(64 / sizeof(T)))

_Static_assert(NR % VLEN == 0 && NV <= 4 && MR <= 16, "the variant table below has 16 x 4 entries");

/* One step of the product: load a row of B, broadcast each element of A. */
INLINE void NAME(step)(const int mr, const int nv, VEC c[MR][NV], const T *a, const T *b) {
    VEC bv[NV];
#pragma GCC unroll 4
    for (int j = 0; j < nv; j++)
        bv[j] = V_LOAD(b + j * VLEN);
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++) {
        const VEC av = V_SET1(a[i]);
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            c[i][j] = V_FMA(av, bv[j], c[i][j]);
    }
}

/* See falcon_ukr_fn.  mr and nv are constants in every instance; the
 * accumulators live in registers, H is touched only at the end. */
INLINE void NAME(ukr_body)(const int mr, const int nv, ptrdiff_t kc, const T *a, const T *b, ptrdiff_t ldb, T *h,
                           int accumulate, const char *pf, ptrdiff_t pf_step) {
    VEC c[MR][NV];
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            c[i][j] = V_ZERO();
    if (accumulate)
        for (int i = 0; i < mr * NR; i += (int)LINE)
            __builtin_prefetch(h + i, 1, 3);
    ptrdiff_t p = kc;
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
    const VEC w = V_SET1((T)coef);
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

/* alpha * (ct + coef*h) into out[MR*NR], or straight into C's rows. */
INLINE VEC NAME(value)(const T *ct, const T *h, VEC w, VEC alpha) {
    const VEC x = ct ? V_FMA(w, V_LOAD(h), V_LOAD(ct)) : (VEC)(w * V_LOAD(h));
    return alpha * x;
}

/* See falcon_write_fn.  WATCH: x * 0 is NaN exactly where x is not finite, and NaN stays in the sum. */
#define WATCH(x) (seen = V_FMA(x, V_ZERO(), seen))
static void NAME(write)(const void *ct_, const void *h_, double coef, double alpha_, double beta_, void *c_,
                        ptrdiff_t rs, ptrdiff_t cs, ptrdiff_t rows, ptrdiff_t cols, int stream, void *watch) {
    const T *ct = ct_, *h = h_;
    T *c = c_;
    const VEC w = V_SET1((T)coef), alpha = V_SET1((T)alpha_), beta = V_SET1((T)beta_);
    const T beta1 = (T)beta_;
    const int unit = cs == 1;
    const int nt = unit && stream && beta1 == 0 && cols == NR && (uintptr_t)c % 64 == 0 && rs % LINE == 0;
    VEC seen = V_LOAD((const T *)watch);
    T seen1 = 0;
    for (ptrdiff_t i = 0; i < rows; i++, h += NR, ct = ct ? ct + NR : ct, c += rs) {
        ptrdiff_t j = 0;
        if (nt) {
#pragma GCC unroll 4
            for (int v = 0; v < NR; v += VLEN) {
                const VEC x = NAME(value)(ct ? ct + v : 0, h + v, w, alpha);
                WATCH(x);
                V_STREAM(c + v, x);
            }
            continue;
        }
        if (unit) {
            for (; j + VLEN <= cols; j += VLEN) {
                const VEC x = NAME(value)(ct ? ct + j : 0, h + j, w, alpha);
                WATCH(x);
                V_STORE(c + j, beta1 == 0 ? x : V_FMA(beta, V_LOAD(c + j), x));
            }
        }
        if (j < cols) { /* what is left of a row, or a strided row; lanes past cols hold anything */
            T row[NR] __attribute__((aligned(64)));
            for (ptrdiff_t v = j / VLEN * VLEN; v < cols; v += VLEN)
                V_STORE(row + v, NAME(value)(ct ? ct + v : 0, h + v, w, alpha));
            for (; j < cols; j++) {
                seen1 += row[j] * 0;
                c[j * cs] = beta1 == 0 ? row[j] : row[j] + beta1 * c[j * cs];
            }
        }
    }
    V_STORE((T *)watch, seen);
    *(T *)watch += seen1;
}

INLINE void NAME(scale_lines)(const int width, T *x, ptrdiff_t steps, const T *scale) {
    for (ptrdiff_t p = 0; p < steps; p++, x += width)
#pragma GCC unroll 32
        for (int i = 0; i < width; i++)
            x[i] *= scale[i];
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

static int NAME(tripped)(const void *watch) {
    for (int i = 0; i < VLEN; i++)
        if (((const T *)watch)[i] != 0)
            return 1;
    return 0;
}

static void NAME(scale)(void *c_, ptrdiff_t s, ptrdiff_t n, double beta) {
    T *c = c_;
    for (ptrdiff_t i = 0; i < n; i++)
        c[i * s] = beta == 0 ? 0 : c[i * s] * (T)beta;
}

/* Matrix times vector, see falcon_gemv_fn: sums of each line along K, `lines` a constant. */
INLINE void NAME(dot_lines)(const int lines, ptrdiff_t len, const T *mat, ptrdiff_t is, const T *x, T *y) {
    VEC s[4][2];
#pragma GCC unroll 4
    for (int i = 0; i < lines; i++)
        s[i][0] = s[i][1] = V_ZERO();
    ptrdiff_t k = 0;
    for (; k + 2 * VLEN <= len; k += 2 * VLEN) {
        const VEC x0 = V_LOAD(x + k), x1 = V_LOAD(x + k + VLEN);
#pragma GCC unroll 4
        for (int i = 0; i < lines; i++) {
            s[i][0] = V_FMA(V_LOAD(mat + i * is + k), x0, s[i][0]);
            s[i][1] = V_FMA(V_LOAD(mat + i * is + k + VLEN), x1, s[i][1]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < lines; i++) {
        VEC v = s[i][0] + s[i][1];
#pragma GCC unroll 4
        for (int step = 1; step < VLEN; step *= 2) { /* scalar additions would outweigh a short line */
            IVEC other;
#pragma GCC unroll 16
            for (int l = 0; l < VLEN; l++)
                other[l] = l ^ step;
            v += __builtin_shuffle(v, other);
        }
        T sum = v[0];
        for (ptrdiff_t q = k; q < len; q++)
            sum += mat[i * is + q] * x[q];
        y[i] += sum;
    }
}

static void NAME(dot)(ptrdiff_t lines, ptrdiff_t len, const void *mat_, ptrdiff_t is, const void *x, void *y_) {
    const T *mat = mat_;
    T *y = y_;
    ptrdiff_t i = 0;
    for (; i + 4 <= lines; i += 4)
        NAME(dot_lines)(4, len, mat + i * is, is, x, y + i);
    for (; i < lines; i++)
        NAME(dot_lines)(1, len, mat + i * is, is, x, y + i);
}

/* One vector of y at a time gathers `steps` rows; steps is a constant. */
INLINE void NAME(axpy_steps)(const int steps, ptrdiff_t lines, const T *mat, ptrdiff_t ks, const T *x, T *y) {
    VEC w[8];
#pragma GCC unroll 8
    for (int q = 0; q < steps; q++)
        w[q] = V_SET1(x[q]);
    ptrdiff_t i = 0;
    for (; i + VLEN <= lines; i += VLEN) {
        VEC s = V_LOAD(y + i);
#pragma GCC unroll 8
        for (int q = 0; q < steps; q++)
            s = V_FMA(w[q], V_LOAD(mat + q * ks + i), s);
        V_STORE(y + i, s);
    }
    for (; i < lines; i++)
        for (int q = 0; q < steps; q++)
            y[i] += x[q] * mat[q * ks + i];
}

static void NAME(axpy)(ptrdiff_t lines, ptrdiff_t len, const void *mat_, ptrdiff_t ks, const void *x_, void *y) {
    const T *mat = mat_, *x = x_;
    ptrdiff_t k = 0;
    for (; k + 8 <= len; k += 8)
        NAME(axpy_steps)(8, lines, mat + k * ks, ks, x + k, y);
    for (; k < len; k++)
        NAME(axpy_steps)(1, lines, mat + k * ks, ks, x + k, y);
}

#include "norm_impl.h"

/* Those two in this order: the last one fills in the kernel and clears the macros. */
#include "pack_impl.h"

#include "combine_impl.h"
