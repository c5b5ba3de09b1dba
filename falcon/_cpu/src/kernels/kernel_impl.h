/* kernel_impl.h - template: the kernels of one instruction set for all types that are packed into one type of panel.
 *
 * The including file defines ISA (name) and ISA_ID; P (a panel of vec_types.h) and P_SIZES: MR, NR, NR in vectors, KC;
 * and X_1 to X_4, as many as there are: further types of operands that are packed into such panels.  It gets a
 * `falcon_kernel` for each of them and for P, filled in at the bottom of operand_impl.h.  All functions are static.
 * Where it defines TILES, the micro-kernel is that of tile_impl.h, else that of vector_impl.h; where it defines BLOCKS,
 * with the steps of block_impl.h.  P_BY_COLUMNS: 1 where the instruction of block_impl.h takes its operands the other
 * way round.  P_AHEAD: bytes ahead in A to prefetch into L1 at every second step.
 *
 * What depends on panels and accumulators only is in here, in combine_impl.h and (for a C of accumulators) c_impl.h:
 * operands of several types share it.  Vectors may have any width that the compiler knows.
 */
#ifndef FALCON_KERNEL_IMPL_H
#define FALCON_KERNEL_IMPL_H
#include "modulo_impl.h"
#include "quantise_impl.h"
/* 1: the micro-kernel is that of tile_impl.h, and the including file defines the tile operations. */
#ifndef TILES
#define TILES 0
#endif
/* With TILES and float32: in how many parts of bfloat16 elements are multiplied (split_impl.h); PARTS_ID is the
 * kernel's type.  1: whole. */
#ifndef PARTS
#define PARTS 1
#endif
/* 1: accumulators hold 2 x 2 blocks, by the instructions that block_impl.h names. */
#ifndef BLOCKS
#define BLOCKS 0
#endif
/* The C tile, see falcon_kernel; an instruction set may define its own.  Panels of A pass through L1 one after the
 * other, so L2 hardly limits them.  On a Zen 5 tiles of up to 32 x 12 panels were 2 % faster than 17 x 8 in classical
 * f64 and 0 to 8 % faster with schemes, equal in classical f32. */
#ifndef B_KEPT
#define B_KEPT 0
#define A_KEPT_TILE {32, 12, 60, 45}
#define B_KEPT_TILE {0}
#endif
/* 1: programs of falcon_codes.h run as code (code_impl.h). */
#ifndef CODED
#define CODED 0
#endif
/* See falcon_kernel. */
#ifndef STREAMS_ROWS
#define STREAMS_ROWS 0
#endif
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define CAT3_(a, b, c) a##_##b##_##c
#define CAT3(a, b, c) CAT3_(a, b, c)
#define CAT4_(a, b, c, d) a##_##b##_##c##_##d
#define CAT4(a, b, c, d) CAT4_(a, b, c, d)
#define NAME(x) CAT3(ISA, P, x)
#define PICK(which, sizes) which(sizes)
#define PICK_MR(mr, nr, vecs, kc) mr
#define PICK_NR(mr, nr, vecs, kc) nr
#define PICK_VECS(mr, nr, vecs, kc) vecs
#define PICK_KC(mr, nr, vecs, kc) kc
#define MR PICK(PICK_MR, CAT(P, _SIZES))
#define NR PICK(PICK_NR, CAT(P, _SIZES))
#define NR_VECS PICK(PICK_VECS, CAT(P, _SIZES))
#define KC PICK(PICK_KC, CAT(P, _SIZES))
#define D CAT(P, _ACC) /* the type of accumulators */
#define T CAT(D, _T)
#define VEC CAT(D, _VEC)
#define IVEC CAT(D, _IVEC)
#define VLEN CAT(D, _VLEN)
#define V_ZERO CAT(D, _ZERO)
#define V_LOAD CAT(D, _LOAD)
#define V_STORE CAT(D, _STORE)
#define V_STREAM CAT(D, _STREAM)
#define V_SET1 CAT(D, _SET1)
#define V_FMA CAT(D, _FMA)
#define COEF CAT(D, _COEF)
#define SCALAR CAT(D, _SCALAR)
#define NV (NR / VLEN)
/* Steps of K in a lane, or for blocks in a pair of lanes; L: accumulators of that size, as which lanes are moved. */
#if BLOCKS
#define KR (2 * CAT(P, _KR))
#define LANE_OF_STEPS uint64_t
#define L f64
#else
#define KR CAT(P, _KR)
#define LANE_OF_STEPS falcon_lane
#define L D
#endif
#define L_VEC CAT(L, _VEC)
#define L_VLEN CAT(L, _VLEN)
#define P_T CAT(E, _T)
#define FLIP CAT(P, _FLIP)
/* What depends on the kind of micro-kernel.  A_DEPTH: steps of a line that lie together in A's panels (a lane, or a row
 * of a tile); A_FLIP: what A's lanes are xored with there; PF_LINES: falcon_kernel.pf_lines. */
#if TILES
#define TILE_LANES 16
#define A_DEPTH (PARTS == 1 ? TILE_LANES * KR : 2 * TILE_LANES)
/* Steps of a line that lie together in what load writes of A. */
#define LOAD_DEPTH (PARTS == 1 ? A_DEPTH : 1)
/* Products of two parts in a step. */
#define PRODUCTS (PARTS * (PARTS + 1) / 2)
#define A_FLIP 0
/* A step of tiles multiplies for 64 cycles and reads 32 lines of each panel, one of which is kept in L1: prefetch 8;
 * of several parts half as many for each of their products. */
#define PF_LINES ((PARTS == 1 ? 8 : 4 * PRODUCTS) * FALCON_PF_EVERY)
/* Cache lines of the next micro-tile of H that a product of two parts prefetches. */
#define H_LINES (PARTS == 1 ? 8 : 3)
/* 1: sums begin at 0 in every slice of K and are added to H in vectors: a third of the error, 5 % of the time. */
#define FRESH (PARTS > 1)
#else
#define A_DEPTH KR
#define LOAD_DEPTH A_DEPTH
#define A_FLIP FLIP
#define PF_LINES 1
#define FRESH 0
#endif
#define INLINE static inline __attribute__((always_inline))
#endif

/* A panel's elements, for the sums of schemes: P, or of two types either. */
#undef E
#if CAT(P, _PAIR)
#define E u8
#else
#define E P
#endif

/* A lane of a panel: an element, or 32 bits, for blocks a pair of these.  A vector of lanes, loaded; one broadcast. */
#undef LANE
#undef LANE_VEC
#undef LANE_LOAD
#undef LANE_SPREAD
#if CAT(P, _KR) == 1
#define LANE T
#define LANE_VEC VEC
#define LANE_LOAD(p) V_LOAD(p)
#define LANE_SPREAD(p) V_SET1(*(p))
#else
#define LANE LANE_OF_STEPS
#define LANE_VEC i32_VEC
#define LANE_LOAD(p) i32_LOAD(p)
#define LANE_SPREAD(p) SPREAD_LANE(p)
#endif

#if TILES
#include "tile_impl.h"
#else
#include "vector_impl.h"
#endif
#undef DIRECT_TABLE
#undef WEIGH
#if TILES || BLOCKS || CAT(P, _KR) != 1
#define DIRECT_TABLE NULL
#define WEIGH NULL
#else
#include "direct_impl.h"
#define DIRECT_TABLE NAME(direct_table)

static void NAME(weigh)(void *panel, ptrdiff_t steps, const void *weights) {
    T *x = panel;
    for (ptrdiff_t p = 0; p < steps; p++, x += NR) {
        const VEC w = V_SET1(((const T *)weights)[p]);
#pragma GCC unroll 4
        for (int j = 0; j < NR; j += VLEN)
            V_STORE(x + j, V_LOAD(x + j) * w);
    }
}
#define WEIGH NAME(weigh)
#endif

static void NAME(scatter)(void *dst_, const void *ct_, const void *h_, double coef) {
    T *dst = dst_;
    const T *ct = ct_, *h = h_;
    const VEC w = V_SET1(COEF(coef));
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

#if !CAT(D, _EXACT)
/* n elements, as often as makes whole vectors. */
#undef PERIOD
#define PERIOD(n) ((n) * (VLEN / (((n) & -(n)) < VLEN ? ((n) & -(n)) : VLEN)))

/* See falcon_units_fn; `depth` steps of a line lie together. */
INLINE void NAME(units)(const int width, const int depth, P_T *x, ptrdiff_t steps, const T *units) {
    for (ptrdiff_t k = 0; k < steps; k += depth, x += width * depth) {
        T of_group[depth];
        for (int q = 0; q < depth; q++)
            of_group[q] = k + q < steps ? units[k + q] : 1;
        for (int e = 0; e < width * depth; e++)
            x[e] = CAT(E, _PUT)(CAT(E, _GET)(x[e]) * of_group[e % depth]);
    }
}

static void NAME(units_a)(void *strip, ptrdiff_t steps, const void *units) {
    NAME(units)(MR, LOAD_DEPTH, strip, steps, units);
}

static void NAME(units_b)(void *strip, ptrdiff_t steps, const void *units) {
    NAME(units)(NR, KR, strip, steps, units);
}

/* See falcon_level_fn; `depth` steps of a line lie together. */
INLINE void NAME(level)(const int width, const int depth, P_T *x, ptrdiff_t steps, const T *means, const double *scale,
                        ptrdiff_t lines) {
    const int period = PERIOD(width * depth);
    T of_lines[2][width], m[PERIOD(width * depth)], s[PERIOD(width * depth)];
    for (int i = 0; i < width; i++)
        of_lines[0][i] = 0, of_lines[1][i] = 1;
    const int n = lines == width ? width : (int)lines;
    for (int i = 0; means && i < n; i++)
        of_lines[0][i] = means[i];
    for (int i = 0; scale && i < n; i++)
        of_lines[1][i] = (T)scale[i];
#pragma GCC unroll 48
    for (int e = 0; e < period; e++)
        m[e] = of_lines[0][e / depth % width], s[e] = of_lines[1][e / depth % width];
    const ptrdiff_t whole = steps / depth * depth * width;
    ptrdiff_t at = 0;
    for (; at + period <= whole; at += period)
#pragma GCC unroll 32
        for (int e = 0; e < period; e += VLEN) {
            const VEC v = CAT(E, _WIDEN)(CAT(E, _READ)(x + at + e));
            CAT(E, _WRITE)(x + at + e, CAT(E, _NARROW)((v - V_LOAD(m + e)) * V_LOAD(s + e)));
        }
    for (int e = 0; at < whole; at++, e++)
        x[at] = CAT(E, _PUT)((CAT(E, _GET)(x[at]) - m[e]) * s[e]);
    for (ptrdiff_t q = 0; q < steps % depth; q++) /* of a group that is not whole */
        for (int i = 0; i < width; i++)
            x[whole + i * depth + q] =
                CAT(E, _PUT)((CAT(E, _GET)(x[whole + i * depth + q]) - m[i * depth]) * s[i * depth]);
}

static void NAME(level_a)(void *strip, ptrdiff_t steps, const void *means, const double *scale, ptrdiff_t lines) {
    NAME(level)(MR, LOAD_DEPTH, strip, steps, means, scale, lines);
}

static void NAME(level_b)(void *strip, ptrdiff_t steps, const void *means, const double *scale, ptrdiff_t lines) {
    NAME(level)(NR, KR, strip, steps, means, scale, lines);
}

#undef SUMS
#if KR == 1 && PARTS == 1
/* Add up one run, in two chains: `whole`, a constant, says that it has FALCON_SUM_RUN steps. */
INLINE void NAME(sum_run)(const int width, const int whole, int steps, const P_T *x, ptrdiff_t step,
                          double *restrict squares, double *restrict totals, ptrdiff_t lines) {
    const int vecs = (width + VLEN - 1) / VLEN, run = whole ? FALCON_SUM_RUN : steps;
    T of_run[2][(MR > NR ? MR : NR) + VLEN];
#pragma GCC unroll 8
    for (int v = 0; v < vecs; v++, x += VLEN) {
        VEC s0 = V_ZERO(), s1 = V_ZERO(), t0 = V_ZERO(), t1 = V_ZERO();
#pragma GCC unroll 8
        for (int q = 0; q < run / 2; q++) {
            const VEC y0 = V_LOAD(x + 2 * q * step), y1 = V_LOAD(x + (2 * q + 1) * step);
            s0 = V_FMA(y0, y0, s0), s1 = V_FMA(y1, y1, s1);
            t0 += y0, t1 += y1;
        }
        if (run % 2) {
            const VEC y = V_LOAD(x + (run - 1) * step);
            s0 = V_FMA(y, y, s0), t0 += y;
        }
        V_STORE(of_run[0] + v * VLEN, s0 + s1);
        V_STORE(of_run[1] + v * VLEN, t0 + t1);
    }
    if (lines == width) { /* a constant */
        for (int i = 0; i < width; i++)
            squares[i] += (double)of_run[0][i];
        for (int i = 0; i < width; i++)
            totals[i] += (double)of_run[1][i];
        return;
    }
    for (int i = 0; i < lines; i++) {
        squares[i] += (double)of_run[0][i];
        totals[i] += (double)of_run[1][i];
    }
}

/* See falcon_sums_fn; reads beyond the last step, where a strip has room for a cache line. */
INLINE void NAME(sums)(const int width, const P_T *x, ptrdiff_t step, ptrdiff_t steps, double *squares, double *totals,
                       ptrdiff_t lines) {
    for (; steps >= FALCON_SUM_RUN; steps -= FALCON_SUM_RUN, x += FALCON_SUM_RUN * step)
        NAME(sum_run)(width, 1, FALCON_SUM_RUN, x, step, squares, totals, lines);
    if (steps)
        NAME(sum_run)(width, 0, (int)steps, x, step, squares, totals, lines);
}

/* Strips that load wrote, whose distance of steps is a constant, and those that are read where they are. */
#define SUMS_OF(side, width)                                                                                           \
    static void NAME(sums_##side)(const void *strip, ptrdiff_t step, ptrdiff_t steps, double *squares, double *totals, \
                                  ptrdiff_t lines) {                                                                   \
        if (step == (width))                                                                                           \
            NAME(sums)(width, strip, width, steps, squares, totals, lines);                                            \
        else                                                                                                           \
            NAME(sums)(width, strip, step, steps, squares, totals, lines);                                             \
    }
SUMS_OF(a, MR)
SUMS_OF(b, NR)
#undef SUMS_OF
#define SUMS(x) NAME(x)
#else
#define SUMS(x) NULL
#endif

/* Rows at a time. */
#define ROWS (MR % 6 == 0 ? 6 : MR % 4 == 0 ? 4 : 2)
static void NAME(scatter_outer)(void *dst_, const void *ct_, const void *h_, double coef, int rank, const void *left_,
                                ptrdiff_t left_step, const void *right_, ptrdiff_t right_step) {
    T *dst = dst_;
    const T *ct = ct_, *h = h_;
    const VEC w = V_SET1(COEF(coef));
    _Static_assert(MR % ROWS == 0, "whole groups of rows");
    for (int i = 0; i < MR; i += ROWS)
        for (int j = 0; j < NR; j += VLEN) {
            const T *left = (const T *)left_ + i, *right = (const T *)right_ + j;
            VEC v[ROWS];
#pragma GCC unroll 6
            for (int q = 0; q < ROWS; q++)
                v[q] = ct ? V_FMA(w, V_LOAD(h + (i + q) * NR + j), V_LOAD(ct + (i + q) * NR + j))
                          : (VEC)(w * V_LOAD(h + (i + q) * NR + j));
            for (int r = 0; r < rank; r++, left += left_step, right += right_step)
#pragma GCC unroll 6
                for (int q = 0; q < ROWS; q++)
                    v[q] = V_FMA(V_SET1(left[q]), V_LOAD(right), v[q]);
#pragma GCC unroll 6
            for (int q = 0; q < ROWS; q++)
                V_STORE(dst + (i + q) * NR + j, v[q]);
        }
}
#undef ROWS

/* 1 / scale[i] for i < n, of `width` numbers, the others 1.  A scale of 0 marks a line of zeros: its product is 0,
 * without what rounding left of other lines. */
INLINE void NAME(inverses)(const int width, double *to, const double *scale, ptrdiff_t n) {
    double given[width];
    for (int i = 0; i < width; i++)
        given[i] = 1;
    if (scale)
        memcpy(given, scale, (size_t)n * sizeof *given);
    for (int i = 0; i < width; i++)
        to[i] = (double)(given[i] != 0) / (given[i] + (double)(given[i] == 0));
}

static void NAME(unscale)(void *tile, ptrdiff_t n_rows, ptrdiff_t n_columns, const double *rows, const double *columns,
                          int narrow) {
    T *x = tile, of_column[NR];
    double of_rows[MR], of_columns[NR];
    NAME(inverses)(MR, of_rows, rows, n_rows);
    NAME(inverses)(NR, of_columns, columns, n_columns);
    for (int j = 0; j < NR; j++)
        of_column[j] = (T)of_columns[j];
    for (ptrdiff_t i = 0; i < n_rows; i++, x += NR)
        if (narrow)
#pragma GCC unroll 4
            for (int j = 0; j < NR; j += VLEN)
                V_STORE(x + j, V_LOAD(x + j) * (V_LOAD(of_column + j) * V_SET1((T)of_rows[i])));
        else
            for (int j = 0; j < NR; j++)
                x[j] = (T)((double)x[j] * of_rows[i] * of_columns[j]);
}
#endif

static int NAME(tripped)(const void *watch) {
    for (int i = 0; i < VLEN; i++)
        if (((const T *)watch)[i] != 0)
            return 1;
    return 0;
}

static void NAME(fence)(void) {
    V_FENCE();
}

#include "code_impl.h"
#include "combine_impl.h"

#define C D
#define C_NAME(x) CAT4(ISA, P, acc, x)
#include "c_impl.h"

#define X P
#include "operand_impl.h"
#ifdef X_1
#define X X_1
#include "operand_impl.h"
#undef X_1
#endif
#ifdef X_2
#define X X_2
#include "operand_impl.h"
#undef X_2
#endif
#ifdef X_3
#define X X_3
#include "operand_impl.h"
#undef X_3
#endif
#ifdef X_4
#define X X_4
#include "operand_impl.h"
#undef X_4
#endif
#undef P
#undef INTERPRET_A
