// The largest ratio of mean to least squared norm among lines that a scheme adds up: the lines at the
// same place of all blocks. Infinite if a norm is 0 or not finite.
//
//   sums      parts x lines, of norms.cu
//   block     lines of a block
//   worst     one word, zero at first: the ratio as a float (bits of positive floats are ordered)

extern "C" __global__ void __launch_bounds__(256)
    FALCON_NAME(const FALCON_A *__restrict__ sums, int parts, long long lines, long long block, unsigned *worst) {
    const long long place = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= block || place >= lines)
        return;
    FALCON_S total = 0, least = 0;
    int count = 0;
    for (long long line = place; line < lines; line += block, ++count) {
        FALCON_S squares = 0;
        for (int part = 0; part < parts; ++part)
            squares += sums[part * lines + line];
        total += squares;
        least = count && least <= squares ? least : squares;
    }
    const float ratio = (float)(total / (count * least));
    // A NaN counts as infinite too.
    atomicMax(worst, ratio <= 3e38f ? __float_as_uint(ratio) : 0x7f800000u);
}

#undef FALCON_NAME
#undef FALCON_A
#undef FALCON_T
#undef FALCON_S
