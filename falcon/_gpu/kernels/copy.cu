// out = scale * in for matrices of any strides and of two element types; zero if in is null.

extern "C" __global__ void __launch_bounds__(FALCON_BLOCK_THREADS)
    FALCON_NAME(const FALCON_A *in, long long in_major, long long in_minor, FALCON_T *out, long long out_major,
                long long out_minor, long long major, long long minor, FALCON_S scale) {
    const unsigned tiles = (unsigned)((minor + FALCON_BLOCK_THREADS - 1) / FALCON_BLOCK_THREADS);
    const long long x = blockIdx.x / tiles;
    const long long y = (long long)(blockIdx.x % tiles) * FALCON_BLOCK_THREADS + threadIdx.x;
    if (x >= major || y >= minor)
        return;
    FALCON_S value = FALCON_S(0);
    if (in) {
        value = (FALCON_S)widen(in[x * in_major + y * in_minor]);
        if (scale != FALCON_S(1))
            value *= scale;
    }
    narrow(value, out[x * out_major + y * out_minor]);
}
