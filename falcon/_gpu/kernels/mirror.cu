// Copies the lower triangle of square matrices, `step` elements apart, to the upper one.

extern "C" __global__ void __launch_bounds__(FALCON_BLOCK_THREADS)
    FALCON_NAME(FALCON_T *out, long long rows, long long columns, long long size, long long step) {
    const Element element(size);
    const long long x = element.major, y = element.minor;
    out += blockIdx.y * step;
    if (x < y && y < size)
        out[x * rows + y * columns] = out[y * rows + x * columns];
}
