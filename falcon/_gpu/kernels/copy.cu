// out = scale * in for matrices of any strides and of two element types, real ones or complex ones, which have two
// parts; zero if in is null. If `turned` is not 0, i * out so many elements behind.

extern "C" __global__ void __launch_bounds__(FALCON_BLOCK_THREADS)
    FALCON_NAME(const FALCON_A *in, long long in_major, long long in_minor, FALCON_T *out, long long out_major,
                long long out_minor, long long major, long long minor, long long turned, FALCON_S re, FALCON_S im) {
    const Element element(minor);
    const long long at = element.major, to = element.minor;
    if (at >= major || to >= minor)
        return;
    FALCON_S x = FALCON_S(0), y = FALCON_S(0);
    if (in) {
        in += FALCON_READ * (at * in_major + to * in_minor);
        x = (FALCON_S)widen(in[0]);
        y = FALCON_READ == 2 ? (FALCON_S)widen(in[FALCON_READ - 1]) : y;
        if (im != FALCON_S(0)) {
            const FALCON_S real = x * re - y * im;
            y = x * im + y * re;
            x = real;
        } else if (re != FALCON_S(1)) {
            x *= re;
            y *= re;
        }
    }
    out += FALCON_WRITTEN * (at * out_major + to * out_minor);
    narrow(x, out[0]);
    if (FALCON_WRITTEN == 2)
        narrow(y, out[FALCON_WRITTEN - 1]);
    if (turned) {
        narrow(-y, out[2 * turned]);
        narrow(x, out[2 * turned + 1]);
    }
}
