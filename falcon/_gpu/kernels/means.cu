// The means that are subtracted from A where it is combined for products by parts, and whose product with
// the sums of B's segments is added to C: ::
//
//     C = (A - m) B + m S,    m_is: of segment s of row i;    s_sj: the sum of segment s of column j
//
// Tensor cores cut sums off toward zero, a bias that grows with a sum; what is left of A has both signs.
// A mean is rounded to BITS bits of the row's quadratic mean, so that whole numbers stay whole. It is zero
// if it is below LEAST of that, so that zeros stay zeros (uniform data: 0.87, lognormal: 0.61, one element
// in 24 that is not zero: 0.2); if all sums of the row are exact, being whole multiples of the last bits
// of A and B; and if the row is repaired.
//
//   sums      segments x whole units of rows: of norms.cu; the means take their place
//   found     of powers.cu: the squared norms of A's rows
//   powers_*  of powers.cu

extern "C" __global__ void __launch_bounds__(FALCON_BLOCK_THREADS)
    FALCON_NAME(float *sums, long long rows, long long inner, const LinePart *__restrict__ found,
                const State *__restrict__ powers_a, const State *__restrict__ powers_b) {
    constexpr int BITS = 6;
    constexpr double LEAST = 0.2;
    const unsigned units = (unsigned)((rows + FALCON_UNIT - 1) / FALCON_UNIT) * FALCON_UNIT;
    const Element element(units);
    const long long row = element.minor, segment = element.major, first = segment * FALCON_SEGMENT;
    if (row >= units || first >= inner)
        return;
    float mean = 0;
    if (row < rows) {
        const double norm = sqrt(found[row].square), usual = norm / sqrt((double)inner);
        const double last = (double)__uint_as_float(powers_a->granule) * (double)__uint_as_float(powers_b->granule);
        const bool exact = norm * (double)__uint_as_float(powers_b->largest) < 0x1p24 * last;
        const bool known = reinterpret_cast<const float *>(powers_a + 1)[row] > 0;
        const long long left = inner - first;
        const double found_mean = sums[segment * units + row] / (double)(left < FALCON_SEGMENT ? left : FALCON_SEGMENT);
        if (known && !exact && fabs(found_mean) >= LEAST * usual) {
            const double unit = ldexp(1.0, ilogb(usual) - BITS);
            mean = (float)(rint(found_mean / unit) * unit);
        }
    }
    sums[segment * units + row] = mean;
}
