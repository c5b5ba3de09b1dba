/* generic_bf16.c - bfloat16 in portable C: slow, correct, and what faster kernels are compared with.
 *
 * The forms of an element are those of a dot-product instruction (kernel.h): panels hold pairs of steps of K in
 * bfloat16, products are accumulated in float32, and a scheme's sums are formed in float32 and rounded once.
 * Compiled with baseline flags.
 */
#include "kernel.h"
#include <string.h>

enum { MR = 4, NR = 8, KR = 2, BLOCK = FALCON_BLOCK / sizeof(float) };
typedef uint16_t bf16;

static inline float widen(bf16 x) {
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* To nearest, ties to even; NaN stays NaN. */
static inline bf16 narrow(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (f != f)
        return (bf16)(bits >> 16 | 0x40);
    return (bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define PACK(name, T, width, convert)                                                                                  \
    static void name(const void *src_, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp, void *dst_,             \
                     ptrdiff_t len) {                                                                                  \
        const bf16 *src = src_;                                                                                        \
        T *dst = dst_;                                                                                                 \
        for (ptrdiff_t p = 0; p < len; p++)                                                                            \
            for (ptrdiff_t i = 0; i < width; i++)                                                                      \
                dst[(p / KR * width + i) * KR + p % KR] = i < vi && p < vp ? convert(src[i * is + p * ps]) : 0;        \
    }
PACK(pack_a, bf16, MR, )
PACK(pack_b, bf16, NR, )
PACK(load_a, float, MR, widen)
PACK(load_b, float, NR, widen)

static void micro_kernel(ptrdiff_t kc, const void *a_, const void *b_, ptrdiff_t ldb, void *h_, int accumulate,
                         const char *pf, ptrdiff_t pf_step) {
    (void)pf, (void)pf_step;
    const bf16 *a = a_, *b = b_;
    float *h = h_, c[MR * NR] = {0};
    if (accumulate)
        memcpy(c, h, sizeof c);
    for (ptrdiff_t p = 0; p < kc; p += KR, a += MR * KR, b += ldb)
        for (int i = 0; i < MR; i++)
            for (int j = 0; j < NR; j++)
                for (int q = 0; q < KR; q++)
                    c[i * NR + j] += widen(a[i * KR + q]) * widen(b[j * KR + q]);
    memcpy(h, c, sizeof c);
}
static const falcon_ukr_fn variants[MR] = {micro_kernel, micro_kernel, micro_kernel, micro_kernel};

/* `some` elements at element offset `at`, through the whole program. */
static void interpret_block(const falcon_program *prog, const float *src, ptrdiff_t src_stride, bf16 *dst,
                            ptrdiff_t dst_stride, ptrdiff_t some, float *temps) {
    float acc[BLOCK] = {0};
    for (const falcon_op *o = prog->ops, *end = o + prog->n_ops; o < end; o++) {
        const float *reg[2];
        for (int side = 0; side < 2; side++) {
            const int r = side ? o->b : o->a;
            reg[side] = r == FALCON_ACC  ? acc
                        : r < prog->n_in ? src + r * src_stride
                                         : temps + (r - prog->n_in) * BLOCK;
        }
        const float w = o->op == FALCON_OP_ADD ? 1 : o->op == FALCON_OP_SUB ? -1 : (float)o->coef;
        float *to = o->dst == FALCON_ACC ? acc : temps + (o->dst - prog->n_in) * BLOCK;
        for (ptrdiff_t i = 0; i < some; i++) {
            if (o->op == FALCON_OP_STORE)
                dst[o->dst * dst_stride + i] = narrow(w * reg[0][i]);
            else
                to[i] = o->op == FALCON_OP_SCALE ? w * reg[0][i] : reg[0][i] + w * reg[1][i];
        }
    }
}

static void interpret(const void *src_, ptrdiff_t src_stride, void *dst_, ptrdiff_t dst_stride, ptrdiff_t len,
                      int stream, const falcon_program *prog, void *scratch) {
    (void)stream;
    const float *src = src_;
    bf16 *dst = dst_;
    for (ptrdiff_t at = 0; at < len; at += BLOCK)
        interpret_block(prog, src + at, src_stride, dst + at, dst_stride, len - at < BLOCK ? len - at : BLOCK, scratch);
}

static void scatter(void *dst_, const void *ct_, const void *h_, double coef) {
    const float *ct = ct_, *h = h_, w = (float)coef;
    float *dst = dst_;
    for (int i = 0; i < MR * NR; i++)
        dst[i] = (ct ? ct[i] : 0) + w * h[i];
}

static void scale_strip(void *strip, ptrdiff_t steps, ptrdiff_t width, const double *scale, ptrdiff_t lines) {
    float *x = strip;
    for (ptrdiff_t p = 0; p < steps; p += KR, x += width * KR)
        for (ptrdiff_t i = 0; i < lines * KR; i++)
            x[i] *= (float)scale[i / KR];
}

static void unscale(void *tile, ptrdiff_t n_rows, ptrdiff_t n_columns, const double *rows, const double *columns) {
    float *x = tile;
    for (ptrdiff_t i = 0; i < n_rows; i++)
        for (ptrdiff_t j = 0; j < n_columns; j++) {
            const double both = (rows ? rows[i] : 1) * (columns ? columns[j] : 1); /* 0: a line of zeros */
            x[i * NR + j] = both != 0 ? (float)((double)x[i * NR + j] / both) : 0;
        }
}

/* See falcon_write_fn; x is what would be written without beta*C, in C's own form. */
#define WRITE(name, T, widen, narrow)                                                                                  \
    static void name(const void *ct_, const void *h_, double coef, double alpha_, double beta_, void *c_,              \
                     ptrdiff_t rs, ptrdiff_t cs, ptrdiff_t rows, ptrdiff_t cols, int stream, void *watch) {            \
        (void)stream;                                                                                                  \
        const float *ct = ct_, *h = h_, w = (float)coef, alpha = (float)alpha_, beta = (float)beta_;                   \
        for (ptrdiff_t i = 0; i < rows; i++)                                                                           \
            for (ptrdiff_t j = 0; j < cols; j++) {                                                                     \
                T *c = (T *)c_ + i * rs + j * cs;                                                                      \
                const float x = alpha * ((ct ? ct[i * NR + j] : 0) + w * h[i * NR + j]);                               \
                *(float *)watch += widen(narrow(x)) * 0;                                                               \
                *c = narrow(beta == 0 ? x : x + beta * widen(*c));                                                     \
            }                                                                                                          \
    }
WRITE(write_elem, bf16, widen, narrow)
WRITE(write_acc, float, , )

#define SCALE(name, T, widen, narrow)                                                                                  \
    static void name(void *c, ptrdiff_t s, ptrdiff_t n, double beta) {                                                 \
        for (ptrdiff_t i = 0; i < n; i++)                                                                              \
            ((T *)c)[i * s] = beta == 0 ? 0 : narrow((float)beta * widen(((T *)c)[i * s]));                            \
    }
SCALE(scale_elem, bf16, widen, narrow)
SCALE(scale_acc, float, , )

static void dot(ptrdiff_t lines, ptrdiff_t len, const void *mat, ptrdiff_t s, const void *x, void *y) {
    for (ptrdiff_t i = 0; i < lines; i++)
        for (ptrdiff_t k = 0; k < len; k++)
            ((float *)y)[i] += widen(((const bf16 *)mat)[i * s + k]) * widen(((const bf16 *)x)[k]);
}

static void axpy(ptrdiff_t lines, ptrdiff_t len, const void *mat, ptrdiff_t s, const void *x, void *y) {
    for (ptrdiff_t k = 0; k < len; k++)
        for (ptrdiff_t i = 0; i < lines; i++)
            ((float *)y)[i] += widen(((const bf16 *)mat)[k * s + i]) * widen(((const bf16 *)x)[k]);
}

static inline double square(const void *mat, ptrdiff_t at) {
    const float x = widen(((const bf16 *)mat)[at]);
    return (double)(x * x);
}

static void norm_dot(ptrdiff_t lines, ptrdiff_t len, const void *mat, ptrdiff_t s, double *sums) {
    for (ptrdiff_t i = 0; i < lines; i++)
        for (ptrdiff_t k = 0; k < len; k++)
            sums[i] += square(mat, i * s + k);
}

static void norm_axpy(ptrdiff_t lines, ptrdiff_t len, const void *mat, ptrdiff_t s, double *sums) {
    for (ptrdiff_t k = 0; k < len; k++)
        for (ptrdiff_t i = 0; i < lines; i++)
            sums[i] += square(mat, k * s + i);
}

static int tripped(const void *watch) {
    return *(const float *)watch != 0;
}

static void fence(void) {}

const falcon_kernel falcon_kernel_generic_bf16 = {
    .name = "generic_bf16_ukr_4x8",
    .isa = FALCON_GENERIC,
    .dtype = FALCON_BF16,
    .elem = sizeof(bf16),
    .sum = sizeof(float),
    .panel = sizeof(bf16),
    .acc = sizeof(float),
    .acc_dtype = FALCON_F32,
    .mr = MR,
    .nr = NR,
    .vlen = NR,
    .kr = KR,
    .k_grain = 32, /* a whole line of bfloat16 */
    .kc = 256,
    .tile = {{32, 16, 20, 25}},
    .ukr = variants,
    .pack_a = pack_a,
    .pack_b = pack_b,
    .load_a = load_a,
    .load_b = load_b,
    .interpret = interpret,
    .scatter = scatter,
    .scale_strip = scale_strip,
    .unscale = unscale,
    .write = {write_elem, write_acc},
    .scale = {scale_elem, scale_acc},
    .tripped = tripped,
    .fence = fence,
    .dot = dot,
    .axpy = axpy,
    .norm_dot = norm_dot,
    .norm_axpy = norm_axpy,
    .least_square = 0x1p-106, /* as of float32, in which squares are formed */
};
