// Sums of squares of the elements of every line of one or two matrices (rows of A, columns of B), in
// parts, which powers.cu adds up: the norms by which badly scaled operands are scaled. In the type of
// the accumulators; where that cannot hold them, again in double, so that 0 is a part of zeros. What
// a double cannot hold becomes infinite, or 2^-900: powers.cu takes both for unknown.
//
//   x         lines x inner, any strides
//   sums      parts x lines
//   along     the elements of a line are neighbours in memory: a warp per line and part; else a thread
//             per part and as many neighbouring lines as 16 bytes hold
//   aligned   x and its lines allow accesses of 16 bytes
//   powers    of powers.cu, before which a zero is written
//   first     thread blocks of the first matrix
//
// A thread block is LANES x WARPS threads. No atomics: the sums, and so the result, are always the same.

extern "C" __global__ void __launch_bounds__(FALCON_BLOCK_THREADS)
    FALCON_NAME(long long inner, long long first, const FALCON_A *__restrict__ x_0, long long line_stride_0,
                long long inner_stride_0, long long lines_0, double *sums_0, int parts_0, int along_0, int aligned_0,
                unsigned *powers_0, const FALCON_A *__restrict__ x_1, long long line_stride_1, long long inner_stride_1,
                long long lines_1, double *sums_1, int parts_1, int along_1, int aligned_1, unsigned *powers_1) {
    constexpr int W = FALCON_ACCESS_BYTES / sizeof(FALCON_A);
    const bool second = blockIdx.x >= first;
    const FALCON_A *__restrict__ x = second ? x_1 : x_0;
    const long long line_stride = second ? line_stride_1 : line_stride_0;
    const long long inner_stride = second ? inner_stride_1 : inner_stride_0;
    const long long lines = second ? lines_1 : lines_0;
    const int parts = second ? parts_1 : parts_0, along = second ? along_1 : along_0;
    const int aligned = second ? aligned_1 : aligned_0;
    const long long block = blockIdx.x - (second ? first : 0);
    if (block == 0 && threadIdx.x == 0 && threadIdx.y == 0)
        *(second ? powers_1 : powers_0) = 0;
    // A warp has the part `part` of one line, or of FALCON_LANES * W lines.
    const int tile = along ? 1 : FALCON_LANES * W;
    const long long group = block * FALCON_WARPS + threadIdx.y, tiles = (lines + tile - 1) / tile;
    const int part = (int)(group / tiles);
    if (part >= parts)
        return;
    const long long line = group % tiles * tile + (along ? 0 : (long long)threadIdx.x * W);
    // Parts of one line are whole accesses of a warp.
    const long long unit = along ? FALCON_LANES * W : 1, run = (inner + parts * unit - 1) / (parts * unit) * unit;
    const long long end = (part + 1) * run < inner ? (part + 1) * run : inner;
    const int step = along ? FALCON_LANES * W : 1;
    const long long begin = part * run + (along ? (long long)threadIdx.x * W : 0);
    // Element e of this thread's vector at k: of its line, or of neighbouring lines.
    const long long own = along ? inner_stride : line_stride;
    x += line * line_stride;
    Vec<FALCON_S, W> squares = {};
    const bool whole = aligned && (along || line + W <= lines);
    long long k = begin;
    if (whole)
#pragma unroll 4
        for (; k + (along ? W : 1) <= end; k += step)
            add_squares(squares, load_vec<FALCON_S, W>(x + k * inner_stride));
    FALCON_S sums[W];
    narrow_all(squares, sums);
    for (; k < end; k += step)
        for (int e = 0; e < W && (along ? k + e < end : line + e < lines); ++e) {
            const FALCON_S value = (FALCON_S)widen(x[k * inner_stride + e * own]);
            sums[e] += value * value;
        }
    double total = 0;
#pragma unroll
    for (int e = 0; e < W; ++e) {
        double sum = sums[e];
        if (!(sums[e] > FALCON_S(1e-18) && sums[e] < FALCON_S(1e38))) {
            bool zeros = true;
            sum = 0;
            for (k = begin; k < end && (along ? k + e < end : line + e < lines); k += step) {
                const double value = (double)widen(x[k * inner_stride + e * own]);
                zeros = zeros && value == 0;
                sum += value * value;
            }
            sum = !zeros && sum < 0x1p-900 ? 0x1p-900 : sum;
        }
        if (along)
            total += sum;
        else if (line + e < lines)
            (second ? sums_1 : sums_0)[part * lines + line + e] = sum;
    }
    if (along) {
        total = warp_sum(total);
        if (threadIdx.x == FALCON_LANES - 1)
            (second ? sums_1 : sums_0)[part * lines + line] = total;
    }
}
