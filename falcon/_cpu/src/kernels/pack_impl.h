/* pack_impl.h - template: packing a strip of a matrix into a micro-panel.
 *
 * A strip is `width` lines (rows of A, columns of B) by some steps along K; the
 * panel holds it by groups of KR steps, a lane for each line: dst[p/KR*width + i].
 * Elements are converted on the way.  Strides may have any sign and size; there are
 * three cases: lines contiguous along K (VLEN x VLEN transposes of lanes in
 * registers), steps contiguous across lines (copies, KR steps interleaved),
 * anything else (element by element).  In A's panels for tiles, a row of a tile
 * holds steps of one line: copies of whole rows, or transposes.
 */
#define AS_(x, p) x##_AS_##p
#define AS(x, p) AS_(x, p)
#define X_LINE ((ptrdiff_t)(64 / sizeof(X_T)))

/* One round of the transposition of x[L_VLEN]: swap the off-diagonal s x s blocks of each 2s x 2s block.  s is a
 * constant: shuffle masks not known at compile time would be built, element by element, for every block. */
INLINE void X_NAME(swap_blocks)(const int s, L_VEC x[L_VLEN]) {
    CAT(L, _IVEC) lo, hi;
#pragma GCC unroll 16
    for (int l = 0; l < L_VLEN; l++) {
        lo[l] = l & s ? L_VLEN + l - s : l;
        hi[l] = l & s ? L_VLEN + l : l + s;
    }
#pragma GCC unroll 16
    for (int i = 0; i < L_VLEN; i++)
        if (!(i & s)) {
            const L_VEC a = x[i], b = x[i + s];
            x[i] = SHUFFLE(a, b, lo);
            x[i + s] = SHUFFLE(a, b, hi);
        }
}

INLINE void X_NAME(transpose)(L_VEC x[L_VLEN]) {
    X_NAME(swap_blocks)(1, x);
    if (L_VLEN > 2)
        X_NAME(swap_blocks)(2, x);
    if (L_VLEN > 4)
        X_NAME(swap_blocks)(4, x);
    if (L_VLEN > 8)
        X_NAME(swap_blocks)(8, x);
}

/* A vector of lanes of a panel, from as many groups of steps of one line. */
INLINE L_VEC X_NAME(lanes)(const uint32_t flip, const X_T *src) {
    const L_VEC v = (L_VEC)AS(X_A, P)(src);
    return flip ? (L_VEC)((i32_VEC)v ^ flip) : v;
}
INLINE void X_NAME(put_lanes)(LANE *dst, L_VEC v) {
    CAT(L, _STORE)((CAT(L, _T) *)dst, v);
}

/* How far ahead to prefetch in each line, in elements: the hardware prefetcher
 * does not follow so many streams.  Into L2: lines 4 KiB apart share an L1 set,
 * which has fewer than MR ways. */
#define PACK_AHEAD (10 * X_LINE)

/* Lines contiguous along K, `width` a constant; vp in groups.  Works on blocks of L_VLEN lines by L_VLEN groups; the
 * last ones are those that end at vp, some of them for the second time.  A block of fewer lines stores past its group's
 * end, which the next group then overwrites; so groups are stored in order, and the last one by its lanes alone.
 * Returns the groups done. */
INLINE ptrdiff_t X_NAME(pack_lines)(const int width, const uint32_t flip, const X_T *src, ptrdiff_t is, ptrdiff_t vi,
                                    ptrdiff_t vp, LANE *dst) {
    const int blocks = (width + L_VLEN - 1) / L_VLEN;
    const int ragged = width % L_VLEN != 0;
    if (vp < L_VLEN)
        return 0;
    for (ptrdiff_t p = 0, next; p < vp; p = next) {
        next = p + L_VLEN, p = next > vp ? vp - L_VLEN : p;
        L_VEC x[blocks][L_VLEN];
#pragma GCC unroll 8
        for (int g = 0; g < blocks; g++) {
            const X_T *s = src + g * L_VLEN * is + p * KR;
            if (vi >= width) {
#pragma GCC unroll 16
                for (int i = 0; i < L_VLEN; i++)
                    if (g * L_VLEN + i < width) {
                        __builtin_prefetch(s + i * is + PACK_AHEAD, 0, 2);
                        x[g][i] = X_NAME(lanes)(flip, s + i * is);
                    } else
                        x[g][i] = CAT(L, _ZERO)();
            } else {
#pragma GCC unroll 16
                for (int i = 0; i < L_VLEN; i++)
                    x[g][i] = g * L_VLEN + i < vi ? X_NAME(lanes)(flip, s + i * is) : CAT(L, _ZERO)();
            }
            X_NAME(transpose)(x[g]);
            if (!ragged) {
#pragma GCC unroll 16
                for (int i = 0; i < L_VLEN; i++)
                    X_NAME(put_lanes)(dst + (p + i) * width + g * L_VLEN, x[g][i]);
            }
        }
        if (ragged) {
#pragma GCC unroll 16
            for (int i = 0; i < L_VLEN; i++)
#pragma GCC unroll 8
                for (int g = 0; g < blocks; g++) {
                    LANE *to = dst + (p + i) * width + g * L_VLEN;
                    if (i + 1 < L_VLEN || g + 1 < blocks)
                        X_NAME(put_lanes)(to, x[g][i]);
                    else
                        memcpy(to, &x[g][i], (size_t)(width - g * L_VLEN) * sizeof *to);
                }
        }
    }
    return vp;
}

/* VLEN lanes of vec_types.h, from the elements at src and those of the next steps. */
INLINE VEC X_NAME(interleaved)(const uint32_t flip, const X_T *src, ptrdiff_t ps) {
    const int steps = CAT(P, _KR);
    if (steps == 1)
        return X_READ(src);
    i32_VEC v = (i32_VEC){0} + flip;
#pragma GCC unroll 4
    for (int q = 0; q < steps; q++)
        v ^= CAT(P, _BITS)(X_READ(src + q * ps)) << (q * 32 / steps);
    return (VEC)v;
}

/* VLEN lanes of a panel, from KR steps of as many lines. */
INLINE void X_NAME(put_interleaved)(LANE *dst, const uint32_t flip, const X_T *src, ptrdiff_t ps) {
    const VEC x = X_NAME(interleaved)(flip, src, ps);
#if BLOCKS
    NAME(put_pairs)(dst, x, X_NAME(interleaved)(flip, src + KR / 2 * ps, ps));
#else
    V_STORE((T *)dst, x);
#endif
}

/* x as an element of a panel. */
INLINE P_T X_NAME(one)(const uint32_t flip, X_T x) {
    P_T y;
    if (IS_PANEL)
        memcpy(&y, &x, sizeof y);
    else
        y = CAT(E, _PUT)(X_GET(x));
    if (flip)
        *(uint8_t *)&y ^= flip & 0xff;
    return y;
}

/* Steps contiguous across lines: copies of `width` elements; vp in groups.  The
 * next strip of the same rows is prefetched: rows are far apart, so the hardware
 * prefetcher can't follow. */
INLINE ptrdiff_t X_NAME(pack_steps)(const int width, const uint32_t flip, const X_T *src, ptrdiff_t ps, ptrdiff_t vp,
                                    LANE *dst) {
    for (ptrdiff_t p = 0; p < vp; p++, src += KR * ps, dst += width) {
#pragma GCC unroll 4
        for (int q = 0; q < KR; q++)
#pragma GCC unroll 4
            for (int i = 0; i < width; i += (int)X_LINE)
                __builtin_prefetch(src + q * ps + width + i, 0, 2);
        int i = 0;
#pragma GCC unroll 4
        for (; i + VLEN <= width; i += VLEN)
            X_NAME(put_interleaved)(dst + i, flip, src + i, ps);
#pragma GCC unroll 16
        for (; i < width; i++)
#pragma GCC unroll 4
            for (int q = 0; q < KR; q++)
                ((P_T *)dst)[i * KR + q] = X_NAME(one)(flip, src[q * ps + i]);
    }
    return vp;
}

INLINE void X_NAME(pack)(const int width, const uint32_t flip, const X_T *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi,
                         ptrdiff_t vp, void *dst_, ptrdiff_t len) {
    P_T *dst = dst_;
    ptrdiff_t p = 0;
    if (vi <= 0 || vp <= 0)
        vp = 0;
    else if (ps == 1)
        p = X_NAME(pack_lines)(width, flip, src, is, vi, vp / KR, dst_) * KR;
    else if (is == 1 && vi >= width)
        p = X_NAME(pack_steps)(width, flip, src, ps, vp / KR, dst_) * KR;
    const ptrdiff_t whole = (vp + KR - 1) / KR * KR;
    for (; p < whole; p++) {
        for (ptrdiff_t i = 0; i < width; i++)
            dst[(p / KR * width + i) * KR + p % KR] = i < vi && p < vp ? X_NAME(one)(flip, src[i * is + p * ps]) : 0;
    }
    if (p < len)
        memset(dst + p * width, 0, sizeof(P_T) * (size_t)((len - p) * width));
}

#if TILES && PARTS == 1
/* A tile of A: TILE_LANES rows of as many lanes, from vi lines and vp steps. */
INLINE void X_NAME(pack_tile)(const X_T *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp, LANE *dst) {
    _Static_assert(VLEN == TILE_LANES, "a vector is a row of a tile");
    if (ps == 1 && vp >= A_DEPTH) {
        for (ptrdiff_t i = 0; i < TILE_LANES; i++, src += is, dst += TILE_LANES) {
            if (i < vi)
                __builtin_prefetch(src + PACK_AHEAD, 0, 2);
            V_STORE((T *)dst, i < vi ? X_NAME(lanes)(0, src) : V_ZERO());
        }
    } else if (is == 1 && vi >= TILE_LANES && vp >= A_DEPTH) {
        VEC x[TILE_LANES];
#pragma GCC unroll 16
        for (int g = 0; g < TILE_LANES; g++)
            x[g] = X_NAME(interleaved)(0, src + g * KR * ps, ps);
        X_NAME(transpose)(x);
#pragma GCC unroll 16
        for (int i = 0; i < TILE_LANES; i++)
            V_STORE((T *)(dst + i * TILE_LANES), x[i]);
    } else {
        memset(dst, 0, sizeof(LANE) * TILE_LANES * TILE_LANES);
        for (ptrdiff_t i = 0; i < vi && i < TILE_LANES; i++)
            for (ptrdiff_t k = 0; k < vp && k < A_DEPTH; k++)
                ((P_T *)dst)[i * A_DEPTH + k] = X_NAME(one)(0, src[i * is + k * ps]);
    }
}

/* Tile by tile; the tiles of the same steps are neighbours. */
static void X_NAME(pack_a)(const void *src_, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp, void *dst_,
                           ptrdiff_t len) {
    const X_T *src = src_;
    LANE *dst = dst_;
    for (ptrdiff_t k = 0; k < len; k += A_DEPTH)
        for (ptrdiff_t i = 0; i < MR; i += TILE_LANES, dst += TILE_LANES * TILE_LANES) {
            const int some = i < vi && k < vp;
            X_NAME(pack_tile)(some ? src + i * is + k * ps : src, is, ps, some ? vi - i : 0, some ? vp - k : 0, dst);
        }
}
#else
static void X_NAME(pack_a)(const void *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp, void *dst,
                           ptrdiff_t len) {
    X_NAME(pack)(MR, A_FLIP, src, is, ps, vi, vp, dst, len);
}
#endif

#if !PAIR
static void X_NAME(pack_b)(const void *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp, void *dst,
                           ptrdiff_t len) {
    X_NAME(pack)(NR, 0, src, is, ps, vi, vp, dst, len);
}
#endif

#undef LOAD_A
#if A_FLIP
static void X_NAME(load_a)(const void *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp, void *dst,
                           ptrdiff_t len) {
    X_NAME(pack)(MR, 0, src, is, ps, vi, vp, dst, len);
}
#define LOAD_A X_NAME(load_a)
#else
#define LOAD_A X_NAME(pack_a)
#endif
#undef AS_
#undef AS
#undef X_LINE
#undef PACK_AHEAD
