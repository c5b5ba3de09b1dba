/* split_impl.h - template: panels for tiles of float32 in PARTS parts of bfloat16; included by operand_impl.h.
 *
 * x = x0 + x1 + x2 with x0 = upper(x), x1 = upper(x - x0), x2 = x - x0 - x1: three parts hold all 24 bits of a float32
 * (but where they are subnormal, which tiles take for 0), two hold 16.  What load writes, and a scheme's sums,
 * are float32 and are split last, when they are written to panels.  A step of a panel, 32 steps of K by 32 lines, holds
 * its parts one after the other, each as two tiles of a kilobyte.
 */
enum { NAME(lines) = 2 * TILE_LANES, NAME(block) = NAME(lines) * A_DEPTH }; /* elements of a step */

/* The part that a bfloat16 holds: of three, which hold everything, the leading bits, of two the nearest. */
INLINE i32_VEC NAME(upper)(VEC x) {
    return (PARTS == 3 ? (i32_VEC)x : bf16_rounded((i32_VEC)x)) & 0xffff0000;
}

/* Split a step, steps of K by lines, into tiles of A (a row holds the steps of a line) or of B (a row holds two steps
 * of all lines). */
INLINE void NAME(split_step)(const int is_a, const int stream, const float *x, char *to) {
#pragma GCC unroll 2
    for (int t = 0; t < 2; t++) {
        VEC lanes[PARTS][TILE_LANES];
#pragma GCC unroll 16
        for (int g = 0; g < TILE_LANES; g++) {
            VEC even = V_LOAD(x + 2 * g * NAME(lines) + t * TILE_LANES);
            VEC odd = V_LOAD(x + (2 * g + 1) * NAME(lines) + t * TILE_LANES);
#pragma GCC unroll 3
            for (int i = 0; i < PARTS; i++) {
                const i32_VEC low = NAME(upper)(even), high = NAME(upper)(odd);
                lanes[i][g] = (VEC)(low >> 16 | high);
                even -= (VEC)low, odd -= (VEC)high;
            }
        }
#pragma GCC unroll 3
        for (int i = 0; i < PARTS; i++) {
            if (is_a)
                X_NAME(transpose)(lanes[i]);
            float *tile = (float *)(to + i * NAME(part) + t * NAME(part) / 2);
#pragma GCC unroll 16
            for (int g = 0; g < TILE_LANES; g++)
                if (stream)
                    V_STREAM(tile + g * TILE_LANES, lanes[i][g]);
                else
                    V_STORE(tile + g * TILE_LANES, lanes[i][g]);
        }
    }
}

/* See falcon_pack_fn. */
INLINE void NAME(pack_split)(const int is_a, const X_T *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp,
                             char *to, ptrdiff_t len) {
    float x[NAME(block)] __attribute__((aligned(64)));
    for (ptrdiff_t k = 0; k < len; k += A_DEPTH, vp -= A_DEPTH, to += PARTS * NAME(part)) {
        X_NAME(pack)(NAME(lines), 0, vp > 0 ? src + k * ps : src, is, ps, vi, vp < A_DEPTH ? vp : A_DEPTH, x, A_DEPTH);
        NAME(split_step)(is_a, 0, x, to);
    }
}

/* See falcon_combine_fn; after a program's temporaries, scratch has room for a step of each output. */
INLINE void NAME(interpret_split)(const int is_a, const float *src, ptrdiff_t src_stride, char *to, ptrdiff_t to_stride,
                                  ptrdiff_t len, int stream, const falcon_program *prog, char *scratch) {
    float *sums = (float *)(scratch + prog->n_temp * FALCON_BLOCK);
    for (ptrdiff_t at = 0; at < len; at += NAME(block), to += PARTS * NAME(part)) {
        NAME(interpret)(0, src + at, src_stride, sums, NAME(block), NAME(block), 0, prog, scratch);
        for (ptrdiff_t r = 0; r < prog->n_out; r++)
            NAME(split_step)(is_a, stream, sums + r * NAME(block), to + r * to_stride * 2 * PARTS);
    }
}

#define OF_SIDE(side, is_a)                                                                                            \
    static void NAME(pack_split_##side)(const void *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp,       \
                                        void *dst, ptrdiff_t len) {                                                    \
        NAME(pack_split)(is_a, src, is, ps, vi, vp, dst, len);                                                         \
    }                                                                                                                  \
    static void NAME(interpret_split_##side)(const void *src, ptrdiff_t src_stride, void *dst, ptrdiff_t dst_stride,   \
                                             ptrdiff_t len, int stream, const falcon_program *prog, void *scratch) {   \
        NAME(interpret_split)(is_a, src, src_stride, dst, dst_stride, len, stream, prog, scratch);                     \
    }
OF_SIDE(a, 1)
OF_SIDE(b, 0)
#undef OF_SIDE
