/* quantise_impl.h - lines of floats as 8-bit integers and a scale each, and their integer products as floats again: see
 * falcon_bytes; included once by each instruction set.
 *
 * Magnitudes are compared as bits, so that NaN is larger than all numbers.  An addition rounds to the nearest integer,
 * which is then the low byte of the sum. */
#define EACH for (ptrdiff_t i = 0; i < n; i++)
#define QUANTISE(T, BITS, ONE_HALF)                                                                                    \
    static inline BITS magnitude_##T(T x) {                                                                            \
        BITS b;                                                                                                        \
        memcpy(&b, &x, sizeof b);                                                                                      \
        return b & (BITS) ~((BITS)1 << (8 * sizeof b - 1));                                                            \
    }                                                                                                                  \
    static inline int8_t nearest_##T(T x) {                                                                            \
        BITS b;                                                                                                        \
        x += ONE_HALF;                                                                                                 \
        memcpy(&b, &x, sizeof b);                                                                                      \
        return (int8_t)b;                                                                                              \
    }                                                                                                                  \
    static inline double largest_##T(BITS b) {                                                                         \
        T x;                                                                                                           \
        memcpy(&x, &b, sizeof b);                                                                                      \
        return x;                                                                                                      \
    }                                                                                                                  \
    /* A line that is contiguous along K. */                                                                           \
    static void line_##T(const T *x, ptrdiff_t n, int8_t *to, double *peak, double *squares) {                         \
        BITS most = 0;                                                                                                 \
        EACH {                                                                                                         \
            const BITS b = magnitude_##T(x[i]);                                                                        \
            most = b > most ? b : most;                                                                                \
        }                                                                                                              \
        *peak = largest_##T(most);                                                                                     \
        const T by = (T)(*peak > 0 ? FALCON_LARGEST_BYTE / *peak : 0);                                                 \
        int32_t sum = 0;                                                                                               \
        EACH {                                                                                                         \
            to[i] = nearest_##T(x[i] * by);                                                                            \
            sum += to[i] * to[i];                                                                                      \
        }                                                                                                              \
        *squares = sum;                                                                                                \
    }                                                                                                                  \
    /* n <= FALCON_BYTE_LINES lines that are neighbours in memory. */                                                  \
    static void lines_##T(const T *x, ptrdiff_t n, ptrdiff_t steps, ptrdiff_t s, int8_t *to, ptrdiff_t to_s,           \
                          double *peaks, double *squares) {                                                            \
        BITS most[FALCON_BYTE_LINES] = {0};                                                                            \
        T by[FALCON_BYTE_LINES];                                                                                       \
        int32_t sums[FALCON_BYTE_LINES] = {0};                                                                         \
        for (ptrdiff_t k = 0; k < steps; k++)                                                                          \
            EACH {                                                                                                     \
                const BITS b = magnitude_##T(x[k * s + i]);                                                            \
                most[i] = b > most[i] ? b : most[i];                                                                   \
            }                                                                                                          \
        EACH {                                                                                                         \
            peaks[i] = largest_##T(most[i]);                                                                           \
            by[i] = (T)(peaks[i] > 0 ? FALCON_LARGEST_BYTE / peaks[i] : 0);                                            \
        }                                                                                                              \
        for (ptrdiff_t k = 0; k < steps; k++)                                                                          \
            EACH {                                                                                                     \
                const int8_t q = nearest_##T(x[k * s + i] * by[i]);                                                    \
                to[k * to_s + i] = q;                                                                                  \
                sums[i] += q * q;                                                                                      \
            }                                                                                                          \
        EACH squares[i] = sums[i];                                                                                     \
    }                                                                                                                  \
    static void scaled_##T(const int32_t *x, ptrdiff_t n, double row, const double *columns, double beta, T *c,        \
                           ptrdiff_t s) {                                                                              \
        const T by = (T)row, add = (T)beta;                                                                            \
        if (s == 1 && add == 0)                                                                                        \
            EACH c[i] = (T)x[i] * (T)columns[i] * by;                                                                  \
        else                                                                                                           \
            EACH c[i * s] = (T)x[i] * (T)columns[i] * by + (add == 0 ? 0 : add * c[i * s]);                            \
    }

QUANTISE(float, int32_t, 0x1.8p23f)
QUANTISE(double, int64_t, 0x1.8p52)

static void quantise(const falcon_bytes *q, ptrdiff_t line, ptrdiff_t n) {
    const ptrdiff_t at = line * q->line_stride;
    double *peaks = q->peaks + line, *squares = q->squares + line;
    if (q->k_stride == 1)
        for (ptrdiff_t i = 0; i < n; i++) {
            int8_t *to = q->to + (line + i) * q->len;
            if (q->is_double)
                line_double((const double *)q->x + at + i * q->line_stride, q->len, to, peaks + i, squares + i);
            else
                line_float((const float *)q->x + at + i * q->line_stride, q->len, to, peaks + i, squares + i);
        }
    else if (q->is_double)
        lines_double((const double *)q->x + at, n, q->len, q->k_stride, q->to + line, q->lines, peaks, squares);
    else
        lines_float((const float *)q->x + at, n, q->len, q->k_stride, q->to + line, q->lines, peaks, squares);
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
#undef EACH
#undef QUANTISE
