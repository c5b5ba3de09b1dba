/* tile_impl.h - template: the micro-kernel for tile registers, 32 x 32 accumulators in two by two tiles; included by
 * kernel_impl.h, whose macros it uses.
 *
 * Tile operations, defined by the including file (tile_amx.h: AMX; tests/cpu/c/tiles.h: plain C).  A tile is given by a
 * literal number, 0 to 7, and has 16 rows of TILE_LANES lanes of 4 bytes.
 *   TILE_BEGIN(), TILE_END()      configure a thread's tiles to that size; release them
 *   TILE_ZERO(t)
 *   TILE_LOAD(t, p, stride)       rows of 64 bytes, stride bytes from one to the next
 *   TILE_STREAM(t, p, stride)     the same for memory that is not read again soon
 *   TILE_STORE(t, p, stride)
 *   P_TILE_DOT(c, a, b)           for every panel P: c(i, j) += sum over lanes g of a(i, g) . b(g, j), each the sum of
 *                                 the products of the steps of K in a lane
 *
 * A step of the loop covers TILE_LANES lanes of K: it loads two tiles of A and two of B, a kilobyte each, and does four
 * products that do not depend on one another (a product's latency is the time in which three are issued).
 */
#define TILE_DOT CAT(P, _TILE_DOT)
_Static_assert(MR == 2 * TILE_LANES && NR == 2 * TILE_LANES && VLEN == TILE_LANES, "two by two tiles");

static void NAME(begin)(void) {
    TILE_BEGIN();
}

static void NAME(end)(void) {
    TILE_END();
}

enum { NAME(row) = 4 * TILE_LANES, NAME(b_row) = 8 * TILE_LANES }; /* bytes of a tile's row, of a row of B's and H's */

enum { NAME(tile) = TILE_LANES * NAME(row) }; /* bytes of a tile in A's panels */

/* Accumulators of tile t, at byte `at` of a micro-tile: see falcon_how. */
#define ACCUMULATORS(t, at)                                                                                            \
    do {                                                                                                               \
        if (how & FALCON_KEPT)                                                                                         \
            TILE_STORE(t, h - MR * NR * sizeof(T) + (at), NAME(b_row));                                                \
        if (how & FALCON_ADD)                                                                                          \
            TILE_LOAD(t, h + (at), NAME(b_row));                                                                       \
        else                                                                                                           \
            TILE_ZERO(t);                                                                                              \
    } while (0)

enum { NAME(right) = NAME(row), NAME(below) = TILE_LANES * NAME(b_row) }; /* where in a micro-tile its tiles begin */

/* One step: first, 0 or 1, is a constant.  Stores and loads of accumulators lie between the products, so that they take
 * place while others are multiplied; B streams through L1, which keeps A's panel. */
INLINE void NAME(tile_step)(const int tm, const int tn, const int first, const char *a, const char *b, char *h, int how,
                            const char *next, const char *pf, ptrdiff_t pf_step) {
    if (first)
        ACCUMULATORS(0, 0);
    TILE_LOAD(4, a, NAME(row));
    TILE_STREAM(6, b, NAME(b_row));
    TILE_DOT(0, 4, 6);
    if (tn == 2) {
        if (first)
            ACCUMULATORS(1, NAME(right));
        TILE_STREAM(7, b + NAME(right), NAME(b_row));
        TILE_DOT(1, 4, 7);
    }
    for (int q = 0; q < PF_LINES / FALCON_PF_EVERY; q++, pf += pf_step)
        __builtin_prefetch(pf, 0, 2);
    if (tm == 2) {
        if (first)
            ACCUMULATORS(2, NAME(below));
        TILE_LOAD(5, a + NAME(tile), NAME(row));
        TILE_DOT(2, 5, 6);
    }
    for (int q = 0; q < H_LINES; q++)
        __builtin_prefetch(next + q * 64, 1, 3);
    if (tm == 2 && tn == 2) {
        if (first)
            ACCUMULATORS(3, NAME(below) + NAME(right));
        TILE_DOT(3, 5, 7);
    }
}

/* See falcon_ukr_fn.  tm and tn, 1 or 2, are constants: the tiles of rows and of columns that are touched. */
INLINE void NAME(tile_body)(const int tm, const int tn, ptrdiff_t kc, const char *a, const char *b, char *h, int how,
                            const char *pf, ptrdiff_t pf_step) {
    __asm__ volatile("" ::: "memory"); /* GCC's intrinsic of a tile load does not declare that it reads memory */
    const char *next = how & FALCON_KEEP ? h + MR * NR * sizeof(T) : h; /* accumulators that are needed next */
    NAME(tile_step)(tm, tn, 1, a, b, h, how, next, pf, pf_step);
    for (ptrdiff_t p = kc / A_DEPTH; p > 1; p--) {
        a += MR * NAME(row), b += TILE_LANES * NAME(b_row);
        next += H_LINES * 64, pf += pf_step * (PF_LINES / FALCON_PF_EVERY);
        NAME(tile_step)(tm, tn, 0, a, b, h, how, next, pf, pf_step);
    }
    if (how & FALCON_KEEP)
        return;
    TILE_STORE(0, h, NAME(b_row));
    if (tn == 2)
        TILE_STORE(1, h + NAME(right), NAME(b_row));
    if (tm == 2)
        TILE_STORE(2, h + NAME(below), NAME(b_row));
    if (tm == 2 && tn == 2)
        TILE_STORE(3, h + NAME(below) + NAME(right), NAME(b_row));
}
#undef ACCUMULATORS

/* Few rows, in vectors: see TILE_THIN in kernel_impl.h. */
INLINE void NAME(thin_body)(const int mr, const int nv, ptrdiff_t kc, const LANE *a, const LANE *b, T *h, int how,
                            const char *pf, ptrdiff_t pf_step) {
    VEC c[V_ROWS + 1][NV];
    NAME(start)(nv, c);
    for (ptrdiff_t p = kc / A_DEPTH; p > 0; p--, a += (MR - 1) * TILE_LANES) {
        for (int q = 0; q < PF_LINES / FALCON_PF_EVERY; q++, pf += pf_step)
            __builtin_prefetch(pf, 0, 2);
        for (int g = 0; g < TILE_LANES; g++, a++, b += NR)
            NAME(step)(mr, nv, TILE_LANES, c, a, b);
    }
    NAME(finish)(mr, nv, c, h, how);
}

#undef UKR
#define UKR(body, rows, columns)                                                                                       \
    static void NAME(body##_##rows##_##columns)(ptrdiff_t kc, const void *a, const void *b, ptrdiff_t ldb, void *h,    \
                                                int how, const char *pf, ptrdiff_t pf_step) {                          \
        (void)ldb; /* B is never read in place */                                                                      \
        NAME(body##_body)(rows, columns, kc, a, b, h, how, pf, pf_step);                                               \
    }
// clang-format off
UKR(tile, 1, 1) UKR(tile, 1, 2) UKR(tile, 2, 1) UKR(tile, 2, 2)
UKR(thin, 1, 1) UKR(thin, 1, 2) UKR(thin, 2, 1) UKR(thin, 2, 2)
    // clang-format on
    _Static_assert(TILE_THIN == 2, "the variants above and the table below");

#define ROWS(body, n) NAME(body##_##n##_1), NAME(body##_##n##_2)
#define SEVEN_ROWS(n)                                                                                                  \
    ROWS(tile, n), ROWS(tile, n), ROWS(tile, n), ROWS(tile, n), ROWS(tile, n), ROWS(tile, n), ROWS(tile, n)
static const falcon_ukr_fn NAME(ukr_table)[MR * NV] = {
    ROWS(thin, 1), ROWS(thin, 2), SEVEN_ROWS(1), SEVEN_ROWS(1), /* 1, 2, 3 to 16 */
    ROWS(tile, 2), ROWS(tile, 2), SEVEN_ROWS(2), SEVEN_ROWS(2), /* 17 to 32 */
};
#undef ROWS
#undef SEVEN_ROWS
#undef TILE_DOT
