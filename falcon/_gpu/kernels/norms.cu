// Facts about every line of one or two matrices (rows of A, columns of B), in parts of the line, which
// powers.cu brings together: sums of squares, by which badly scaled operands are scaled. In the type of
// the accumulators; where that cannot hold them, again in double, so that 0 is a part of zeros. What
// a double cannot hold becomes infinite, or 2^-900: powers.cu takes both for unknown.
//
// With FALCON_OF_PARTS, for products by parts, also how many elements there are, and their exponents. With
// FALCON_CENTRED, where means are subtracted (means.cu), also the least last bit, and the sums of all
// segments of FALCON_SEGMENT elements, which start at multiples of it.
//
//   x         lines x inner, any strides
//   found     parts x lines
//   along     the elements of a line are neighbours in memory: a warp per line and part; else a thread
//             per part and as many neighbouring lines as 16 bytes hold
//   aligned   x and its lines allow accesses of 16 bytes
//   powers    of powers.cu, whose state is written
//   segments  with FALCON_CENTRED: segments x whole units of lines
//   steps     null, or powers by which elements along K are multiplied first (units.cu), those of the
//             matrix from entry `step` on
//   first     thread blocks of the first matrix
//
// A thread block is LANES x WARPS threads. No atomics: the sums, and so the result, are always the same.

extern "C" __global__ void __launch_bounds__(FALCON_BLOCK_THREADS)
    FALCON_NAME(long long inner, long long first, const FALCON_A *__restrict__ x_0, long long line_stride_0,
                long long inner_stride_0, long long lines_0, LinePart *found_0, int parts_0, int along_0, int aligned_0,
                State *powers_0, float *segments_0, const State *steps_0, long long step_0,
                const FALCON_A *__restrict__ x_1, long long line_stride_1, long long inner_stride_1, long long lines_1,
                LinePart *found_1, int parts_1, int along_1, int aligned_1, State *powers_1, float *segments_1,
                const State *steps_1, long long step_1) {
    typedef FALCON_S S;
    constexpr int W = FALCON_ACCESS_BYTES / sizeof(FALCON_A), L = FALCON_SEGMENT;
    const bool second = blockIdx.x >= first;
    const FALCON_A *__restrict__ x = second ? x_1 : x_0;
    const long long line_stride = second ? line_stride_1 : line_stride_0;
    const long long inner_stride = second ? inner_stride_1 : inner_stride_0;
    const long long lines = second ? lines_1 : lines_0;
    const int parts = second ? parts_1 : parts_0, along = second ? along_1 : along_0;
    const int aligned = second ? aligned_1 : aligned_0;
    const long long block = blockIdx.x - (second ? first : 0);
    if (block == 0 && threadIdx.x == 0 && threadIdx.y == 0)
        *(second ? powers_1 : powers_0) = {0, FALCON_INFINITY, 0};
    // Parts are whole segments; of one line, whole accesses of a warp.
    const int unit = along ? FALCON_LANES * W : FALCON_OF_PARTS ? L : 1;
    const long long run = (inner + parts * unit - 1) / (parts * unit) * unit;
    // A warp has the part `part` of one line, or of FALCON_LANES * W lines.
    const int tile = along ? 1 : FALCON_LANES * W;
    const long long group = block * FALCON_WARPS + threadIdx.y, tiles = (lines + tile - 1) / tile;
    const int part = (int)(group / tiles);
    if (part >= parts)
        return;
    const long long line = group % tiles * tile + (along ? 0 : (long long)threadIdx.x * W);
    const int step = along ? FALCON_LANES * W : 1;
    const long long begin = part * run, end = begin + run < inner ? begin + run : inner;
    const int mine = along ? threadIdx.x * W : 0; // of a step
    // Element e of this thread's vector: of its line, or of neighbouring lines.
    const long long own = along ? inner_stride : line_stride;
    x += line * line_stride;
    const auto inside = [&](long long k, int e) { return along ? k + e < end : line + e < lines; };
    const bool whole = aligned && (along || line + W <= lines);
    S squares[W] = {};
    float segment[W] = {}, granule = __uint_as_float(FALCON_INFINITY);
    int count[W] = {}, exponents[W] = {};
    const long long units = (lines + FALCON_UNIT - 1) / FALCON_UNIT * FALCON_UNIT;
    float *segments = (second ? segments_1 : segments_0) + line;
    const State *steps = second ? steps_1 : steps_0;
    const S *evened = steps && steps->state ? steps->table<S>() + (second ? step_1 : step_0) : nullptr;
    const auto take = [&](long long k, S *v) {
        for (int e = 0; e < W && evened; ++e) {
            const long long at = along ? k + e : k;
            v[e] *= at < inner ? evened[at] : S(0);
        }
#pragma unroll
        for (int e = 0; e < W; ++e)
            squares[e] += v[e] * v[e];
        if constexpr (FALCON_OF_PARTS) {
#pragma unroll
            for (int e = 0; e < W; ++e) {
                const unsigned bits = __float_as_uint(v[e]) & 0x7fffffffu;
                count[along ? 0 : e] += bits != 0;
                exponents[along ? 0 : e] += (int)(bits >> 23);
            }
        }
        if constexpr (FALCON_CENTRED) {
#pragma unroll
            for (int e = 0; e < W; ++e) {
                const unsigned bits = __float_as_uint(v[e]) & 0x7fffffffu;
                // Its last bit that is not zero.
                const float size = __uint_as_float(bits);
                const float last = bits & 0x7fffffu ? size - __uint_as_float(bits & (bits - 1)) : size;
                granule = bits && last < granule ? last : granule;
                segment[along ? 0 : e] += v[e];
            }
            if (along) {
                const float sum = segment_sum(segment[0], k / L);
                if ((threadIdx.x + 1) % (L / W) == 0 && k / L * L < end)
                    segments[k / L * units] = sum;
                segment[0] = 0;
            } else if ((k + 1) % L == 0 || k + 1 == end) {
#pragma unroll
                for (int e = 0; e < W; ++e) {
                    if (line + e < lines)
                        segments[k / L * units + e] = segment[e];
                    segment[e] = 0;
                }
            }
        }
    };
    long long k = begin;
    if (whole)
#pragma unroll 4
        for (; k + step <= end; k += step) {
            S v[W];
            narrow_all(load_vec<S, W>(x + (k + mine) * inner_stride), v);
            take(k + mine, v);
        }
    for (; k < end; k += step) {
        S v[W];
        for (int e = 0; e < W; ++e)
            v[e] = inside(k + mine, e) ? (S)widen(x[(k + mine) * inner_stride + e * own]) : S(0);
        take(k + mine, v);
    }
    LinePart total = {0, 0, 0, granule};
#pragma unroll
    for (int e = 0; e < W; ++e) {
        double sum = squares[e];
        if (!(squares[e] > S(1e-18) && squares[e] < S(1e38))) {
            bool zeros = true;
            sum = 0;
            for (k = begin + mine; k < end && inside(k, e); k += step) {
                double value = (double)widen(x[k * inner_stride + e * own]);
                value *= evened ? (double)evened[along ? k + e : k] : 1;
                zeros = zeros && value == 0;
                sum += value * value;
            }
            sum = !zeros && sum < 0x1p-900 ? 0x1p-900 : sum;
        }
        const LinePart found = {sum, (double)exponents[e], count[e], granule};
        if (along)
            total.add(found);
        else if (line + e < lines)
            (second ? found_1 : found_0)[part * lines + line + e] = found;
    }
    if (along) {
        total = warp_total(total);
        if (threadIdx.x == FALCON_LANES - 1)
            (second ? found_1 : found_0)[part * lines + line] = total;
    }
}
