// Sums of squares of the elements of every line of a matrix, in parts, which scales.cu adds up: the
// norms by which badly scaled operands are scaled. In the type of the accumulators; where that
// cannot hold them, again in double, so that 0 is a part of zeros. What a double cannot hold becomes
// infinite, or 2^-900: scales.cu takes both for unknown.
//
//   x         lines x inner, any strides
//   sums      parts x lines
//   along     neighbouring threads take neighbours along the inner axis, else neighbouring lines:
//             those that are neighbours in memory
//
// A thread block is 32 x 8 threads. No atomics: the sums, and so the result, are always the same.

extern "C" __global__ void __launch_bounds__(256)
    FALCON_NAME(const FALCON_A *__restrict__ x, long long line_stride, long long inner_stride, long long lines,
                long long inner, double *sums, int parts, int along) {
    const int across = along ? threadIdx.y : threadIdx.x, down = along ? threadIdx.x : threadIdx.y;
    const long long line = (long long)blockIdx.x * (along ? 8 : FALCON_LANES) + across;
    const int part = blockIdx.y * (along ? FALCON_LANES : 8) + down;
    if (line >= lines || part >= parts)
        return;
    const long long run = (inner + parts - 1) / parts;
    const long long first = along ? part : part * run, step = along ? parts : 1;
    const long long end = along || first + run > inner ? inner : first + run;
    x += line * line_stride;
    FALCON_S sum = 0;
#pragma unroll 4
    for (long long k = first; k < end; k += step) {
        const FALCON_S value = (FALCON_S)widen(x[k * inner_stride]);
        sum += value * value;
    }
    double total = sum;
    if (!(sum > FALCON_S(1e-18) && sum < FALCON_S(1e38))) {
        bool zeros = true;
        total = 0;
        for (long long k = first; k < end; k += step) {
            const double value = (double)widen(x[k * inner_stride]);
            zeros = zeros && value == 0;
            total += value * value;
        }
        total = !zeros && total < 0x1p-900 ? 0x1p-900 : total;
    }
    sums[part * lines + line] = total;
}

#undef FALCON_NAME
#undef FALCON_A
#undef FALCON_T
#undef FALCON_S
