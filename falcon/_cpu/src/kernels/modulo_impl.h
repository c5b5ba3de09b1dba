/* modulo_impl.h - integers modulo p, before and after the product of their residues: see falcon_modulo; included once
 * by each instruction set.
 *
 * Everything is computed in float64, whose products and sums below 2^53 are exact. */
#define EACH for (ptrdiff_t i = 0; i < n; i++)

/* Load numbers of some type as doubles, s apart: those of 64 bits modulo p, if a double does not hold one of them. */
#define LOAD(T)                                                                                                        \
    static void load_##T(const void *x, ptrdiff_t s, ptrdiff_t n, double p, double *to) {                              \
        const T *v = x;                                                                                                \
        const int is_signed = (T) - 1 < (T)1, is_long = sizeof(T) == 8 && (T)0.5 == 0;                                 \
        uint64_t large = 0;                                                                                            \
        if (is_long)                                                                                                   \
            EACH large |= ((uint64_t)v[i * s] + ((uint64_t)is_signed << 51)) >> 52;                                    \
        if (large)                                                                                                     \
            EACH to[i] =                                                                                               \
                is_signed ? (double)((int64_t)v[i * s] % (int64_t)p) : (double)((uint64_t)v[i * s] % (uint64_t)p);     \
        else                                                                                                           \
            EACH to[i] = (double)v[i * s];                                                                             \
    }
/* Store integers of less than 2^31. */
#define STORE(T)                                                                                                       \
    static void store_##T(const double *x, ptrdiff_t n, void *to, ptrdiff_t s) {                                       \
        EACH((T *)to)[i * s] = (T)(int32_t)x[i];                                                                       \
    }
#define LOADER(T) load_##T,
#define STORER(T) store_##T,
FALCON_NUMBERS(LOAD)
FALCON_NUMBERS(STORE)
static void (*const loaders[])(const void *, ptrdiff_t, ptrdiff_t, double, double *) = {FALCON_NUMBERS(LOADER)};
static void (*const storers[])(const double *, ptrdiff_t, void *, ptrdiff_t) = {FALCON_NUMBERS(STORER)};

/* x minus a multiple of p: at most p/2 + 2 in magnitude for |x| < 2^53, at most p/2 for |x| < 2^51.  Two additions,
 * which every instruction set has, round numbers of less than 2^51 to the nearest integer. */
static inline double mod_p(double x, double p, double inverse) {
    return x - p * (x * inverse + 0x1.8p52 - 0x1.8p52);
}

static void modulo(const falcon_modulo *m, ptrdiff_t line, ptrdiff_t first, ptrdiff_t n) {
    const double p = m->p, inverse = 1 / p, base = m->base, per_base = 1 / base;
    const falcon_numbers *x = m->numbers, *out = x + m->terms, *end = out + m->parts;
    double sum[FALCON_MODULO_RUN], term[FALCON_MODULO_RUN];
    for (; x < out; x++) {
        const double high = (double)((int64_t)x->weight >> 16), low = x->weight - 65536 * high;
        double *to = x == m->numbers ? sum : term;
        loaders[x->number](x->start + line * x->line_stride + first * x->stride, x->stride / x->bytes, n, p, to);
        EACH to[i] = mod_p(to[i], p, inverse);
        if (x->weight != 1) /* then some more than 2^47: all terms are below 2^53 */
            EACH to[i] = mod_p(to[i] * high, p, inverse) * 65536 + to[i] * low;
        if (to == term)
            EACH sum[i] += term[i];
    }
    if (m->terms > 1)
        EACH sum[i] = mod_p(sum[i], p, inverse);
    EACH sum[i] = mod_p(sum[i], p, inverse);
    if (base == 0)
        EACH sum[i] += sum[i] < 0 ? p : 0;
    for (; out < end; out++) {
        const int is_last = out + 1 == end;
        EACH {
            const double high = is_last ? 0 : sum[i] * per_base + 0x1.8p52 - 0x1.8p52;
            term[i] = sum[i] - base * high;
            sum[i] = high;
        }
        storers[out->number](term, n, out->start + line * out->line_stride + first * out->stride,
                             out->stride / out->bytes);
    }
}
#undef EACH
#undef LOAD
#undef STORE
#undef LOADER
#undef STORER
