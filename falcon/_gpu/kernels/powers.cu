// Powers of two by which the lines of one or two matrices (rows of A, columns of B) are multiplied
// before they are added up: they bring together the norms of a group, the lines at the same place of
// all blocks. As falcon/_core/scaling.py does on the host, but each group for itself, and its largest
// power is 1.
//
//   found     parts x lines, of norms.cu; the first part becomes that of the whole line
//   inner     elements of a line
//   block     lines of a block
//   most      the largest exponent; a group that needs a larger one is unknown
//   equilibrate
//             whether the norms of a group are evened out
//   fit       so that parts of them are in the range of their type, groups are multiplied until their
//             largest norm is below 2^fit, and at least half of that; 0: they are not
//   powers    `State`, followed by three tables: reciprocals of powers, of whole units of lines
//             (0 for a line of zeros, -1 if the power is unknown: such lines are multiplied by 1, and
//             repaired); powers, as many; and powers, each of them repeated over 16 bytes
//   first     thread blocks of the first matrix
//
// Parts (fit) do not hold what float32 does of lines with hardly an element that is not zero (of which
// an entry of C may have each by itself), nor of those whose usual element is far below the norm: their
// powers are unknown. Of K or of 128 elements one in SPARSE must not be zero (16 of 128 and more); RANGE:
// bits below the norm, so that parts hold 16 of the usual element (at K = 2048: normal data 6, lognormal
// of sigma 2 11, sometimes 15).

extern "C" __global__ void __launch_bounds__(FALCON_BLOCK_THREADS)
    FALCON_NAME(int most, int equilibrate, int fit, long long inner, long long first, LinePart *found_0, int parts_0,
                long long lines_0, long long block_0, State *powers_0, LinePart *found_1, int parts_1,
                long long lines_1, long long block_1, State *powers_1) {
    constexpr int SPARSE = 8, RANGE = 18, OCTAVE = 1 << FALCON_OCTAVE_BITS;
    const bool second = blockIdx.x >= first;
    LinePart *found = second ? found_1 : found_0;
    const int parts = second ? parts_1 : parts_0;
    const long long lines = second ? lines_1 : lines_0, block = second ? block_1 : block_0;
    State *powers = second ? powers_1 : powers_0;
    const long long place = (long long)(blockIdx.x - (second ? first : 0)) * blockDim.x + threadIdx.x;
    if (place >= block || place >= lines)
        return;
    double total = 0, least = 0, largest = 0;
    int count = 0, present = 0;
    bool known = true;
    for (long long line = place; line < lines; line += block, ++count) {
        LinePart whole = found[line];
        for (int part = 1; part < parts; ++part)
            whole.add(found[part * lines + line]);
        found[line] = whole;
        const double square = whole.square;
        if (square == 0)
            continue;
        known = known && square >= 0x1p-800 && square <= 0x1p1000; // false for a NaN too
        if (fit) {
            // That of the norm, and the mean of the elements' exponents, half of a bit above their powers of two.
            known = known && SPARSE * (long long)whole.count >= (inner < 128 ? inner : 128) &&
                    (0.5 * ilogb(square) + 126.5 - RANGE) * whole.count < whole.exponents;
            atomicMin(&powers->granule, __float_as_uint(whole.granule));
        }
        total += square;
        least = present && least <= square ? least : square;
        largest = largest > square ? largest : square;
        ++present;
    }
    const auto level = [found](long long line) { return (int)rint(log2(found[line].square) * (OCTAVE / 2)); };
    bool scaled = known && equilibrate && total > FALCON_SCALED_FROM * present * least;
    int base = 0, top = -0x7fffffff, bottom = 0x7fffffff;
    const auto octave = [&](long long line) { return (level(line) - base) >> FALCON_OCTAVE_BITS; };
    if (scaled) {
        // Where to cut the circle of the fractional parts of the logarithms: at its largest gap.
        int narrowest = OCTAVE;
        for (long long from = place; from < lines; from += block) {
            int widest = 0;
            for (long long line = place; line < lines; line += block) {
                const int apart = found[line].square == 0 ? 0 : (level(line) - level(from)) & (OCTAVE - 1);
                widest = widest < apart ? apart : widest;
            }
            if (found[from].square != 0 && widest < narrowest) {
                narrowest = widest;
                base = level(from) & (OCTAVE - 1);
            }
        }
        for (long long line = place; line < lines; line += block) {
            if (found[line].square == 0)
                continue;
            const int own = octave(line);
            top = own > top ? own : top;
            bottom = own < bottom ? own : bottom;
        }
        known = top - bottom <= most;
        double after = 0, least_after = 0x1p1023, largest_after = 0;
        for (long long line = place; known && line < lines; line += block)
            if (found[line].square != 0) {
                const double square = ldexp(found[line].square, 2 * (top - octave(line)));
                after += square;
                least_after = square < least_after ? square : least_after;
                largest_after = square > largest_after ? square : largest_after;
            }
        scaled = known && after / least_after < total / least;
        largest = scaled ? largest_after : largest;
    }
    int up = 0;
    if (fit && known && present) {
        up = fit - ((ilogb(largest) + 2) >> 1);
        known = up >= -most && up + (scaled ? top - bottom : 0) <= most;
        // The largest norm, to a factor of 2.
        atomicMax(&powers->largest, __float_as_uint((float)ldexp(1.0, fit - up)));
    }
    constexpr int repeated = FALCON_ACCESS_BYTES / sizeof(FALCON_S);
    const long long units = (lines + FALCON_UNIT - 1) / FALCON_UNIT * FALCON_UNIT;
    FALCON_S *table = reinterpret_cast<FALCON_S *>(powers + 1);
    for (long long line = place; line < lines; line += block) {
        const int exponent = !known ? 0 : up + (scaled && found[line].square != 0 ? top - octave(line) : 0);
        const FALCON_S reciprocal = FALCON_S(ldexp(1.0, -exponent)), factor = FALCON_S(ldexp(1.0, exponent));
        table[line] = !known ? FALCON_S(-1) : found[line].square == 0 ? FALCON_S(0) : reciprocal;
        table[units + line] = factor;
        for (int e = 0; e < repeated; ++e)
            table[2 * units + repeated * line + e] = factor;
    }
    if (scaled || up || !known || present < count)
        atomicMax(&powers->state, scaled || up ? FALCON_MULTIPLIED : FALCON_NOT_ONE);
}
