/* code_impl.h - template: linear-combination programs as straight-line code, see falcon_code_fn.
 *
 * falcon_codes.h, which falcon/codegen/cpu_emit.py writes, has each program as a list of the macros below.  A cache
 * line of every input runs through the program, whose sums stay in registers, into a buffer in L1; RUN bytes of each
 * output are written together, as dozens of streams of single lines are slow.
 */
#undef CODES
#if CODED && KR == 1 && PARTS == 1 && !CAT(D, _EXACT)
#ifndef LINE_VECS
enum { RUN = 512, MOST_OUTPUTS = 64 };
#define LINE_VECS (64 / VEC_BYTES)
#define EACH(text) _Pragma("GCC unroll 4") for (int v_ = 0; v_ < LINE_VECS; v_++) text
#define CODE_INPUT(x, q)                                                                                               \
    VEC x[LINE_VECS];                                                                                                  \
    if (ahead)                                                                                                         \
        __builtin_prefetch(ahead[q] + at);                                                                             \
    EACH(x[v_] = V_LOAD((const T *)(src[q] + at) + v_ * VLEN))
#define CODE_ADD(to, x, y)                                                                                             \
    VEC to[LINE_VECS];                                                                                                 \
    EACH(to[v_] = x[v_] + y[v_])
#define CODE_SUB(to, x, y)                                                                                             \
    VEC to[LINE_VECS];                                                                                                 \
    EACH(to[v_] = x[v_] - y[v_])
/* The coefficient is a power of two: that this may become part of an FMA changes no bit. */
#define CODE_SCALE(to, x, coef)                                                                                        \
    VEC to[LINE_VECS];                                                                                                 \
    EACH(to[v_] = V_SET1((T)(coef)) * x[v_])
#define CODE_STORE(r, x) EACH(V_STORE((T *)(to_ + (r) * RUN) + v_ * VLEN, x[v_]))
#define CODE(n, outputs)                                                                                               \
    _Static_assert((outputs) <= MOST_OUTPUTS, "they are buffered");                                                    \
    INLINE void CAT4(ISA, P, code, n)(const char *const *, const char *const *, ptrdiff_t, char *);                    \
    static void CODE_OF(n)(const falcon_rows *rows) {                                                                  \
        NAME(coded)(CAT4(ISA, P, code, n), rows);                                                                      \
    }                                                                                                                  \
    INLINE void CAT4(ISA, P, code, n)(const char *const *src, const char *const *ahead, ptrdiff_t at, char *to_)
#define CODE_OF(n) CAT4(ISA, P, coded, n)
#endif

_Static_assert(MR * sizeof(P_T) <= RUN && NR * sizeof(P_T) <= RUN, "a step of a strip is written at once");

/* Write `bytes` of each output. */
static void NAME(write_out)(const falcon_rows *r, char *dst, ptrdiff_t bytes, const char *buffer) {
    for (int q = 0; q < r->outputs; q++, dst += r->dst_stride, buffer += RUN)
        for (ptrdiff_t at = 0; at < bytes; at += VEC_BYTES)
            if (r->stream)
                V_STREAM((T *)(dst + at), V_LOAD((const T *)(buffer + at)));
            else
                V_STORE((T *)(dst + at), V_LOAD((const T *)(buffer + at)));
}

INLINE void NAME(coded)(void (*code)(const char *const *, const char *const *, ptrdiff_t, char *),
                        const falcon_rows *r) {
    char buffer[MOST_OUTPUTS * RUN] __attribute__((aligned(64)));
    const ptrdiff_t some = RUN / r->bytes;
    for (ptrdiff_t k0 = 0; k0 < r->steps; k0 += some)
        for (ptrdiff_t i = 0; i < r->panels; i++) {
            const ptrdiff_t n = r->steps - k0 < some ? r->steps - k0 : some;
            char *to = buffer;
            for (ptrdiff_t k = k0; k < k0 + n; k++)
                for (ptrdiff_t at = k * r->src_step + i * r->bytes, end = at + r->bytes; at < end; at += 64, to += 64)
                    code(r->src, r->ahead, at, to);
            NAME(write_out)(r, r->dst + i * r->dst_panel + k0 * r->bytes, n * r->bytes, buffer);
        }
}

#define CODES NAME(codes)
#include "falcon_codes.h"
#else
#define CODES NULL
#endif
