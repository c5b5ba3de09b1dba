/* operand_impl.h - template: operands of type X (of vec_types.h) for the panels and accumulators of kernel_impl.h,
 * which includes this: matrix-vector products, norms, packing, a C of such elements, and the descriptor.
 *
 * Where PAIR is 1, X stands for two types: A's elements are X_LEFT, B's X_RIGHT.  Then B is packed by the functions of
 * its own type, into panels P_OF_B, and there is no C of elements. */
#define X_NAME(x) CAT4(ISA, P, X, x)
#define PAIR CAT(X, _PAIR)
#if PAIR
#define X_A CAT(X, _LEFT)
#define X_B CAT(X, _RIGHT)
#define PACK_B CAT4(ISA, CAT(P, _OF_B), X_B, pack_b)
#define TRANSPOSED CAT3(falcon_kernel, ISA, CAT(X, _SWAPPED))
extern const falcon_kernel TRANSPOSED;
#else
#define X_A X
#define X_B X
#define PACK_B X_NAME(pack_b)
#define TRANSPOSED CAT3(falcon_kernel, ISA, X)
#endif
#define X_T CAT(X_A, _T)
/* Whether panels hold elements unchanged. */
#define IS_PANEL __builtin_types_compatible_p(X_T, P_T)
#define X_READ(p) CAT(X_A, _WIDEN)(CAT(X_A, _READ)(p))
#define X_GET CAT(X_A, _GET)
#define B_T CAT(X_B, _T)
#define B_READ(p) CAT(X_B, _WIDEN)(CAT(X_B, _READ)(p))
#define B_GET CAT(X_B, _GET)

/* Matrix times vector, see falcon_gemv_fn: sums of each line along K, `lines` a constant. */
INLINE void X_NAME(dot_lines)(const int lines, ptrdiff_t len, const X_T *mat, ptrdiff_t is, const B_T *x, T *y) {
    VEC s[4][2];
#pragma GCC unroll 4
    for (int i = 0; i < lines; i++)
        s[i][0] = s[i][1] = V_ZERO();
    ptrdiff_t k = 0;
    for (; k + 2 * VLEN <= len; k += 2 * VLEN) {
        const VEC x0 = B_READ(x + k), x1 = B_READ(x + k + VLEN);
#pragma GCC unroll 4
        for (int i = 0; i < lines; i++) {
            s[i][0] = V_FMA(X_READ(mat + i * is + k), x0, s[i][0]);
            s[i][1] = V_FMA(X_READ(mat + i * is + k + VLEN), x1, s[i][1]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < lines; i++) {
        VEC v = s[i][0] + s[i][1];
#pragma GCC unroll 4
        for (int step = 1; step < VLEN; step *= 2) { /* scalar additions would cost more than a short line */
            IVEC other;
#pragma GCC unroll 16
            for (int l = 0; l < VLEN; l++)
                other[l] = l ^ step;
            v += SHUFFLE(v, v, other);
        }
        T sum = v[0];
        for (ptrdiff_t q = k; q < len; q++)
            sum += X_GET(mat[i * is + q]) * B_GET(x[q]);
        y[i] += sum;
    }
}

static void X_NAME(dot)(ptrdiff_t lines, ptrdiff_t len, const void *mat_, ptrdiff_t is, const void *x, void *y_) {
    const X_T *mat = mat_;
    T *y = y_;
    ptrdiff_t i = 0;
    for (; i + 4 <= lines; i += 4)
        X_NAME(dot_lines)(4, len, mat + i * is, is, x, y + i);
    for (; i < lines; i++)
        X_NAME(dot_lines)(1, len, mat + i * is, is, x, y + i);
}

/* Add `steps` rows times x to y, one vector of it at a time; steps is a constant. */
INLINE void X_NAME(axpy_steps)(const int steps, ptrdiff_t lines, const X_T *mat, ptrdiff_t ks, const B_T *x, T *y) {
    VEC w[8];
#pragma GCC unroll 8
    for (int q = 0; q < steps; q++)
        w[q] = V_SET1(B_GET(x[q]));
    ptrdiff_t i = 0;
    for (; i + VLEN <= lines; i += VLEN) {
        VEC s = V_LOAD(y + i);
#pragma GCC unroll 8
        for (int q = 0; q < steps; q++)
            s = V_FMA(w[q], X_READ(mat + q * ks + i), s);
        V_STORE(y + i, s);
    }
    for (; i < lines; i++)
        for (int q = 0; q < steps; q++)
            y[i] += B_GET(x[q]) * X_GET(mat[q * ks + i]);
}

static void X_NAME(axpy)(ptrdiff_t lines, ptrdiff_t len, const void *mat_, ptrdiff_t ks, const void *x_, void *y) {
    const X_T *mat = mat_;
    const B_T *x = x_;
    ptrdiff_t k = 0;
    for (; k + 8 <= len; k += 8)
        X_NAME(axpy_steps)(8, lines, mat + k * ks, ks, x + k, y);
    for (; k < len; k++)
        X_NAME(axpy_steps)(1, lines, mat + k * ks, ks, x + k, y);
}

#if !CAT(D, _EXACT)
#include "norm_impl.h"
#endif
#include "pack_impl.h"
#undef SPLIT
#if PARTS > 1
#include "split_impl.h"
#define SPLIT(split, whole) NAME(split)
#else
#define SPLIT(split, whole) whole
#endif

#undef LOAD_PARTS_A
#undef LOAD_PARTS_B
#undef WRITE_PARTS
#if CAT(X, _PARTS) && PARTS == 1
#include "parts_impl.h"
#define LOAD_PARTS_A X_NAME(load_parts_a)
#define LOAD_PARTS_B X_NAME(load_parts_b)
#define WRITE_PARTS X_NAME(write_parts)
#else
#define LOAD_PARTS_A NULL
#define LOAD_PARTS_B NULL
#define WRITE_PARTS NULL
#endif

#if PAIR
#define WRITE_ELEM NULL
#define SCALE_ELEM NULL
#else
#if CAT(X, _ROUNDS)
#define C CAT(X, _C)
#else
#define C X
#endif
#define C_NAME X_NAME
#include "c_impl.h"
#define WRITE_ELEM X_NAME(write)
#define SCALE_ELEM X_NAME(scale)
#endif

#if PARTS > 1
#define SPLIT_ID(whole) PARTS_ID
#define PANEL_BYTES (2 * PARTS)
#define K_GRAIN A_DEPTH
#else
#define SPLIT_ID(whole) whole
#define PANEL_BYTES sizeof(P_T)
#define K_GRAIN (sizeof(P_T) < 4 ? 64 / sizeof(P_T) : 16) /* a cache line, but at least 16 */
#endif
#define IN_PLACE (A_DEPTH == 1 && IS_PANEL)
#if CAT(X, _FINER)
#define X_KC 128 /* sums of short slices err less, and take as long: falcon/_core/arithmetic.py */
#else
#define X_KC KC
#endif
#define STR_(x) #x
#define STR(x) STR_(x)
const falcon_kernel CAT3(falcon_kernel, ISA, X) = {
    .name = STR(ISA) "_" STR(X) "_ukr_" STR(MR) "x" STR(NR),
    .isa = ISA_ID,
    .dtype = SPLIT_ID(CAT(X, _ID)),
    .a_dtype = CAT(X_A, _ID),
    .b_dtype = SPLIT_ID(CAT(X_B, _ID)),
    .elem = sizeof(X_T),
    .sum = sizeof(P_T),
    .panel = PANEL_BYTES,
    .split = PARTS > 1,
    .acc = sizeof(T),
    .acc_dtype = CAT(D, _ID),
    .exact = CAT(D, _EXACT),
    .mr = MR,
    .nr = NR,
    .vlen = VLEN,
    .kr = A_DEPTH,
    .pf_lines = PF_LINES,
    .k_grain = K_GRAIN,
    .kc = X_KC,
    .rows_in_place = IN_PLACE ? 2 * MR : 0,
    .streams_rows = STREAMS_ROWS,
    .keeps = TILES && !FRESH,
    .b_kept = B_KEPT,
    .tile = {A_KEPT_TILE, B_KEPT_TILE},
    .ukr = NAME(ukr_table),
    .direct = IN_PLACE ? DIRECT_TABLE : NULL,
    .weigh = IN_PLACE ? WEIGH : NULL,
    .pack_a = SPLIT(pack_split_a, X_NAME(pack_a)),
    .pack_b = SPLIT(pack_split_b, PACK_B),
    .load_a = LOAD_A,
    .load_b = PACK_B,
    .load_parts_a = LOAD_PARTS_A,
    .load_parts_b = LOAD_PARTS_B,
    .interpret_a = SPLIT(interpret_split_a, INTERPRET_A),
    .interpret_b = SPLIT(interpret_split_b, NAME(interpret_b)),
    .codes = CODES,
    .scatter = NAME(scatter),
    .write = {WRITE_ELEM, CAT4(ISA, P, acc, write)},
    .scale = {SCALE_ELEM, CAT4(ISA, P, acc, scale)},
    .tripped = NAME(tripped),
    .fence = NAME(fence),
#if TILES
    .begin = NAME(begin),
    .end = NAME(end),
#endif
    .write_parts = WRITE_PARTS,
    .dot = X_NAME(dot),
    .axpy = X_NAME(axpy),
#if !CAT(D, _EXACT)
    .units_a = NAME(units_a),
    .units_b = NAME(units_b),
    .level_a = NAME(level_a),
    .level_b = NAME(level_b),
    .sums_a = SUMS(sums_a),
    .sums_b = SUMS(sums_b),
    .unscale = NAME(unscale),
    .scatter_outer = NAME(scatter_outer),
    .norm_dot = X_NAME(norm_dot),
    .norm_axpy = X_NAME(norm_axpy),
    .least_square = sizeof(T) == 4 ? 0x1p-106 : 0x1p-1002, /* the least normal number times 2^20 */
#endif
    .modulo = modulo,
    .quantise = quantise,
    .from_bytes = from_bytes,
    .peaks = peaks,
    .transposed = &TRANSPOSED,
};
#undef STR_
#undef STR
#undef X
#undef PAIR
#undef X_NAME
#undef X_T
#undef X_READ
#undef X_GET
#undef X_A
#undef X_B
#undef B_T
#undef B_READ
#undef B_GET
#undef PACK_B
#undef TRANSPOSED
#undef SPLIT_ID
#undef PANEL_BYTES
#undef K_GRAIN
#undef IN_PLACE
#undef X_KC
#undef IS_PANEL
#undef WRITE_ELEM
#undef SCALE_ELEM
