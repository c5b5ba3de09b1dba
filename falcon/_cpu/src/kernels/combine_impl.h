/* combine_impl.h - template: the interpreter of linear-combination programs,
 * and the kernel's entry for the registration table.
 *
 * A block of FALCON_BLOCK bytes of every input runs through the whole program
 * before the next block is read, so temporaries stay in L1 and the accumulator
 * in registers; dispatch costs one predictable switch per block and operation.
 */

/* nb vectors at element offset `at`; nb is a constant in both instances. */
INLINE void NAME(interpret_block)(const int nb, const falcon_program *prog, const T *src, ptrdiff_t src_stride, T *dst,
                                  ptrdiff_t dst_stride, int stream, T *temps) {
    const ptrdiff_t tstride = FALCON_BLOCK / (ptrdiff_t)sizeof(T);
    VEC acc[8];
#pragma GCC unroll 8
    for (int v = 0; v < nb; v++)
        acc[v] = V_ZERO();
    for (const falcon_op *o = prog->ops, *end = o + prog->n_ops; o < end; o++) {
        VEC x[8];
        if (o->a == FALCON_ACC) {
#pragma GCC unroll 8
            for (int v = 0; v < nb; v++)
                x[v] = acc[v];
        } else {
            const T *a = o->a < prog->n_in ? src + o->a * src_stride : temps + (o->a - prog->n_in) * tstride;
#pragma GCC unroll 8
            for (int v = 0; v < nb; v++)
                x[v] = V_LOAD(a + v * VLEN);
        }
        if (o->op == FALCON_OP_STORE) {
            T *d = dst + o->dst * dst_stride;
            if (o->coef != 1.0) {
                const VEC w = V_SET1((T)o->coef);
#pragma GCC unroll 8
                for (int v = 0; v < nb; v++)
                    x[v] *= w;
            }
            if (stream) {
#pragma GCC unroll 8
                for (int v = 0; v < nb; v++)
                    V_STREAM(d + v * VLEN, x[v]);
            } else {
#pragma GCC unroll 8
                for (int v = 0; v < nb; v++)
                    V_STORE(d + v * VLEN, x[v]);
            }
            continue;
        }
        if (o->op == FALCON_OP_SCALE) {
            const VEC w = V_SET1((T)o->coef);
#pragma GCC unroll 8
            for (int v = 0; v < nb; v++)
                x[v] *= w;
        } else if (o->b == FALCON_ACC) {
            const VEC w = V_SET1(o->op == FALCON_OP_ADD ? (T)1 : o->op == FALCON_OP_SUB ? (T)-1 : (T)o->coef);
#pragma GCC unroll 8
            for (int v = 0; v < nb; v++)
                x[v] = V_FMA(w, acc[v], x[v]);
        } else {
            const T *b = o->b < prog->n_in ? src + o->b * src_stride : temps + (o->b - prog->n_in) * tstride;
            const VEC w = V_SET1(o->op == FALCON_OP_ADD ? (T)1 : o->op == FALCON_OP_SUB ? (T)-1 : (T)o->coef);
#pragma GCC unroll 8
            for (int v = 0; v < nb; v++)
                x[v] = V_FMA(w, V_LOAD(b + v * VLEN), x[v]);
        }
        if (o->dst == FALCON_ACC) {
#pragma GCC unroll 8
            for (int v = 0; v < nb; v++)
                acc[v] = x[v];
        } else {
            T *d = temps + (o->dst - prog->n_in) * tstride;
#pragma GCC unroll 8
            for (int v = 0; v < nb; v++)
                V_STORE(d + v * VLEN, x[v]);
        }
    }
}

static void NAME(interpret)(const void *src_, ptrdiff_t src_stride, void *dst_, ptrdiff_t dst_stride, ptrdiff_t len,
                            int stream, const falcon_program *prog, void *scratch) {
    const T *src = src_;
    T *dst = dst_;
    const ptrdiff_t block =
        (FALCON_BLOCK / (ptrdiff_t)sizeof(T)) < 8 * VLEN ? (FALCON_BLOCK / (ptrdiff_t)sizeof(T)) : 8 * VLEN;
    ptrdiff_t at = 0;
    for (; at + block <= len; at += block)
        NAME(interpret_block)((int)(block / VLEN), prog, src + at, src_stride, dst + at, dst_stride, stream, scratch);
    for (; at < len; at += LINE)
        NAME(interpret_block)((int)(LINE / VLEN), prog, src + at, src_stride, dst + at, dst_stride, stream, scratch);
}

static void NAME(fence)(void) {
    V_FENCE();
}

#define STR_(x) #x
#define STR(x) STR_(x)
const falcon_kernel CAT3(falcon_kernel, ISA, D) = {
    .name = STR(ISA) "_" STR(D) "_ukr_" STR(MR) "x" STR(NR),
    .isa = ISA_ID,
    .dtype = DTYPE_ID,
    .elem = sizeof(T),
    .sum = sizeof(T),
    .panel = sizeof(T),
    .acc = sizeof(T),
    .acc_dtype = DTYPE_ID,
    .mr = MR,
    .nr = NR,
    .vlen = VLEN,
    .kr = 1,
    .k_grain = 16, /* a whole line of float32 */
    .kc = KC,
    .in_place = 1,
    .b_kept = B_KEPT,
    .tile = {A_KEPT_TILE, B_KEPT_TILE},
    .ukr = NAME(ukr_table),
    .pack_a = NAME(pack_a),
    .pack_b = NAME(pack_b),
    .load_a = NAME(pack_a),
    .load_b = NAME(pack_b),
    .interpret = NAME(interpret),
    .scatter = NAME(scatter),
    .scale_strip = NAME(scale_strip),
    .unscale = NAME(unscale),
    .write = {NAME(write), NAME(write)},
    .scale = {NAME(scale), NAME(scale)},
    .tripped = NAME(tripped),
    .fence = NAME(fence),
    .dot = NAME(dot),
    .axpy = NAME(axpy),
    .norm_dot = NAME(norm_dot),
    .norm_axpy = NAME(norm_axpy),
    .least_square = sizeof(T) == 4 ? 0x1p-106 : 0x1p-1002, /* the least normal number times 2^20 */
};
#undef STR_
#undef STR
#undef CAT_
#undef CAT
#undef CAT3_
#undef CAT3
#undef NAME
#undef VEC
#undef IVEC
#undef VLEN
#undef V_ZERO
#undef V_LOAD
#undef V_STORE
#undef V_STREAM
#undef V_SET1
#undef V_FMA
#undef NV
#undef INLINE
#undef LINE
#undef PACK_AHEAD
#undef WATCH
#undef UKR
#undef UKRS
#undef UKR_NAMES
#undef D
#undef T
#undef MR
#undef NR
#undef NR_VECS
#undef KC
#undef DTYPE_ID
#undef A_AHEAD
