/* norm_impl.h - template: sums of the squares, and of the elements, of the lines of a matrix for one type of operands;
 * included by operand_impl.h, whose macros it uses.  See falcon_norm_fn.
 *
 * Squares are added in T over at most FALCON_NORM_RUN steps, elements over FALCON_TOTAL_RUN, and these sums in double.
 * Where a square overflows the sum is Inf; falcon_norms sets sums to 0 that are so small that squares may have
 * underflowed.  Both values tell the caller that the line could not be measured.
 */
INLINE void X_NAME(norm_rows)(const int has_units, ptrdiff_t lines, ptrdiff_t len, const X_T *mat, ptrdiff_t is,
                              const T *units, double *sums, double *odd, double *totals) {
    for (ptrdiff_t i = 0; i < lines; i++, mat += is) {
        double sum[2] = {0}, total[2] = {0};
        for (ptrdiff_t k0 = 0; k0 < len; k0 += FALCON_NORM_RUN) {
            const X_T *x = mat + k0;
            const ptrdiff_t run = len - k0 < FALCON_NORM_RUN ? len - k0 : FALCON_NORM_RUN;
            VEC s[4] = {V_ZERO(), V_ZERO(), V_ZERO(), V_ZERO()}, t[4] = {V_ZERO(), V_ZERO(), V_ZERO(), V_ZERO()};
            ptrdiff_t k = 0;
            for (; k + 4 * VLEN <= run; k += 4 * VLEN) {
#pragma GCC unroll 4
                for (int q = 0; q < 4; q++) {
                    const VEC y = X_READ(x + k + q * VLEN);
                    const VEC v = has_units ? (VEC)(y * V_LOAD(units + k0 + k + q * VLEN)) : y;
                    s[q] = V_FMA(v, v, s[q]);
                    t[q] += v;
                }
            }
            for (; k + VLEN <= run; k += VLEN) {
                const VEC y = X_READ(x + k), v = has_units ? (VEC)(y * V_LOAD(units + k0 + k)) : y;
                s[0] = V_FMA(v, v, s[0]);
                t[0] += v;
            }
            const VEC all = (s[0] + s[1]) + (s[2] + s[3]), every = (t[0] + t[1]) + (t[2] + t[3]);
            for (int l = 0; l < VLEN; l++) {
                sum[l % 2] += (double)all[l];
                total[l % 2] += (double)every[l];
            }
            for (; k < run; k++) {
                const T v = has_units ? X_GET(x[k]) * units[k0 + k] : X_GET(x[k]);
                sum[k % 2] += (double)(T)(v * v);
                total[k % 2] += (double)v;
            }
        }
        sums[i] += odd ? sum[0] : sum[0] + sum[1];
        if (odd)
            odd[i] += sum[1];
        if (totals)
            totals[i] += total[0] + total[1];
    }
}

static void X_NAME(norm_dot)(ptrdiff_t lines, ptrdiff_t len, const void *mat, ptrdiff_t is, const void *units,
                             double *sums, double *odd, double *totals, double *lows) {
    (void)lows;
    if (units)
        X_NAME(norm_rows)(1, lines, len, mat, is, units, sums, odd, totals);
    else
        X_NAME(norm_rows)(0, lines, len, mat, is, NULL, sums, odd, totals);
}

/* Add the squares of `steps` rows to `squares`, one vector of it at a time, and if `counts` the rows to `totals`;
 * steps, has_units and counts are constants. */
INLINE void X_NAME(norm_steps)(const int steps, const int has_units, const int counts, ptrdiff_t lines, const X_T *mat,
                               ptrdiff_t ks, const T *units, T *squares, T *totals) {
    VEC unit[8];
#pragma GCC unroll 8
    for (int q = 0; q < steps; q++)
        unit[q] = has_units ? V_SET1(units[q]) : V_ZERO();
    ptrdiff_t i = 0;
    for (; i + VLEN <= lines; i += VLEN) {
        VEC s = V_LOAD(squares + i), t[2] = {V_ZERO(), V_ZERO()};
#pragma GCC unroll 8
        for (int q = 0; q < steps; q++) {
            const VEC y = X_READ(mat + q * ks + i), v = has_units ? (VEC)(y * unit[q]) : y;
            s = V_FMA(v, v, s);
            if (counts)
                t[q % 2] += v;
        }
        V_STORE(squares + i, s);
        if (counts)
            V_STORE(totals + i, V_LOAD(totals + i) + (t[0] + t[1]));
    }
    for (; i < lines; i++) {
        T t = 0;
        for (int q = 0; q < steps; q++) {
            const T v = has_units ? X_GET(mat[q * ks + i]) * units[q] : X_GET(mat[q * ks + i]);
            squares[i] += v * v;
            t += v;
        }
        if (counts)
            totals[i] += t;
    }
}

INLINE void X_NAME(norm_columns)(const int has_units, const int counts, ptrdiff_t lines, ptrdiff_t len, const X_T *mat,
                                 ptrdiff_t ks, const T *units, double *sums, double *totals, double *lows) {
    const ptrdiff_t most = counts ? FALCON_TOTAL_RUN : FALCON_NORM_RUN;
    T squares[FALCON_NORM_LINES], counted[FALCON_NORM_LINES];
    for (ptrdiff_t i0 = 0; i0 < lines; i0 += FALCON_NORM_LINES) {
        const ptrdiff_t width = lines - i0 < FALCON_NORM_LINES ? lines - i0 : FALCON_NORM_LINES;
        for (ptrdiff_t k0 = 0; k0 < len; k0 += most) {
            const ptrdiff_t end = len - k0 < most ? len : k0 + most;
            memset(squares, 0, (size_t)width * sizeof *squares);
            if (counts)
                memset(counted, 0, (size_t)width * sizeof *counted);
            ptrdiff_t k = k0;
            for (; k + 8 <= end; k += 8)
                X_NAME(norm_steps)(8, has_units, counts, width, mat + k * ks + i0, ks, has_units ? units + k : NULL,
                                   squares, counted);
            for (; k < end; k++)
                X_NAME(norm_steps)(1, has_units, counts, width, mat + k * ks + i0, ks, has_units ? units + k : NULL,
                                   squares, counted);
            for (ptrdiff_t i = 0; i < width; i++)
                sums[i0 + i] += (double)squares[i];
            for (ptrdiff_t i = i0; counts && i < i0 + width; i++) {
                const double x = totals[i], y = (double)counted[i - i0], sum = x + y, back = sum - x;
                totals[i] = sum;
                lows[i] += (x - (sum - back)) + (y - back);
            }
        }
    }
}

static void X_NAME(norm_axpy)(ptrdiff_t lines, ptrdiff_t len, const void *mat, ptrdiff_t ks, const void *units,
                              double *sums, double *odd, double *totals, double *lows) {
    (void)odd;
    if (units && totals)
        X_NAME(norm_columns)(1, 1, lines, len, mat, ks, units, sums, totals, lows);
    else if (units)
        X_NAME(norm_columns)(1, 0, lines, len, mat, ks, units, sums, NULL, NULL);
    else if (totals)
        X_NAME(norm_columns)(0, 1, lines, len, mat, ks, NULL, sums, totals, lows);
    else
        X_NAME(norm_columns)(0, 0, lines, len, mat, ks, NULL, sums, NULL, NULL);
}
