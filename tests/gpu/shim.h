// Enough of CUDA to compile the kernels, which have no barriers, as plain C++ and to run them
// thread by thread. Bound in front of a generated source; shim_end.h goes behind it.
#include <cstddef>
#include <cstring>
#include <utility>

// What the kernels use of <cmath>, which takes the compiler longer than a kernel.
extern "C" {
double fabs(double x);
int ilogb(double x);
double ldexp(double x, int power);
double log2(double x);
double rint(double x);
double sqrt(double x);
}

#define FALCON_HOST 1
#define FALCON_INLINE inline
#define __global__
#define __device__
#define __launch_bounds__(...)

struct Index3 {
    unsigned x, y, z;
};
#ifdef FALCON_FIBERS // which any thread may resume, one at a time
static Index3 blockIdx, threadIdx, blockDim, gridDim;
#else
static thread_local Index3 blockIdx, threadIdx, blockDim, gridDim;
#endif

static unsigned __float_as_uint(float x) {
    unsigned u;
    std::memcpy(&u, &x, sizeof u);
    return u;
}
// The threads of a warp run one after another: the last one has the whole.
template <class X> static X warp_total(const X &x) {
    static thread_local X total;
    if (threadIdx.x)
        total.add(x);
    else
        total = x;
    return total;
}
static float segment_sum(float x, long long segment) {
    static thread_local float sums[4096]; // 16 threads have a segment, and a warp its own ones
    float &sum = sums[segment % 4096];
    return sum = threadIdx.x % 16 ? sum + x : x;
}
static float __uint_as_float(unsigned u) {
    float x;
    std::memcpy(&x, &u, sizeof x);
    return x;
}
static unsigned atomicMax(unsigned *at, unsigned value) {
    const unsigned before = *at;
    *at = before > value ? before : value;
    return before;
}

static unsigned atomicAdd(unsigned *at, unsigned value) {
    *at += value;
    return *at - value;
}
static unsigned atomicMin(unsigned *at, unsigned value) {
    const unsigned before = *at;
    *at = before < value ? before : value;
    return before;
}

struct half_t;
float widen(half_t x);
void narrow(float x, half_t &to);
