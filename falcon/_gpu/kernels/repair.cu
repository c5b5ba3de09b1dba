// The classical product of the regions that have a flag of combine_out.cu.
//
// With a scheme, a NaN or Inf in A or B, or a sum that overflows, reaches entries of C that are
// finite classically. The host cannot know without waiting for the device, so this kernel is always
// launched, and ends at once if no flag is set. Strides are any; what a region needs of some steps
// along K goes through shared memory.
//
// Block (i, j) of C, region by region: rows of `left` (A, or B's columns) times `right`, with axes
// as in combine_in.cu. Their number is added to what precedes the flags; `host_count`, in the host's memory, becomes
// that if it is larger, and if it is not null.
// As many thread blocks as the device runs at a time share the regions. A thread block is LANES x WARPS
// threads, each of which forms 8 x 4 entries.

namespace repair {

constexpr int STEPS = 16, SKEW = 4; // so that threads that write one row meet few others in a bank

// Some steps along K of LINES lines, of which neighbouring threads read neighbours in memory. Of lines beyond
// the block or the matrix the last one inside is read; nothing is stored.
template <class S, class A, int WIDTH>
FALCON_INLINE void bring(S (&to)[STEPS][WIDTH], const A *__restrict__ from, long long line_stride,
                         long long inner_stride, long long block, long long first, long long lines, long long k0,
                         int steps) {
    constexpr int LINES = WIDTH - SKEW, AHEAD = 256 / LINES; // loads at a time, as registers allow
    const int thread = threadIdx.y * FALCON_LANES + threadIdx.x;
#pragma unroll AHEAD
    for (int at = thread; at < STEPS * LINES; at += FALCON_BLOCK_THREADS) {
        const int i = inner_stride == 1 ? at / STEPS : at % LINES, k = inner_stride == 1 ? at % STEPS : at / LINES;
        const long long line = first + i < lines ? first + i : lines - 1;
        if (k < steps)
            to[k][i] = (S)widen(from[(block + line) * line_stride + (k0 + k) * inner_stride]);
    }
}

} // namespace repair

extern "C" __global__ void __launch_bounds__(FALCON_BLOCK_THREADS)
    FALCON_NAME(const FALCON_A *__restrict__ left, long long left_major, long long left_inner,
                const FALCON_A *__restrict__ right, long long right_inner, long long right_minor, FALCON_T *out,
                const FALCON_T *c, long long ld, long long ld_c, long long major, long long minor, long long inner,
                long long step_major, long long step_minor, long long height, long long width, FALCON_S alpha,
                FALCON_S beta, unsigned *flags, int blocks_minor, unsigned *host_count) {
    constexpr int ROWS = FALCON_REGION_MAJOR / FALCON_WARPS, COLUMNS = FALCON_REGION_MINOR / FALCON_LANES;
    using namespace repair;
    __shared__ FALCON_S of_left[STEPS][FALCON_REGION_MAJOR + SKEW], of_right[STEPS][FALCON_REGION_MINOR + SKEW];
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
        const long long first_x = (long long)(region / across) * FALCON_REGION_MAJOR;
        const long long first_y = (long long)(region % across) * FALCON_REGION_MINOR;
        const long long rows = height < major - block_major ? height : major - block_major;
        const long long columns = width < minor - block_minor ? width : minor - block_minor;
        if (first_x >= rows || first_y >= columns)
            continue;
        FALCON_S sums[ROWS][COLUMNS] = {};
        for (long long k0 = 0; k0 < inner; k0 += STEPS) {
            const int steps = (int)(inner - k0 < STEPS ? inner - k0 : STEPS);
            __syncthreads();
            bring(of_left, left, left_major, left_inner, block_major, first_x, rows, k0, steps);
            bring(of_right, right, right_minor, right_inner, block_minor, first_y, columns, k0, steps);
            __syncthreads();
            for (int k = 0; k < steps; ++k) {
                FALCON_S a[ROWS], b[COLUMNS];
#pragma unroll
                for (int r = 0; r < ROWS; ++r)
                    a[r] = of_left[k][threadIdx.y * ROWS + r];
#pragma unroll
                for (int s = 0; s < COLUMNS; ++s)
                    b[s] = of_right[k][threadIdx.x + s * FALCON_LANES];
#pragma unroll
                for (int r = 0; r < ROWS; ++r)
#pragma unroll
                    for (int s = 0; s < COLUMNS; ++s)
                        sums[r][s] += a[r] * b[s];
            }
        }
        const long long x0 = first_x + threadIdx.y * ROWS, y0 = first_y + threadIdx.x;
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
#pragma unroll
            for (int s = 0; s < COLUMNS; ++s) {
                if (x0 + r >= rows || y0 + s * FALCON_LANES >= columns)
                    continue;
                const long long x = block_major + x0 + r, y = block_minor + y0 + s * FALCON_LANES;
                FALCON_S value = alpha * sums[r][s];
                if (beta != FALCON_S(0))
                    value += beta * (FALCON_S)widen(c[x * ld_c + y]);
                narrow(value, out[x * ld + y]);
            }
    }
    if (host_count && count && threadIdx.x == 0 && threadIdx.y == 0)
        atomicMax(host_count, atomicAdd(flags - 1, count) + count);
}
