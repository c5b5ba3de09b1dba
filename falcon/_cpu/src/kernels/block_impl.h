/* block_impl.h - template: steps of the micro-kernel for instructions that multiply two rows by two columns (BFMMLA,
 * SMMLA, UMMLA, USMMLA); included by kernel_impl.h, whose macros it uses, in vectors of 16 bytes.
 *
 * The including file defines, for every panel P (vec_gcc.h: NEON; tests/cpu/c/blocks.h: plain C):
 *   P_BLOCK(a, b, c)   c + a b, where c holds the accumulators (0, 0), (0, 1), (1, 0), (1, 1) of two rows and two
 *                      columns, a two lanes of A's panel and b two lanes of B's; with P_BY_COLUMNS, where the
 *                      instruction's first operand is b, (0, 0), (1, 0), (0, 1), (1, 1)
 *
 * A lane has 8 bytes here, KR steps of a line, and lanes of neighbouring lines are neighbours: 16 bytes of a panel, A's
 * or B's, are an operand as they are.  In the loop over K, accumulators c[i][j] and c[i + 1][j], i even, hold two
 * blocks of rows i and i + 1: that of columns 4 j and 4 j + 1, and that of columns 4 j + 2 and 4 j + 3.  If mr is odd,
 * the last row is multiplied together with the next row of the panel, which is not stored.
 */
_Static_assert(MR % 2 == 0 && VLEN == 4 && sizeof(LANE) == 8 && !FLIP, "blocks of two rows and two columns");

/* KR steps of the product. */
INLINE void NAME(step)(const int mr, const int nv, VEC c[MR + 1][NV], const LANE *a, const LANE *b) {
    LANE_VEC av[MR / 2];
#pragma GCC unroll 8
    for (int i = 0; i < mr; i += 2)
        av[i / 2] = LANE_LOAD(a + i);
#pragma GCC unroll 8
    for (int j = 0; j < 2 * nv; j++) {
        const LANE_VEC bv = LANE_LOAD(b + 2 * j);
#pragma GCC unroll 8
        for (int i = 0; i < mr; i += 2)
            NAME(add)(c[i + j % 2] + j / 2, av[i / 2], bv);
        __asm__ volatile("" ::: "memory"); /* GCC 12 would load all of B first, and spill accumulators */
    }
}

/* Make rows of the blocks. */
INLINE void NAME(rows_of_blocks)(const int mr, const int nv, VEC c[MR + 1][NV]) {
#if CAT(P, _BY_COLUMNS)
    const IVEC upper = {0, 2, 4, 6}, lower = {1, 3, 5, 7};
#else
    const IVEC upper = {0, 1, 4, 5}, lower = {2, 3, 6, 7};
#endif
#pragma GCC unroll 8
    for (int i = 0; i < mr; i += 2)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) {
            const VEC left = c[i][j], right = c[i + 1][j];
            c[i][j] = SHUFFLE(left, right, upper);
            c[i + 1][j] = SHUFFLE(left, right, lower);
        }
}

/* Four lanes of a panel from their first halves and their second ones. */
INLINE void NAME(put_pairs)(LANE *dst, VEC first, VEC second) {
    V_STORE((T *)dst, SHUFFLE(first, second, ((IVEC){0, 4, 1, 5})));
    V_STORE((T *)(dst + 2), SHUFFLE(first, second, ((IVEC){2, 6, 3, 7})));
}
