/* pack_impl.h - template: packing a strip of a matrix into a micro-panel.
 *
 * A strip is `width` lines (rows of A, columns of B) by some steps along K; the
 * panel holds it step by step: dst[p*width + i].  Strides of any sign and size
 * meet here and nowhere else.  Three ways in: lines contiguous along K
 * (VLEN x VLEN transposes in registers), steps contiguous across lines
 * (straight copies), anything else (element by element).
 */

/* One round of the transposition of x[VLEN]: swap the off-diagonal s x s blocks of each 2s x 2s block.  s is a
 * constant: masks that the compiler does not know beforehand would be built, element by element, for every block. */
INLINE void NAME(swap_blocks)(const int s, VEC x[VLEN]) {
    IVEC lo, hi;
#pragma GCC unroll 16
    for (int l = 0; l < VLEN; l++) {
        lo[l] = l & s ? VLEN + l - s : l;
        hi[l] = l & s ? VLEN + l : l + s;
    }
#pragma GCC unroll 16
    for (int i = 0; i < VLEN; i++)
        if (!(i & s)) {
            const VEC a = x[i], b = x[i + s];
            x[i] = __builtin_shuffle(a, b, lo);
            x[i + s] = __builtin_shuffle(a, b, hi);
        }
}

INLINE void NAME(transpose)(VEC x[VLEN]) {
    NAME(swap_blocks)(1, x);
    if (VLEN > 2)
        NAME(swap_blocks)(2, x);
    if (VLEN > 4)
        NAME(swap_blocks)(4, x);
    if (VLEN > 8)
        NAME(swap_blocks)(8, x);
}

/* Elements ahead to prefetch in each line: so many streams at once are more
 * than the hardware follows.  Into L2: lines 4 KiB apart share an L1 set, and
 * MR of them are more than its ways. */
#define PACK_AHEAD (10 * LINE)

/* Lines contiguous along K, `width` a constant.  Groups of VLEN lines; a last
 * group that is narrower than VLEN stores past its step's end, which the next
 * step then overwrites: so steps are stored in order, and the very last step
 * of the strip element by element. */
INLINE ptrdiff_t NAME(pack_lines)(const int width, const T *src, ptrdiff_t is, ptrdiff_t vi, ptrdiff_t vp, T *dst,
                                  ptrdiff_t len) {
    const int groups = (width + VLEN - 1) / VLEN;
    const int ragged = width % VLEN != 0;
    ptrdiff_t p = 0;
    for (; p + VLEN <= vp && (!ragged || p + VLEN < len); p += VLEN) {
        VEC x[groups][VLEN];
#pragma GCC unroll 8
        for (int g = 0; g < groups; g++) {
            const T *s = src + g * VLEN * is + p;
            if (vi >= width) {
#pragma GCC unroll 16
                for (int i = 0; i < VLEN; i++)
                    if (g * VLEN + i < width) {
                        __builtin_prefetch(s + i * is + PACK_AHEAD, 0, 2);
                        x[g][i] = V_LOAD(s + i * is);
                    } else
                        x[g][i] = V_ZERO();
            } else {
#pragma GCC unroll 16
                for (int i = 0; i < VLEN; i++)
                    x[g][i] = g * VLEN + i < vi ? V_LOAD(s + i * is) : V_ZERO();
            }
            NAME(transpose)(x[g]);
            if (!ragged) {
#pragma GCC unroll 16
                for (int i = 0; i < VLEN; i++)
                    V_STORE(dst + (p + i) * width + g * VLEN, x[g][i]);
            }
        }
        if (ragged) {
#pragma GCC unroll 16
            for (int i = 0; i < VLEN; i++)
#pragma GCC unroll 8
                for (int g = 0; g < groups; g++)
                    V_STORE(dst + (p + i) * width + g * VLEN, x[g][i]);
        }
    }
    return p;
}

/* Steps contiguous across lines: copies of `width` elements.  The next strip
 * of the same rows is asked for early: rows are far apart, so the hardware
 * prefetcher can't follow. */
INLINE ptrdiff_t NAME(pack_steps)(const int width, const T *src, ptrdiff_t ps, ptrdiff_t vp, T *dst) {
    for (ptrdiff_t p = 0; p < vp; p++, src += ps, dst += width) {
#pragma GCC unroll 4
        for (int i = 0; i < width; i += (int)LINE)
            __builtin_prefetch(src + width + i, 0, 2);
        int i = 0;
#pragma GCC unroll 4
        for (; i + VLEN <= width; i += VLEN)
            V_STORE(dst + i, V_LOAD(src + i));
#pragma GCC unroll 16
        for (; i < width; i++)
            dst[i] = src[i];
    }
    return vp;
}

INLINE void NAME(pack_body)(const int width, const T *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp,
                            T *dst, ptrdiff_t len) {
    ptrdiff_t p = 0;
    if (vi <= 0 || vp <= 0)
        vp = 0;
    else if (ps == 1)
        p = NAME(pack_lines)(width, src, is, vi, vp, dst, len);
    else if (is == 1 && vi >= width)
        p = NAME(pack_steps)(width, src, ps, vp, dst);
    for (; p < vp; p++) {
        for (ptrdiff_t i = 0; i < width; i++)
            dst[p * width + i] = i < vi ? src[i * is + p * ps] : 0;
    }
    if (p < len)
        memset(dst + p * width, 0, sizeof(T) * (size_t)((len - p) * width));
}

static void NAME(pack_a)(const void *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp, void *dst,
                         ptrdiff_t len) {
    NAME(pack_body)(MR, src, is, ps, vi, vp, dst, len);
}

static void NAME(pack_b)(const void *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp, void *dst,
                         ptrdiff_t len) {
    NAME(pack_body)(NR, src, is, ps, vi, vp, dst, len);
}
