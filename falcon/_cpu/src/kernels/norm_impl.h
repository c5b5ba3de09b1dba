/* norm_impl.h - template: sums of squares of the lines of a matrix for one type of operands;
 * included by operand_impl.h, whose macros it uses.  See falcon_norm_fn.
 *
 * Squares are added in T over at most FALCON_NORM_RUN steps, and these sums in double.  Where a square overflows
 * the sum is Inf; falcon_norms sets sums to 0 that are so small that squares may have underflowed.  Both values
 * tell the caller that the line could not be measured.
 */
static void X_NAME(norm_dot)(ptrdiff_t lines, ptrdiff_t len, const void *mat_, ptrdiff_t is, double *sums,
                             double *odd) {
    const X_T *mat = mat_;
    for (ptrdiff_t i = 0; i < lines; i++, mat += is) {
        double sum[2] = {0};
        for (ptrdiff_t k0 = 0; k0 < len; k0 += FALCON_NORM_RUN) {
            const X_T *x = mat + k0;
            const ptrdiff_t run = len - k0 < FALCON_NORM_RUN ? len - k0 : FALCON_NORM_RUN;
            VEC s[4] = {V_ZERO(), V_ZERO(), V_ZERO(), V_ZERO()};
            ptrdiff_t k = 0;
            for (; k + 4 * VLEN <= run; k += 4 * VLEN) {
#pragma GCC unroll 4
                for (int q = 0; q < 4; q++) {
                    const VEC v = X_READ(x + k + q * VLEN);
                    s[q] = V_FMA(v, v, s[q]);
                }
            }
            const VEC all = (s[0] + s[1]) + (s[2] + s[3]);
            for (int l = 0; l < VLEN; l++)
                sum[l % 2] += (double)all[l];
            for (; k < run; k++)
                sum[k % 2] += (double)(T)(X_GET(x[k]) * X_GET(x[k]));
        }
        sums[i] += odd ? sum[0] : sum[0] + sum[1];
        if (odd)
            odd[i] += sum[1];
    }
}

static void X_NAME(norm_axpy)(ptrdiff_t lines, ptrdiff_t len, const void *mat_, ptrdiff_t ks, double *sums,
                              double *odd) {
    (void)odd;
    const X_T *mat = mat_;
    T run[FALCON_NORM_LINES];
    for (ptrdiff_t i0 = 0; i0 < lines; i0 += FALCON_NORM_LINES) {
        const ptrdiff_t width = lines - i0 < FALCON_NORM_LINES ? lines - i0 : FALCON_NORM_LINES;
        for (ptrdiff_t k0 = 0; k0 < len; k0 += FALCON_NORM_RUN) {
            const ptrdiff_t end = len - k0 < FALCON_NORM_RUN ? len : k0 + FALCON_NORM_RUN;
            memset(run, 0, (size_t)width * sizeof *run);
            ptrdiff_t k = k0;
            for (; k + 8 <= end; k += 8)
                X_NAME(axpy_steps)(8, 1, width, mat + k * ks + i0, ks, NULL, run);
            for (; k < end; k++)
                X_NAME(axpy_steps)(1, 1, width, mat + k * ks + i0, ks, NULL, run);
            for (ptrdiff_t i = 0; i < width; i++)
                sums[i0 + i] += (double)run[i];
        }
    }
}
