// Copies the lower triangle of square matrices, `step` elements apart, to the upper one: by squares of elements,
// which change their order in shared memory, so that neighbouring threads read and write neighbours.

extern "C" __global__ void __launch_bounds__(FALCON_BLOCK_THREADS)
    FALCON_NAME(FALCON_T *out, long long rows, long long columns, long long size, long long step) {
    constexpr int SIDE = FALCON_LANES;
    __shared__ FALCON_T square[SIDE][SIDE + 1];
    const unsigned squares = (unsigned)((size + SIDE - 1) / SIDE);
    const long long row = blockIdx.x / squares * SIDE, column = blockIdx.x % squares * SIDE;
    if (column > row)
        return;
    out += blockIdx.y * step;
    const bool by_columns = rows < columns;
    const int own = threadIdx.x;
    for (int i = threadIdx.y; i < SIDE; i += FALCON_WARPS) {
        const long long x = row + (by_columns ? own : i), y = column + (by_columns ? i : own);
        if (x < size && y < x)
            square[i][own] = out[x * rows + y * columns];
    }
    __syncthreads();
    for (int i = threadIdx.y; i < SIDE; i += FALCON_WARPS) {
        const long long x = column + (by_columns ? own : i), y = row + (by_columns ? i : own);
        if (x < y && y < size)
            out[x * rows + y * columns] = square[own][i];
    }
}
