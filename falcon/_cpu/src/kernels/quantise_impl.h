/* quantise_impl.h - lines of floats as 8-bit integers and a scale each, and their integer products as floats again: see
 * falcon_bytes; and the largest elements of the rows of C.  Included once by each instruction set.
 *
 * Magnitudes are compared as bits, so that NaN is larger than all numbers.  An addition rounds to the nearest integer,
 * which is then the low byte of the sum. */
enum { LANES = 16 };
#define EACH for (ptrdiff_t i = 0; i < n; i++)
#define QUANTISE(T, BITS, ONE_HALF)                                                                                    \
    static inline BITS magnitude_##T(T x) {                                                                            \
        BITS b;                                                                                                        \
        memcpy(&b, &x, sizeof b);                                                                                      \
        return b & (BITS) ~((BITS)1 << (8 * sizeof b - 1));                                                            \
    }                                                                                                                  \
    /* x is rounded to *q; returns what is left. */                                                                    \
    static inline T rounded_##T(T x, int8_t *q) {                                                                      \
        const T t = x + ONE_HALF;                                                                                      \
        BITS b;                                                                                                        \
        memcpy(&b, &t, sizeof b);                                                                                      \
        *q = (int8_t)b;                                                                                                \
        return x - (t - ONE_HALF);                                                                                     \
    }                                                                                                                  \
    static inline double largest_##T(BITS b) {                                                                         \
        T x;                                                                                                           \
        memcpy(&x, &b, sizeof b);                                                                                      \
        return x;                                                                                                      \
    }                                                                                                                  \
    static inline __attribute__((always_inline)) void some_##T(ptrdiff_t n, const T *x, T by, int8_t *to,              \
                                                               int32_t *squares, T *along, T *mean) {                  \
        int32_t sum = 0;                                                                                               \
        EACH {                                                                                                         \
            int8_t q;                                                                                                  \
            const T y = x[i] * by, left = rounded_##T(y, &q);                                                          \
            to[i] = q;                                                                                                 \
            sum += q * q;                                                                                              \
            along[i] += left * y;                                                                                      \
            mean[i] += left;                                                                                           \
        }                                                                                                              \
        *squares += sum;                                                                                               \
    }                                                                                                                  \
    /* A line that is contiguous along K: sums in LANES. */                                                            \
    static void line_##T(const T *x, ptrdiff_t n, int8_t *to, double *found, ptrdiff_t step) {                         \
        BITS most = 0;                                                                                                 \
        EACH {                                                                                                         \
            const BITS b = magnitude_##T(x[i]);                                                                        \
            most = b > most ? b : most;                                                                                \
        }                                                                                                              \
        const double peak = largest_##T(most);                                                                         \
        const T by = (T)(peak > 0 ? FALCON_LARGEST_BYTE / peak : 0);                                                   \
        int32_t squares = 0;                                                                                           \
        T along[LANES] = {0}, mean[LANES] = {0};                                                                       \
        for (ptrdiff_t k = 0; k < n; k += LANES) {                                                                     \
            const ptrdiff_t some = n - k;                                                                              \
            if (some >= LANES)                                                                                         \
                some_##T(LANES, x + k, by, to + k, &squares, along, mean);                                             \
            else                                                                                                       \
                some_##T(some, x + k, by, to + k, &squares, along, mean);                                              \
        }                                                                                                              \
        found[0] = peak, found[step] = squares, found[2 * step] = found[3 * step] = 0;                                 \
        for (int l = 0; l < LANES; l++)                                                                                \
            found[2 * step] += along[l], found[3 * step] += mean[l];                                                   \
    }                                                                                                                  \
    static double peak_##T(const T *x, ptrdiff_t n, const T *by) {                                                     \
        BITS most = 0;                                                                                                 \
        EACH {                                                                                                         \
            const BITS b = magnitude_##T(x[i] * by[i]);                                                                \
            most = b > most ? b : most;                                                                                \
        }                                                                                                              \
        return largest_##T(most);                                                                                      \
    }                                                                                                                  \
    /* n <= FALCON_BYTE_LINES lines that are neighbours in memory. */                                                  \
    static void lines_##T(const T *x, ptrdiff_t n, ptrdiff_t steps, ptrdiff_t s, int8_t *to, ptrdiff_t to_s,           \
                          double *found, ptrdiff_t step) {                                                             \
        BITS most[FALCON_BYTE_LINES] = {0};                                                                            \
        T by[FALCON_BYTE_LINES], along[FALCON_BYTE_LINES] = {0}, mean[FALCON_BYTE_LINES] = {0};                        \
        int32_t squares[FALCON_BYTE_LINES] = {0};                                                                      \
        for (ptrdiff_t k = 0; k < steps; k++)                                                                          \
            EACH {                                                                                                     \
                const BITS b = magnitude_##T(x[k * s + i]);                                                            \
                most[i] = b > most[i] ? b : most[i];                                                                   \
            }                                                                                                          \
        EACH {                                                                                                         \
            found[i] = largest_##T(most[i]);                                                                           \
            by[i] = (T)(found[i] > 0 ? FALCON_LARGEST_BYTE / found[i] : 0);                                            \
        }                                                                                                              \
        for (ptrdiff_t k = 0; k < steps; k++)                                                                          \
            EACH {                                                                                                     \
                int8_t q;                                                                                              \
                const T y = x[k * s + i] * by[i], left = rounded_##T(y, &q);                                           \
                to[k * to_s + i] = q;                                                                                  \
                squares[i] += q * q;                                                                                   \
                along[i] += left * y;                                                                                  \
                mean[i] += left;                                                                                       \
            }                                                                                                          \
        EACH found[step + i] = squares[i], found[2 * step + i] = along[i], found[3 * step + i] = mean[i];              \
    }                                                                                                                  \
    /* Scales and factors may be beyond the range of T where their product is not. */                                  \
    static void scaled_##T(const int32_t *x, ptrdiff_t n, double row, const double *columns, double beta, T *c,        \
                           ptrdiff_t s) {                                                                              \
        const T add = (T)beta;                                                                                         \
        if (s == 1 && add == 0)                                                                                        \
            EACH c[i] = (T)(x[i] * (columns[i] * row));                                                                \
        else                                                                                                           \
            EACH c[i * s] = (T)(x[i] * (columns[i] * row)) + (add == 0 ? 0 : add * c[i * s]);                          \
    }

QUANTISE(float, int32_t, 0x1.8p23f)
QUANTISE(double, int64_t, 0x1.8p52)

static void quantise(const falcon_bytes *q, ptrdiff_t line, ptrdiff_t n) {
    const ptrdiff_t at = line * q->line_stride;
    double *found = q->found + line;
    if (q->k_stride == 1)
        for (ptrdiff_t i = 0; i < n; i++) {
            int8_t *to = q->to + (line + i) * q->len;
            if (q->is_double)
                line_double((const double *)q->x + at + i * q->line_stride, q->len, to, found + i, q->lines);
            else
                line_float((const float *)q->x + at + i * q->line_stride, q->len, to, found + i, q->lines);
        }
    else if (q->is_double)
        lines_double((const double *)q->x + at, n, q->len, q->k_stride, q->to + line, q->lines, found, q->lines);
    else
        lines_float((const float *)q->x + at, n, q->len, q->k_stride, q->to + line, q->lines, found, q->lines);
}

static void from_bytes(const falcon_products *q, ptrdiff_t row, ptrdiff_t n) {
    for (ptrdiff_t i = row; i < row + n; i++) {
        const int32_t *x = q->x + i * q->columns;
        const ptrdiff_t at = i * q->row_stride;
        if (q->is_double)
            scaled_double(x, q->columns, q->of_rows[i], q->of_columns, q->beta, (double *)q->c + at, q->column_stride);
        else
            scaled_float(x, q->columns, q->of_rows[i], q->of_columns, q->beta, (float *)q->c + at, q->column_stride);
    }
}

static void peaks(const falcon_peaks *q, ptrdiff_t row, ptrdiff_t n) {
    for (ptrdiff_t i = row; i < row + n; i++) {
        const ptrdiff_t at = i * q->row_stride;
        q->peaks[i] = q->is_double ? peak_double((const double *)q->c + at, q->columns, q->by)
                                   : peak_float((const float *)q->c + at, q->columns, q->by);
    }
}
#undef EACH
#undef QUANTISE
