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
#if PARTS == 1
#define TILE_DOT CAT(P, _TILE_DOT)
#else
#define TILE_DOT bf16_TILE_DOT
#endif
_Static_assert(MR == 2 * TILE_LANES && NR == 2 * TILE_LANES && VLEN == TILE_LANES, "two by two tiles");

static void NAME(begin)(void) {
    TILE_BEGIN();
}

static void NAME(end)(void) {
    TILE_END();
}

/* Bytes: of a row of a tile of A; from a row of a tile of B, or of H, to the next; of a part of a step of a panel. */
enum { NAME(row) = 4 * TILE_LANES, NAME(h_row) = 4 * NR, NAME(part) = 2 * TILE_LANES * NAME(row) };
enum { NAME(b_row) = PARTS == 1 ? 2 * NAME(row) : NAME(row) };
/* Bytes from the first tile of a step of A, of a step of B and of H to the others. */
enum { NAME(a_below) = TILE_LANES * NAME(row), NAME(b_right) = PARTS == 1 ? NAME(row) : TILE_LANES * NAME(row) };
enum { NAME(right) = NAME(row), NAME(below) = TILE_LANES * NAME(h_row) };

/* Accumulators of tile t, at byte `at` of a micro-tile: see falcon_how. */
#define ACCUMULATORS(t, at)                                                                                            \
    do {                                                                                                               \
        if (how & FALCON_KEPT)                                                                                         \
            TILE_STORE(t, h - MR * NR * sizeof(T) + (at), NAME(h_row));                                                \
        if (!FRESH && how & FALCON_ADD)                                                                                \
            TILE_LOAD(t, h + (at), NAME(h_row));                                                                       \
        else                                                                                                           \
            TILE_ZERO(t);                                                                                              \
    } while (0)

/* One product of two parts of a step.  first, load_a: constants, whether it is the first of all, and whether it is the
 * first with this part of A.  Stores and loads of accumulators lie between the products, so that they take place while
 * others are multiplied; B streams through L1, which keeps A's panel. */
INLINE void NAME(product)(const int tm, const int tn, const int first, const int load_a, const char *a, const char *b,
                          char *h, int how, const char *next, const char *pf, ptrdiff_t pf_step) {
    if (first)
        ACCUMULATORS(0, 0);
    if (load_a)
        TILE_LOAD(4, a, NAME(row));
    TILE_STREAM(6, b, NAME(b_row));
    TILE_DOT(0, 4, 6);
    if (tn == 2) {
        if (first)
            ACCUMULATORS(1, NAME(right));
        TILE_STREAM(7, b + NAME(b_right), NAME(b_row));
        TILE_DOT(1, 4, 7);
    }
    for (int q = 0; q < PF_LINES / PRODUCTS / FALCON_PF_EVERY; q++, pf += pf_step)
        __builtin_prefetch(pf, 0, 2);
    if (tm == 2) {
        if (first)
            ACCUMULATORS(2, NAME(below));
        if (load_a)
            TILE_LOAD(5, a + NAME(a_below), NAME(row));
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

/* One step; first is a constant.  With several parts the products i + j < PARTS, the smallest first. */
INLINE void NAME(tile_step)(const int tm, const int tn, const int first, const char *a, const char *b, char *h, int how,
                            const char *next, const char *pf, ptrdiff_t pf_step) {
    int done = 0;
#pragma GCC unroll 3
    for (int i = PARTS - 1; i >= 0; i--)
#pragma GCC unroll 3
        for (int j = PARTS - 1 - i; j >= 0; j--, done++)
            NAME(product)(tm, tn, first && done == 0, j == PARTS - 1 - i, a + i * NAME(part), b + j * NAME(part), h,
                          how, next + done * H_LINES * 64,
                          pf + done * (PF_LINES / PRODUCTS / FALCON_PF_EVERY) * pf_step, pf_step);
}

/* See falcon_ukr_fn.  tm and tn, 1 or 2, are constants: the tiles of rows and of columns that are touched. */
INLINE void NAME(tile_body)(const int tm, const int tn, ptrdiff_t kc, const char *a, const char *b, char *h, int how,
                            const char *pf, ptrdiff_t pf_step) {
    __asm__ volatile("" ::: "memory"); /* GCC's intrinsic of a tile load does not declare that it reads memory */
    const char *next = how & FALCON_KEEP ? h + MR * NR * sizeof(T) : h; /* accumulators that are needed next */
    NAME(tile_step)(tm, tn, 1, a, b, h, how, next, pf, pf_step);
    for (ptrdiff_t p = kc / A_DEPTH; p > 1; p--) {
        a += PARTS * NAME(part), b += PARTS * NAME(part);
        next += PRODUCTS * H_LINES * 64, pf += pf_step * (PF_LINES / FALCON_PF_EVERY);
        NAME(tile_step)(tm, tn, 0, a, b, h, how, next, pf, pf_step);
    }
    if (how & FALCON_KEEP)
        return;
    char apart[MR * NR * sizeof(T)] __attribute__((aligned(64))), *to = FRESH && how & FALCON_ADD ? apart : h;
    TILE_STORE(0, to, NAME(h_row));
    if (tn == 2)
        TILE_STORE(1, to + NAME(right), NAME(h_row));
    if (tm == 2)
        TILE_STORE(2, to + NAME(below), NAME(h_row));
    if (tm == 2 && tn == 2)
        TILE_STORE(3, to + NAME(below) + NAME(right), NAME(h_row));
    if (to == apart)
#pragma GCC unroll 4
        for (int i = 0; i < tm * TILE_LANES * NR; i += VLEN)
            V_STORE((T *)h + i, V_LOAD((T *)h + i) + V_LOAD((T *)apart + i));
}
#undef ACCUMULATORS

#undef UKR
#define UKR(rows, columns)                                                                                             \
    static void NAME(tile_##rows##_##columns)(ptrdiff_t kc, const void *a, const void *b, ptrdiff_t ldb, void *h,      \
                                              int how, const char *pf, ptrdiff_t pf_step) {                            \
        (void)ldb; /* B is never read in place */                                                                      \
        NAME(tile_body)(rows, columns, kc, a, b, h, how, pf, pf_step);                                                 \
    }
#define ROW(n) NAME(tile_##n##_1), NAME(tile_##n##_2)
#define EIGHT_ROWS(n) ROW(n), ROW(n), ROW(n), ROW(n), ROW(n), ROW(n), ROW(n), ROW(n)
// clang-format off
UKR(1, 1) UKR(1, 2) UKR(2, 1) UKR(2, 2)
static const falcon_ukr_fn NAME(ukr_table)[MR * NV] = {EIGHT_ROWS(1), EIGHT_ROWS(1), EIGHT_ROWS(2), EIGHT_ROWS(2)};
// clang-format on
#undef ROW
#undef EIGHT_ROWS
#undef TILE_DOT
