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
}

#define FALCON_HOST 1
#define FALCON_INLINE inline
#define __global__
#define __device__
#define __launch_bounds__(...)

struct Index3 {
    unsigned x, y, z;
};
static thread_local Index3 blockIdx, threadIdx, blockDim, gridDim;

static unsigned __float_as_uint(float x) {
    unsigned u;
    std::memcpy(&u, &x, sizeof u);
    return u;
}
static double warp_sum(double x) {
    static thread_local double sum;
    return sum = threadIdx.x ? sum + x : x;
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

struct half_t;
float widen(half_t x);
void narrow(float x, half_t &to);
