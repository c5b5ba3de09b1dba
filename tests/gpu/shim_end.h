// Conversions of float16, rounding to nearest with ties to even, and the launch itself.

float widen(half_t x) {
    const unsigned sign = (unsigned)(x.bits & 0x8000) << 16, rest = x.bits & 0x7fff;
    if (rest >= 0x7c00)
        return __uint_as_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    // Exact for subnormal numbers too: a product by a power of two.
    return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest << 13) * __uint_as_float(0x77800000)));
}

void narrow(float x, half_t &to) {
    const unsigned u = __float_as_uint(x), sign = (u >> 16) & 0x8000, size = u & 0x7fffffff;
    unsigned short h;
    if (size > 0x7f800000) {
        h = 0x7fff;
    } else if (size >= 0x477ff000) { // 65520, which rounds up to infinity
        h = 0x7c00;
    } else if (size < 0x38800000) { // subnormal: adding 0.5 leaves its bits at the end
        h = (unsigned short)(__float_as_uint(__uint_as_float(size) + 0.5f) - 0x3f000000);
    } else {
        h = (unsigned short)((size + 0xfff + ((size >> 13) & 1) - 0x38000000) >> 13);
    }
    to.bits = (unsigned short)(sign | h);
}

#ifndef FALCON_FIBERS // else shim_fibers.h has it
template <class Thread> static void run_block(const unsigned *block, const Thread &thread) {
    for (unsigned w = 0; w < block[2]; ++w)
        for (unsigned v = 0; v < block[1]; ++v)
            for (unsigned u = 0; u < block[0]; ++u)
                thread(u, v, w);
}
#endif

template <class... Arguments, size_t... At>
static int run(void (*kernel)(Arguments...), const unsigned *first, const unsigned *grid, const unsigned *block,
               void **arguments, const size_t *sizes, size_t count, std::index_sequence<At...>) {
    const size_t wanted[] = {sizeof(Arguments)...};
    if (sizes && count != sizeof...(Arguments))
        return -1;
    for (size_t at = 0; sizes && at < count; ++at) // the driver is not told sizes
        if (sizes[at] != wanted[at])
            return (int)at + 1;
    blockDim = {block[0], block[1], block[2]};
    gridDim = {grid[0], grid[1], grid[2]};
    for (unsigned z = 0; z < grid[2]; ++z)
        for (unsigned y = 0; y < grid[1]; ++y)
            for (unsigned x = first[0]; x < grid[0]; ++x)
                run_block(block, [&](unsigned u, unsigned v, unsigned w) {
                    blockIdx = {x, y, z};
                    threadIdx = {u, v, w};
                    kernel(*static_cast<Arguments *>(arguments[At])...);
                });
    return 0;
}

template <class... Arguments>
static int start(void (*kernel)(Arguments...), const unsigned *first, const unsigned *grid, const unsigned *block,
                 void **arguments, const size_t *sizes, size_t count) {
    return run(kernel, first, grid, block, arguments, sizes, count, std::index_sequence_for<Arguments...>());
}

// The entry for a kernel: thread blocks from `first` on along x. Returns 0, -1 for a wrong number of
// arguments, else one plus the number of one of a wrong size.
#define FALCON_LAUNCH(KERNEL)                                                                                          \
    extern "C" int launch_##KERNEL(const unsigned *first, const unsigned *grid, const unsigned *block,                 \
                                   void **arguments, const size_t *sizes, size_t count) {                              \
        return start(&KERNEL, first, grid, block, arguments, sizes, count);                                            \
    }
