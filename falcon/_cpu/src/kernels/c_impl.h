/* c_impl.h - template: writes accumulators to a C of type C (of vec_types.h), for one type of panel.  C_NAME names the
 * functions. */
#define C_T CAT(C, _T)
#define C_READ(p) CAT(C, _WIDEN)(CAT(C, _READ)(p))
#define C_GET CAT(C, _GET)
#define C_PUT CAT(C, _PUT)
#define C_LINE ((ptrdiff_t)(64 / sizeof(C_T)))
/* beta * c + x, a vector as stored: in C's own type where that has more bits than accumulators. */
#if CAT(C, _FINER)
#define C_SUM_T C_T
#define C_BETA(s) ((s).real)
#define C_ADDED(c, beta1, x) CAT(C, _ADDED)(CAT(C, _READ)(c), beta1, CAT(C, _NARROW)(x))
#define C_TIMES(c, beta1) ((beta1) * (c))
#define C_STORED(x) (x)
#else
#define C_SUM_T T
#define C_BETA(s) SCALAR(s)
#define C_ADDED(c, beta1, x) CAT(C, _NARROW)(V_FMA(V_SET1(beta1), C_READ(c), x))
#define C_TIMES(c, beta1) ((beta1) * C_GET(c))
#define C_STORED(x) C_PUT(x)
#endif

/* One vector of alpha * (ct + w*h); ct may be NULL (zero). */
INLINE VEC C_NAME(value)(const T *ct, const T *h, VEC w, VEC alpha) {
    const VEC x = ct ? V_FMA(w, V_LOAD(h), V_LOAD(ct)) : (VEC)(w * V_LOAD(h));
    return alpha * x;
}

/* See falcon_write_fn.  WATCH: x * 0 is NaN exactly where x is not finite, and NaN stays in the sum. */
#define WATCH(x) (seen = V_FMA(x, V_ZERO(), seen))
static void C_NAME(write)(const void *ct_, const void *h_, double coef, falcon_scalar alpha_, falcon_scalar beta_,
                          void *c_, ptrdiff_t rs, ptrdiff_t cs, ptrdiff_t rows, ptrdiff_t cols, int stream,
                          void *watch) {
    const T *ct = ct_, *h = h_;
    C_T *c = c_;
    const C_SUM_T beta1 = C_BETA(beta_);
    const VEC w = V_SET1(COEF(coef)), alpha = V_SET1(SCALAR(alpha_));
    const int unit = cs == 1;
    const int nt =
        unit && stream && beta1 == 0 && NR % C_LINE == 0 && cols == NR && (uintptr_t)c % 64 == 0 && rs % C_LINE == 0;
    VEC seen = V_LOAD((const T *)watch);
    T seen1 = 0;
    for (ptrdiff_t i = 0; i < rows; i++, h += NR, ct = ct ? ct + NR : ct, c += rs) {
        ptrdiff_t j = 0;
        if (nt) {
#pragma GCC unroll 4
            for (int v = 0; v < NR; v += VLEN) {
                const CAT(C, _RAW) x = CAT(C, _NARROW)(C_NAME(value)(ct ? ct + v : 0, h + v, w, alpha));
                WATCH(CAT(C, _WIDEN)(x));
                CAT(C, _STREAMED)(c + v, x);
            }
            continue;
        }
        if (unit) {
            for (; j + VLEN <= cols; j += VLEN) {
                const VEC x = C_NAME(value)(ct ? ct + j : 0, h + j, w, alpha);
                const CAT(C, _RAW) all = CAT(C, _NARROW)(x);
                WATCH(CAT(C, _WIDEN)(all));
                CAT(C, _WRITE)(c + j, beta1 == 0 ? all : C_ADDED(c + j, beta1, x));
            }
        }
        if (j < cols) { /* the rest of a row, or a strided row; lanes past cols are undefined */
            T row[NR] __attribute__((aligned(64)));
            for (ptrdiff_t v = j / VLEN * VLEN; v < cols; v += VLEN)
                V_STORE(row + v, C_NAME(value)(ct ? ct + v : 0, h + v, w, alpha));
            for (; j < cols; j++) {
                const C_T x = C_PUT(row[j]);
                seen1 += C_GET(x) * 0;
                c[j * cs] = beta1 == 0 ? x : C_STORED(row[j] + C_TIMES(c[j * cs], beta1));
            }
        }
    }
    V_STORE((T *)watch, seen);
    *(T *)watch += seen1;
}

static void C_NAME(scale)(void *c_, ptrdiff_t s, ptrdiff_t n, falcon_scalar beta) {
    C_T *c = c_;
    const C_SUM_T beta1 = C_BETA(beta);
    for (ptrdiff_t i = 0; i < n; i++)
        c[i * s] = beta1 == 0 ? 0 : C_STORED(C_TIMES(c[i * s], beta1));
}
#undef C
#undef C_NAME
#undef C_T
#undef C_READ
#undef C_GET
#undef C_PUT
#undef C_LINE
#undef C_SUM_T
#undef C_BETA
#undef C_ADDED
#undef C_TIMES
#undef C_STORED
#undef WATCH
