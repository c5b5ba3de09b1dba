/* residue_impl.h - integers modulo p as the parts that kernels multiply, and their sums back; included once by each
 * instruction set.  See falcon_residues_fn and falcon_reduce_fn.
 *
 * Everything is computed in float64, whose products and sums below 2^53 are exact.  ROUND rounds numbers of less than
 * 2^51 to the nearest integer, by two additions that every instruction set has. */
enum { RUN = 512 }; /* elements at a time: they stay in L1 */
#define MAGIC 0x1.8p52
#define ROUND(x) ((x) + MAGIC - MAGIC)

/* x minus a multiple of p: at most p/2 + 2 in magnitude for |x| < 2^53, at most p/2 for |x| < 2^51. */
static inline double mod_p(double x, double p, double inverse) {
    return x - p * ROUND(x * inverse);
}

/* x * y modulo p, both of 31 bits, y >= 0. */
static inline double times_mod_p(double x, double y, double p, double inverse) {
    const double high = (double)((int64_t)y >> 16), low = y - 65536 * high;
    return mod_p(mod_p(x * high, p, inverse) * 65536 + x * low, p, inverse);
}

#define LOAD(T)                                                                                                        \
    {                                                                                                                  \
        const T *v = x;                                                                                                \
        if (s == 1)                                                                                                    \
            for (ptrdiff_t i = 0; i < n; i++)                                                                          \
                to[i] = (double)v[i];                                                                                  \
        else                                                                                                           \
            for (ptrdiff_t i = 0; i < n; i++)                                                                          \
                to[i] = (double)v[i * s];                                                                              \
    }                                                                                                                  \
    break;
/* Integers of 64 bits: those that a double does not hold are divided by p, all others need not be. */
#define LOAD_LONG(T, U, half)                                                                                          \
    {                                                                                                                  \
        const T *v = x;                                                                                                \
        uint64_t large = 0;                                                                                            \
        for (ptrdiff_t i = 0; i < n; i++)                                                                              \
            large |= ((uint64_t)v[i * s] + half) >> 52;                                                                \
        if (large) {                                                                                                   \
            for (ptrdiff_t i = 0; i < n; i++)                                                                          \
                to[i] = (double)(v[i * s] % (T)p);                                                                     \
            break;                                                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    LOAD(T)

/* Numbers of some enum falcon_number as doubles, those of 64 bits perhaps less a multiple of p. */
static void load_numbers(const void *x, int number, ptrdiff_t s, ptrdiff_t n, double p, double *to) {
    switch (number) {
    case FALCON_INT8:
        LOAD(int8_t)
    case FALCON_UINT8:
        LOAD(uint8_t)
    case FALCON_INT16:
        LOAD(int16_t)
    case FALCON_UINT16:
        LOAD(uint16_t)
    case FALCON_INT32:
        LOAD(int32_t)
    case FALCON_UINT32:
        LOAD(uint32_t)
    case FALCON_INT64:
        LOAD_LONG(int64_t, uint64_t, ((uint64_t)1 << 51))
    case FALCON_UINT64:
        LOAD_LONG(uint64_t, uint64_t, 0)
    case FALCON_FLOAT:
        LOAD(float)
    case FALCON_DOUBLE:
        LOAD(double)
    }
}

#define STORE(T, via)                                                                                                  \
    {                                                                                                                  \
        T *v = to;                                                                                                     \
        if (s == 1)                                                                                                    \
            for (ptrdiff_t i = 0; i < n; i++)                                                                          \
                v[i] = (T)(via)x[i];                                                                                   \
        else                                                                                                           \
            for (ptrdiff_t i = 0; i < n; i++)                                                                          \
                v[i * s] = (T)(via)x[i];                                                                               \
    }                                                                                                                  \
    break;

/* Integers of less than 2^31 as numbers of some enum falcon_number. */
static void store_numbers(const double *x, ptrdiff_t n, void *to, int number, ptrdiff_t s) {
    switch (number) {
    case FALCON_INT8:
    case FALCON_UINT8:
        STORE(int8_t, int32_t)
    case FALCON_INT16:
    case FALCON_UINT16:
        STORE(int16_t, int32_t)
    case FALCON_INT32:
    case FALCON_UINT32:
        STORE(int32_t, int32_t)
    case FALCON_INT64:
    case FALCON_UINT64:
        STORE(int64_t, int32_t)
    case FALCON_FLOAT:
        STORE(float, float)
    case FALCON_DOUBLE:
        STORE(double, double)
    }
}

static void residues(const falcon_modulus *m, const void *x, int number, ptrdiff_t s, ptrdiff_t n, void *to,
                     int to_number, ptrdiff_t part_stride) {
    const double p = m->p, inverse = 1 / p, base = m->base[0], per_base = 1 / base;
    const ptrdiff_t from_bytes = s * FALCON_NUMBER_BYTES(number), to_bytes = FALCON_NUMBER_BYTES(to_number);
    double r[RUN], low[RUN];
    for (ptrdiff_t i0 = 0; i0 < n; i0 += RUN) {
        const ptrdiff_t some = n - i0 < RUN ? n - i0 : RUN;
        load_numbers((const char *)x + i0 * from_bytes, number, s, some, p, r);
        for (ptrdiff_t i = 0; i < some; i++)
            r[i] = mod_p(mod_p(r[i], p, inverse), p, inverse);
        char *part = (char *)to + i0 * to_bytes;
        for (int q = 1; q < m->parts[0]; q++, part += part_stride * to_bytes) {
            for (ptrdiff_t i = 0; i < some; i++) {
                const double high = ROUND(r[i] * per_base);
                low[i] = r[i] - base * high;
                r[i] = high;
            }
            store_numbers(low, some, part, to_number, 1);
        }
        store_numbers(r, some, part, to_number, 1);
    }
}

static void reduce_sums(const falcon_modulus *m, const void *sums, int number, ptrdiff_t a_step, ptrdiff_t b_step,
                        ptrdiff_t n, const void *c, int c_number, ptrdiff_t cs, void *out, int out_number,
                        ptrdiff_t os) {
    const double p = m->p, inverse = 1 / p;
    const ptrdiff_t bytes = FALCON_NUMBER_BYTES(number);
    double whole[RUN], of_a[RUN], term[RUN];
    for (ptrdiff_t i0 = 0; i0 < n; i0 += RUN) {
        const ptrdiff_t some = n - i0 < RUN ? n - i0 : RUN;
        for (int ib = m->parts[1] - 1; ib >= 0; ib--) {
            double *to = ib == m->parts[1] - 1 ? whole : of_a;
            for (int ia = m->parts[0] - 1; ia >= 0; ia--) {
                const char *from = (const char *)sums + (ia * a_step + ib * b_step + i0) * bytes;
                const int first = ia == m->parts[0] - 1;
                load_numbers(from, number, 1, some, p, first ? to : term);
                for (ptrdiff_t i = 0; i < some; i++)
                    to[i] = first ? mod_p(to[i], p, inverse)
                                  : mod_p(to[i] * m->base[0] + mod_p(term[i], p, inverse), p, inverse);
            }
            for (ptrdiff_t i = 0; i < some && to == of_a; i++)
                whole[i] = mod_p(whole[i] * m->base[1] + of_a[i], p, inverse);
        }
        for (ptrdiff_t i = 0; i < some && m->alpha != 1; i++)
            whole[i] = times_mod_p(whole[i], m->alpha, p, inverse);
        if (c) {
            load_numbers((const char *)c + i0 * cs * FALCON_NUMBER_BYTES(c_number), c_number, cs, some, p, term);
            for (ptrdiff_t i = 0; i < some; i++) {
                const double x = mod_p(mod_p(term[i], p, inverse), p, inverse);
                whole[i] += m->beta == 1 ? x : times_mod_p(x, m->beta, p, inverse);
            }
        }
        for (ptrdiff_t i = 0; i < some; i++) {
            const double x = mod_p(whole[i], p, inverse);
            whole[i] = x < 0 ? x + p : x;
        }
        store_numbers(whole, some, (char *)out + i0 * os * FALCON_NUMBER_BYTES(out_number), out_number, os);
    }
}
#undef MAGIC
#undef ROUND
#undef LOAD
#undef LOAD_LONG
#undef STORE
