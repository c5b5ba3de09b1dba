/* parts_impl.h - template: complex numbers, two parts of type X each: strips are loaded as two real ones, and C is
 * written from two micro-tiles.  Strips and accumulators are of type T; C is added to in its own type. */

/* Whether a C of X has more bits than accumulators. */
#define FINER (sizeof(X_T) > sizeof(T))

/* Lanes 0, 2, ... of a and b, or with odd 1, 3, ... */
INLINE VEC X_NAME(every_other)(const int odd, VEC a, VEC b) {
    IVEC from;
#pragma GCC unroll 16
    for (int l = 0; l < VLEN; l++)
        from[l] = 2 * l + odd;
    return SHUFFLE(a, b, from);
}

/* The first halves of a and b, or with upper the second ones, lane by lane in turn. */
INLINE VEC X_NAME(in_turn)(const int upper, VEC a, VEC b) {
    IVEC from;
#pragma GCC unroll 16
    for (int l = 0; l < VLEN; l++)
        from[l] = upper * VLEN / 2 + l / 2 + l % 2 * VLEN;
    return SHUFFLE(a, b, from);
}

/* Lines contiguous along K, as pack_lines: a transposed block holds real and imaginary parts in turn. */
INLINE ptrdiff_t X_NAME(load_lines)(const int width, const X_T *src, ptrdiff_t is, ptrdiff_t vi, ptrdiff_t vp, T *re,
                                    T *im, ptrdiff_t len, T sign) {
    const int blocks = (width + VLEN - 1) / VLEN, steps = VLEN / 2, ragged = width % VLEN != 0;
    ptrdiff_t p = 0;
    for (; p + steps <= vp && (!ragged || p + steps < len); p += steps) {
        VEC x[blocks][VLEN];
#pragma GCC unroll 8
        for (int g = 0; g < blocks; g++) {
            const X_T *s = src + 2 * (g * VLEN * is + p);
            const int all = vi >= width;
#pragma GCC unroll 16
            for (int i = 0; i < VLEN; i++)
                if (g * VLEN + i < width && (all || g * VLEN + i < vi)) {
                    __builtin_prefetch(s + 2 * i * is + 10 * 64 / sizeof(X_T), 0, 2);
                    x[g][i] = X_READ(s + 2 * i * is);
                } else
                    x[g][i] = V_ZERO();
            X_NAME(transpose)(x[g]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < steps; i++)
#pragma GCC unroll 8
            for (int g = 0; g < blocks; g++) {
                V_STORE(re + (p + i) * width + g * VLEN, x[g][2 * i]);
                V_STORE(im + (p + i) * width + g * VLEN, V_SET1(sign) * x[g][2 * i + 1]);
            }
    }
    return p;
}

/* Lines that are neighbours in memory. */
INLINE ptrdiff_t X_NAME(load_steps)(const int width, const X_T *src, ptrdiff_t ps, ptrdiff_t vp, T *re, T *im, T sign) {
    for (ptrdiff_t p = 0; p < vp; p++, src += 2 * ps, re += width, im += width) {
        int i = 0;
#pragma GCC unroll 4
        for (; i + VLEN <= width; i += VLEN) {
            __builtin_prefetch(src + 2 * (width + i), 0, 2);
            __builtin_prefetch(src + 2 * (width + i) + VLEN, 0, 2);
            const VEC a = X_READ(src + 2 * i), b = X_READ(src + 2 * i + VLEN);
            V_STORE(re + i, X_NAME(every_other)(0, a, b));
            V_STORE(im + i, V_SET1(sign) * X_NAME(every_other)(1, a, b));
        }
#pragma GCC unroll 16
        for (; i < width; i++)
            re[i] = X_GET(src[2 * i]), im[i] = sign * X_GET(src[2 * i + 1]);
    }
    return vp;
}

/* See falcon_load_parts_fn. */
INLINE void X_NAME(load_parts)(const int width, const X_T *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp,
                               T *re, T *im, ptrdiff_t len, int conj) {
    const T sign = conj ? -1 : 1;
    ptrdiff_t p = 0;
    if (vi <= 0 || vp <= 0)
        vp = 0;
    else if (ps == 1)
        p = X_NAME(load_lines)(width, src, is, vi, vp, re, im, len, sign);
    else if (is == 1 && vi >= width)
        p = X_NAME(load_steps)(width, src, ps, vp, re, im, sign);
    for (; p < vp; p++)
        for (ptrdiff_t i = 0; i < width; i++) {
            const X_T *x = src + 2 * (i * is + p * ps);
            re[p * width + i] = i < vi ? X_GET(x[0]) : 0;
            im[p * width + i] = i < vi ? sign * X_GET(x[1]) : 0;
        }
    if (p < len) {
        memset(re + p * width, 0, sizeof(T) * (size_t)((len - p) * width));
        memset(im + p * width, 0, sizeof(T) * (size_t)((len - p) * width));
    }
}

static void X_NAME(load_parts_a)(const void *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp, void *re,
                                 void *im, ptrdiff_t len, int conj) {
    X_NAME(load_parts)(MR, src, is, ps, vi, vp, re, im, len, conj);
}

static void X_NAME(load_parts_b)(const void *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp, void *re,
                                 void *im, ptrdiff_t len, int conj) {
    X_NAME(load_parts)(NR, src, is, ps, vi, vp, re, im, len, conj);
}

/* x[0] + i x[1] times y[0] + i y[1]; a real y multiplies each part by itself, so that an infinite part leaves the other
 * one as it is. */
#define TIMES(x, y, is_real)                                                                                           \
    do {                                                                                                               \
        const __typeof__(x[0]) re_ = x[0], im_ = x[1];                                                                 \
        x[0] = (is_real) ? re_ * y[0] : re_ * y[0] - im_ * y[1];                                                       \
        x[1] = (is_real) ? im_ * y[0] : re_ * y[1] + im_ * y[0];                                                       \
    } while (0)

/* See falcon_write_parts_fn. */
static void X_NAME(write_parts)(const void *re_, const void *im_, falcon_scalar alpha_, falcon_scalar beta_, void *c_,
                                ptrdiff_t rs, ptrdiff_t cs, ptrdiff_t rows, ptrdiff_t cols, int stream, void *watch) {
    const T *re = re_, *im = im_;
    X_T *c = c_;
    const T alpha1[2] = {(T)alpha_.real, (T)alpha_.imag};
    const X_T beta1[2] = {(X_T)beta_.real, (X_T)beta_.imag};
    const VEC alpha[2] = {V_SET1(alpha1[0]), V_SET1(alpha1[1])};
    const VEC beta[2] = {V_SET1((T)beta1[0]), V_SET1((T)beta1[1])};
    const int real = alpha1[1] == 0, beta_real = beta1[1] == 0, zero = beta_real && beta1[0] == 0;
    const int nt = stream && zero && (uintptr_t)c % sizeof(VEC) == 0 && rs * 2 % VLEN == 0;
    const int one_by_one = FINER && !zero;
    VEC seen = V_LOAD((const T *)watch);
    T seen1 = 0;
    for (ptrdiff_t i = 0; i < rows; i++, re += NR, im += NR, c += 2 * rs) {
        ptrdiff_t j = 0;
        for (; cs == 1 && !one_by_one && j + VLEN <= cols; j += VLEN) {
            VEC x[2] = {V_LOAD(re + j), V_LOAD(im + j)};
            X_T *to = c + 2 * j;
            TIMES(x, alpha, real);
            seen = V_FMA(x[0], V_ZERO(), seen);
            seen = V_FMA(x[1], V_ZERO(), seen);
            if (!zero) {
                const VEC a = X_READ(to), b = X_READ(to + VLEN);
                VEC y[2] = {X_NAME(every_other)(0, a, b), X_NAME(every_other)(1, a, b)};
                TIMES(y, beta, beta_real);
                x[0] += y[0], x[1] += y[1];
            }
            const VEC first = X_NAME(in_turn)(0, x[0], x[1]), second = X_NAME(in_turn)(1, x[0], x[1]);
            const CAT(X, _RAW) y0 = CAT(X, _NARROW)(first), y1 = CAT(X, _NARROW)(second);
            if (nt) {
                CAT(X, _STREAMED)(to, y0);
                CAT(X, _STREAMED)(to + VLEN, y1);
            } else {
                CAT(X, _WRITE)(to, y0);
                CAT(X, _WRITE)(to + VLEN, y1);
            }
        }
        for (; j < cols; j++) {
            T x[2] = {re[j], im[j]};
            X_T *to = c + 2 * j * cs;
            TIMES(x, alpha1, real);
            seen1 += x[0] * 0 + x[1] * 0;
            X_T y[2] = {zero ? 0 : to[0], zero ? 0 : to[1]};
            TIMES(y, beta1, beta_real);
            to[0] = zero ? x[0] : x[0] + y[0], to[1] = zero ? x[1] : x[1] + y[1];
        }
    }
    V_STORE((T *)watch, seen);
    *(T *)watch += seen1;
}
#undef TIMES
#undef FINER
