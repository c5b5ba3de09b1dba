// out = scale * in for matrices of any strides and of two element types; zero if in is null.

extern "C" __global__ void __launch_bounds__(256)
    FALCON_NAME(const FALCON_A *in, long long in_major, long long in_minor, FALCON_T *out, long long out_major,
                long long out_minor, long long major, long long minor, FALCON_S scale) {
    const unsigned tiles = (unsigned)((minor + 255) / 256);
    const long long x = blockIdx.x / tiles;
    const long long y = (long long)(blockIdx.x % tiles) * 256 + threadIdx.x;
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
