/* combine_impl.h - template: the interpreter of linear-combination programs: inputs and outputs are elements of panels,
 * sums are formed as accumulators.
 *
 * A block of FALCON_BLOCK bytes of every input runs through the whole program
 * before the next block is read, so temporaries stay in L1 and the accumulator
 * in registers; dispatch costs one predictable switch per block and operation.
 */

#undef P_LINE
#define P_LINE ((ptrdiff_t)(64 / sizeof(P_T)))
/* Vectors of a block: 8, or those of a panel's cache line if these are more. */
#undef BLOCK_VECS
#define BLOCK_VECS (P_LINE / VLEN > 8 ? P_LINE / VLEN : 8)
_Static_assert(BLOCK_VECS <= 16, "the loops below are unrolled");

/* Register r of a program, nb vectors of it; nb is a constant. */
INLINE void NAME(fetch)(const int nb, VEC x[BLOCK_VECS], int r, const VEC acc[BLOCK_VECS], const falcon_program *prog,
                        const P_T *src, ptrdiff_t src_stride, const T *temps) {
    const ptrdiff_t tstride = FALCON_BLOCK / (ptrdiff_t)sizeof(T);
    if (r == FALCON_ACC) {
#pragma GCC unroll 16
        for (int v = 0; v < nb; v++)
            x[v] = acc[v];
    } else if (r < prog->n_in) {
#pragma GCC unroll 16
        for (int v = 0; v < nb; v++)
            x[v] = CAT(E, _WIDEN)(CAT(E, _READ)(src + r * src_stride + v * VLEN));
    } else {
#pragma GCC unroll 16
        for (int v = 0; v < nb; v++)
            x[v] = V_LOAD(temps + (r - prog->n_in) * tstride + v * VLEN);
    }
}

/* nb vectors at element offset `at`; nb is a constant in both instances.  flip: what stored values are xored with, see
 * vec_types.h. */
INLINE void NAME(interpret_block)(const int nb, const int flip, const falcon_program *prog, const P_T *src,
                                  ptrdiff_t src_stride, P_T *dst, ptrdiff_t dst_stride, int stream, T *temps) {
    VEC acc[BLOCK_VECS];
#pragma GCC unroll 16
    for (int v = 0; v < nb; v++)
        acc[v] = V_ZERO();
    for (const falcon_op *o = prog->ops, *end = o + prog->n_ops; o < end; o++) {
        VEC x[BLOCK_VECS];
        NAME(fetch)(nb, x, o->a, acc, prog, src, src_stride, temps);
        if (o->op == FALCON_OP_STORE) {
            P_T *d = dst + o->dst * dst_stride;
            if (o->coef != 1.0) {
                const VEC w = V_SET1(COEF(o->coef));
#pragma GCC unroll 16
                for (int v = 0; v < nb; v++)
                    x[v] *= w;
            }
            if (flip) {
#pragma GCC unroll 16
                for (int v = 0; v < nb; v++)
                    x[v] = (VEC)((i32_VEC)x[v] ^ (uint32_t)flip);
            }
            if (stream) {
#pragma GCC unroll 16
                for (int v = 0; v < nb; v++)
                    CAT(E, _STREAMED)(d + v * VLEN, CAT(E, _NARROW)(x[v]));
            } else {
#pragma GCC unroll 16
                for (int v = 0; v < nb; v++)
                    CAT(E, _WRITE)(d + v * VLEN, CAT(E, _NARROW)(x[v]));
            }
            continue;
        }
        if (o->op == FALCON_OP_SCALE) {
            const VEC w = V_SET1(COEF(o->coef));
#pragma GCC unroll 16
            for (int v = 0; v < nb; v++)
                x[v] *= w;
        } else {
            const VEC w = V_SET1(o->op == FALCON_OP_ADD ? (T)1 : (T)-1);
            VEC y[BLOCK_VECS];
            NAME(fetch)(nb, y, o->b, acc, prog, src, src_stride, temps);
#pragma GCC unroll 16
            for (int v = 0; v < nb; v++)
                x[v] = V_FMA(w, y[v], x[v]);
        }
        if (o->dst == FALCON_ACC) {
#pragma GCC unroll 16
            for (int v = 0; v < nb; v++)
                acc[v] = x[v];
        } else {
            T *d = temps + (o->dst - prog->n_in) * (FALCON_BLOCK / (ptrdiff_t)sizeof(T));
#pragma GCC unroll 16
            for (int v = 0; v < nb; v++)
                V_STORE(d + v * VLEN, x[v]);
        }
    }
}

INLINE void NAME(interpret)(const int flip, const P_T *src, ptrdiff_t src_stride, P_T *dst, ptrdiff_t dst_stride,
                            ptrdiff_t len, int stream, const falcon_program *prog, void *scratch) {
    const ptrdiff_t block = (FALCON_BLOCK / (ptrdiff_t)sizeof(T)) < BLOCK_VECS * VLEN
                                ? (FALCON_BLOCK / (ptrdiff_t)sizeof(T))
                                : BLOCK_VECS * VLEN;
    const int per_block = (int)(block / VLEN), per_line = (int)(P_LINE / VLEN);
    ptrdiff_t at = 0;
    for (; at + block <= len; at += block)
        NAME(interpret_block)(per_block, flip, prog, src + at, src_stride, dst + at, dst_stride, stream, scratch);
    for (; at < len; at += P_LINE)
        NAME(interpret_block)(per_line, flip, prog, src + at, src_stride, dst + at, dst_stride, stream, scratch);
}

#if PARTS == 1
static void NAME(interpret_b)(const void *src, ptrdiff_t src_stride, void *dst, ptrdiff_t dst_stride, ptrdiff_t len,
                              int stream, const falcon_program *prog, void *scratch) {
    NAME(interpret)(0, src, src_stride, dst, dst_stride, len, stream, prog, scratch);
}
#endif

#if A_FLIP
static void NAME(interpret_a)(const void *src, ptrdiff_t src_stride, void *dst, ptrdiff_t dst_stride, ptrdiff_t len,
                              int stream, const falcon_program *prog, void *scratch) {
    NAME(interpret)(A_FLIP & 0xff, src, src_stride, dst, dst_stride, len, stream, prog, scratch);
}
#define INTERPRET_A NAME(interpret_a)
#else
#define INTERPRET_A NAME(interpret_b)
#endif
