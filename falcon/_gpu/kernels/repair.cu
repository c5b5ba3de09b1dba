// The classical product of the regions that have a flag of combine_out.cu.
//
// With a scheme, a NaN or Inf in A or B, or a sum that overflows, reaches entries of C that are
// finite classically. The host cannot know without waiting for the device, so this kernel is always
// launched, and ends at once if no flag is set. It is a plain kernel for a rare case: no shared
// memory, any strides.
//
// Block (i, j) of C, region by region: rows of `left` (A, or B's columns) times `right`, with axes
// as in combine_in.cu. Their number is added to what precedes the flags; `host_count`, in the host's memory, becomes
// that if it is larger, and if it is not null.
// As many thread blocks as the device runs at a time share the regions. A thread block is LANES x WARPS
// threads, each of which forms 8 x 4 entries.

extern "C" __global__ void __launch_bounds__(FALCON_BLOCK_THREADS)
    FALCON_NAME(const FALCON_A *__restrict__ left, long long left_major, long long left_inner,
                const FALCON_A *__restrict__ right, long long right_inner, long long right_minor, FALCON_T *out,
                const FALCON_T *c, long long ld, long long ld_c, long long major, long long minor, long long inner,
                long long step_major, long long step_minor, long long height, long long width, FALCON_S alpha,
                FALCON_S beta, unsigned *flags, int blocks_minor, unsigned *host_count) {
    constexpr int ROWS = FALCON_REGION_MAJOR / FALCON_WARPS, COLUMNS = FALCON_REGION_MINOR / FALCON_LANES;
    if (!*flags)
        return;
    const unsigned across = (unsigned)((width + FALCON_REGION_MINOR - 1) / FALCON_REGION_MINOR);
    const unsigned regions = across * (unsigned)((height + FALCON_REGION_MAJOR - 1) / FALCON_REGION_MAJOR);
    const long long block_major = (long long)(blockIdx.y / blocks_minor) * step_major;
    const long long block_minor = (long long)(blockIdx.y % blocks_minor) * step_minor;
    unsigned count = 0;
    for (unsigned region = blockIdx.x; region < regions; region += gridDim.x) {
        if (!flags[1 + region])
            continue;
        ++count;
        const long long x0 = (long long)(region / across) * FALCON_REGION_MAJOR + threadIdx.y * ROWS;
        const long long y0 = (long long)(region % across) * FALCON_REGION_MINOR + threadIdx.x;
        if (block_major + x0 >= major || block_minor + y0 >= minor)
            continue;
        // Entries beyond the block or the matrix are computed from the last row or column inside, and
        // are not stored.
        long long xs[ROWS], ys[COLUMNS];
        const long long rows = height < major - block_major ? height : major - block_major;
        const long long columns = width < minor - block_minor ? width : minor - block_minor;
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            xs[r] = block_major + (x0 + r < rows ? x0 + r : rows - 1);
#pragma unroll
        for (int s = 0; s < COLUMNS; ++s) {
            const long long y = y0 + s * FALCON_LANES;
            ys[s] = block_minor + (y < columns ? y : columns - 1);
        }
        FALCON_S sums[ROWS][COLUMNS] = {};
        for (long long k = 0; k < inner; ++k) {
            FALCON_S a[ROWS], b[COLUMNS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                a[r] = (FALCON_S)widen(left[xs[r] * left_major + k * left_inner]);
#pragma unroll
            for (int s = 0; s < COLUMNS; ++s)
                b[s] = (FALCON_S)widen(right[k * right_inner + ys[s] * right_minor]);
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
#pragma unroll
                for (int s = 0; s < COLUMNS; ++s)
                    sums[r][s] += a[r] * b[s];
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
#pragma unroll
            for (int s = 0; s < COLUMNS; ++s) {
                if (x0 + r >= rows || y0 + s * FALCON_LANES >= columns)
                    continue;
                FALCON_S value = alpha * sums[r][s];
                if (beta != FALCON_S(0))
                    value += beta * (FALCON_S)widen(c[xs[r] * ld_c + ys[s]]);
                narrow(value, out[xs[r] * ld + ys[s]]);
            }
    }
    if (host_count && count && threadIdx.x == 0 && threadIdx.y == 0)
        atomicMax(host_count, atomicAdd(flags - 1, count) + count);
}
