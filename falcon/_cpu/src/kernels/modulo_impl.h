/* modulo_impl.h - integers modulo p, before and after the product of their residues: see falcon_modulo; included once
 * by each instruction set.
 *
 * Residues are computed in float64, whose products and sums below 2^53 are exact.  A sum times weights is computed
 * modulo 2^64, and so is what it exceeds p by: a multiple of p that follows from the sum in float64, divided by p. */
#define EACH for (ptrdiff_t i = 0; i < n; i++)

/* Two additions, which every instruction set has, round numbers of less than 2^51 to the nearest integer. */
static inline double nearest(double x) {
    return x + 0x1.8p52 - 0x1.8p52;
}

static inline int64_t whole(double x) {
    const double moved = x + 0x1.8p52;
    int64_t bits;
    memcpy(&bits, &moved, 8);
    return bits - 0x4338000000000000;
}

static inline double from_low(uint64_t x) { /* of less than 52 bits */
    double moved;
    x |= 0x4330000000000000;
    memcpy(&moved, &x, 8);
    return moved - 0x1p52;
}

/* x minus a multiple of m: at most m/2 + 2 in magnitude for |x| < 2^53, at most m/2 for |x| < 2^51. */
static inline double mod(double x, double m, double inverse) {
    return x - m * nearest(x * inverse);
}

/* Load numbers of some type as doubles, s apart; of one of 64 bits a digit, at place 0, 1 or 2, in the base 2^21, or
 * if all are below 2^31 in magnitude, themselves.  Returns whether there are more digits. */
#define LOAD(T)                                                                                                        \
    static int load_##T(const void *x, ptrdiff_t s, ptrdiff_t n, int place, double *to) {                              \
        const T *v = x;                                                                                                \
        const uint64_t least = (T) - 1 < (T)1 ? (uint64_t)1 << 63 : 0;                                                 \
        uint64_t large = 0;                                                                                            \
        if (sizeof(T) == 8 && (T)0.5 == 0)                                                                             \
            EACH large |= ((uint64_t)v[i * s] + (least >> 32)) >> 32;                                                  \
        if (large == 0)                                                                                                \
            EACH to[i] = (double)v[i * s];                                                                             \
        else if (place < 2)                                                                                            \
            EACH to[i] = from_low((uint64_t)v[i * s] >> 21 * place & 0x1fffff);                                        \
        else                                                                                                           \
            EACH to[i] = from_low(((uint64_t)v[i * s] ^ least) >> 42) - (double)(least >> 42);                         \
        return large != 0;                                                                                             \
    }
/* Store integers, of less than 2^31 those that are doubles. */
#define STORE(T)                                                                                                       \
    static void store_##T(const double *x, ptrdiff_t n, void *to, ptrdiff_t s) {                                       \
        EACH((T *)to)[i * s] = (T)(int32_t)x[i];                                                                       \
    }                                                                                                                  \
    static void write_##T(const int64_t *x, ptrdiff_t n, void *to, ptrdiff_t s) {                                      \
        EACH((T *)to)[i * s] = (T)x[i];                                                                                \
    }
#define LOADER(T) load_##T,
#define STORER(T) store_##T,
#define WRITER(T) write_##T,
FALCON_NUMBERS(LOAD)
FALCON_NUMBERS(STORE)
static int (*const loaders[])(const void *, ptrdiff_t, ptrdiff_t, int, double *) = {FALCON_NUMBERS(LOADER)};
static void (*const storers[])(const double *, ptrdiff_t, void *, ptrdiff_t) = {FALCON_NUMBERS(STORER)};
static void (*const writers[])(const int64_t *, ptrdiff_t, void *, ptrdiff_t) = {FALCON_NUMBERS(WRITER)};

static void modulo(const falcon_modulo *m, ptrdiff_t line, ptrdiff_t first, ptrdiff_t n) {
    const falcon_numbers *x = m->numbers, *out = x + m->terms, *end = out + m->parts;
    const int64_t p = m->p;
    const double per_p = p ? 1 / (double)p : 0, carry = (double)m->carry * per_p;
    double term[FALCON_MODULO_RUN], ratio[FALCON_MODULO_RUN], turns[FALCON_MODULO_RUN];
    uint64_t sum[FALCON_MODULO_RUN];
    int is_short = 0, is_first = 1; /* is_short: a single number of less than 2^53, in ratio when it is reduced */
    for (; x < out; x++) {
        const void *at = x->start + line * x->line_stride + first * x->stride;
        const double by = x->modulus, inverse = 1 / by;
        for (int place = 0, more = 1; place < 3 && more; place++) {
            const double weight = (double)x->weights[place] * per_p;
            more = loaders[x->number](at, x->stride / x->bytes, n, place, term);
            is_short = m->terms == 1 && !more && x->weights[0] == 1 && (by == 0 || x->modulus == p);
            if (is_short) {
                EACH ratio[i] = p ? mod(term[i], (double)p, per_p) : term[i];
                if (p && x->number >= FALCON_FLOATS)
                    EACH ratio[i] = mod(ratio[i], (double)p, per_p);
                break;
            }
            if (is_first) {
                EACH sum[i] = 0, ratio[i] = turns[i] = 0;
                is_first = 0;
            }
            if (by != 0 && x->number >= FALCON_FLOATS)
                EACH term[i] = mod(term[i], by, inverse);
            if (by != 0)
                EACH {
                    term[i] = mod(term[i] * x->factor, by, inverse);
                    turns[i] += term[i] * inverse;
                }
            EACH {
                sum[i] += (uint64_t)whole(term[i]) * (uint64_t)x->weights[place];
                ratio[i] += term[i] * weight;
            }
        }
    }
    if (!is_short)
        EACH {
            const double turn = nearest(turns[i]);
            sum[i] -= (uint64_t)whole(turn) * (uint64_t)m->carry;
            sum[i] -= (uint64_t)whole(ratio[i] - turn * carry) * (uint64_t)p;
        }
    for (; out < end; out++) {
        void *at = out->start + line * out->line_stride + first * out->stride;
        const double by = out->modulus, inverse = 1 / by;
        if (by == 0) {
            if (is_short)
                EACH sum[i] = (uint64_t)whole(ratio[i]);
            EACH sum[i] += (int64_t)sum[i] < 0 ? (uint64_t)p : 0;
            writers[out->number]((const int64_t *)sum, n, at, out->stride / out->bytes);
            continue;
        }
        if (is_short && out->modulus == p)
            EACH term[i] = ratio[i];
        else if (is_short)
            EACH term[i] = mod(ratio[i], by, inverse);
        else {
            const uint64_t least = m->is_unsigned ? 0 : (uint64_t)1 << 63;
            const double low = (double)(least >> 32), high = mod(0x1p32, by, inverse);
            EACH {
                const double upper = from_low((sum[i] ^ least) >> 32) - low;
                term[i] = mod(mod(upper * high + from_low(sum[i] & 0xffffffff), by, inverse), by, inverse);
            }
        }
        storers[out->number](term, n, at, out->stride / out->bytes);
    }
}
#undef EACH
#undef LOAD
#undef STORE
#undef LOADER
#undef STORER
#undef WRITER
