// What fused.cu needs of a Hopper GPU, by our reading of PTX: barriers in shared memory that count arrivals
// and bytes, the tensor memory accelerator, which copies boxes late and in any order, and tensor cores,
// which read shared memory by descriptors when a block of products ends, and cut sums off.
#include <map>

#undef __shared__
#define __shared__
#define __grid_constant__

extern "C" {
int falcon_shared_bytes, falcon_terms, falcon_bits; // terms: 0: sums are not cut off
int falcon_loses;                                   // whether no load ends
}
__align__(1024) unsigned char memory[227 * 1024];

template <class X> static X __shfl_sync(unsigned, X value, int) {
    return value; // of all threads of a warp
}

namespace fused {

typedef unsigned u32;
typedef unsigned long long u64;

struct Barrier {
    int arrivals, missing;
    long bytes;
    u32 phase;
    void check() {
        if (missing < 0)
            fail("too many arrivals at a barrier");
        if (!missing && !bytes)
            phase ^= 1, missing = arrivals;
    }
};
struct Load {
    u32 to, barrier;
    const u64 *map;
    int at[4];
};
struct Product {
    float *sums;
    u64 a, b;
    int keep, lines_a, lines_b;
};
static std::map<u32, Barrier> barriers;
static std::vector<Load> loads;
static std::map<unsigned, std::vector<Product>> products; // by thread
static unsigned seed;

static u32 shared(const void *at) {
    return (u32)((const unsigned char *)at - memory);
}
static void prepare(u32 barrier, int arrivals) {
    if (barrier % 8 || barrier + 8 > (u32)falcon_shared_bytes)
        fail("a barrier outside of shared memory");
    barriers[barrier] = {arrivals, arrivals, 0, 0};
}
static void expect(u32 barrier, u32 bytes) {
    Barrier &x = barriers.at(barrier);
    x.bytes += bytes, --x.missing, x.check();
}
static void arrive(u32 barrier) {
    Barrier &x = barriers.at(barrier);
    --x.missing, x.check();
}
static bool has_passed(u32 barrier, u32 phase) {
    fibers::yield();
    return barriers.at(barrier).phase != phase;
}
static void begin_block() {
    __syncthreads();
}
static void take_registers(bool) {}

// --- loads -----------------------------------------------------------------------------------------

template <class Map> static void load_box(u32 to, const Map &map, u32 barrier, int x, int y, int part, int matrix) {
    loads.push_back({to, barrier, map.words, {x, y, part, matrix}});
}
// The address in shared memory: 16 bytes at a time change places with those of other rows.
static u32 swizzled(u32 at) {
    return at ^ (at >> 7 & 7) << 4;
}
// Words of a map: address, four sizes, three strides in bytes, four sizes of a box (fake_driver.py).
static void copy_box(const Load &load) {
    const u64 *sizes = load.map + 1, *strides = load.map + 5, *box = load.map + 8;
    if (load.to % 1024 || load.to + box[0] * box[1] * 2 > (u64)falcon_shared_bytes)
        fail("a box outside of shared memory");
    for (u32 y = 0; y < box[1]; ++y)
        for (u32 x = 0; x < box[0]; ++x) {
            const u64 at[] = {(u64)load.at[0] + x, (u64)load.at[1] + y, (u64)load.at[2], (u64)load.at[3]};
            const char *from = (const char *)load.map[0] + at[0] * 2;
            bool inside = at[0] < sizes[0];
            for (int axis = 1; axis < 4; ++axis)
                inside = inside && at[axis] < sizes[axis], from += at[axis] * strides[axis - 1];
            unsigned short value = 0;
            if (inside)
                memcpy(&value, from, 2);
            memcpy(memory + swizzled(load.to + (y * (u32)box[0] + x) * 2), &value, 2);
        }
    Barrier &barrier = barriers.at(load.barrier);
    barrier.bytes -= (long)(box[0] * box[1] * 2), barrier.check();
}
static void some_load_ends() {
    if (loads.empty() || falcon_loses)
        return;
    seed = seed * 1664525u + 1013904223u;
    const size_t at = (seed >> 8) % (loads.size() < 8 ? loads.size() : 8);
    const Load load = loads[at];
    loads.erase(loads.begin() + (long)at);
    copy_box(load);
}

// --- products --------------------------------------------------------------------------------------

// Element k of a line, as a descriptor says.
static float element(u64 descriptor, int line, int k, int lines) {
    const u32 start = (u32)(descriptor & 0x3fff) << 4, leading = (u32)(descriptor >> 16 & 0x3fff) << 4;
    const u32 stride = (u32)(descriptor >> 32 & 0x3fff) << 4;
    if (descriptor >> 62 != 1)
        fail("rows of 128 bytes are swizzled");
    const u32 at = lines ? line / 64 * leading + k / 8 * stride + k % 8 * 128 + line % 64 * 2
                         : line / 8 * stride + line % 8 * 128 + k * 2;
    unsigned short x;
    memcpy(&x, memory + swizzled(start + at), 2);
    const int power = x >> 10 & 31, digits = x & 0x3ff;
    float size = power ? (float)ldexp(1024.0 + digits, power - 25) : (float)ldexp(digits, -24);
    if (power == 31)
        size = digits ? __builtin_nanf("") : __builtin_inff();
    return x & 0x8000 ? -size : size;
}
// Of normal numbers, as all are here: without calls, for speed.
static int exponent(double x) {
    u64 bits;
    memcpy(&bits, &x, 8);
    return x == 0 ? -5000 : (int)(bits >> 52 & 2047) - 1023;
}
static double power_of_two(int exponent) {
    const u64 bits = (u64)(exponent + 1023) << 52;
    double x;
    memcpy(&x, &bits, 8);
    return x;
}
static double cut_off(double x) {
    return (double)(long long)x;
}
// A sum of 16 products and what was there: so many at a time are aligned to the largest, and cut off. What is
// not finite stays so.
static float added(float sum, const float *a, const float *b) {
    double whole = sum, found = sum;
    for (int k = 0; k < 16; ++k)
        whole += (double)a[k] * b[k];
    if (!falcon_terms || whole - whole != 0)
        return (float)whole;
    for (int first = 0; first < 16; first += falcon_terms) {
        int largest = exponent(found);
        for (int k = first; k < first + falcon_terms; ++k) {
            const int own = exponent(a[k]) + exponent(b[k]);
            largest = own > largest ? own : largest;
        }
        if (largest <= -4000)
            continue;
        const double up = power_of_two(23 + falcon_bits - largest), down = power_of_two(largest - 23 - falcon_bits);
        double cut = cut_off(found * up);
        for (int k = first; k < first + falcon_terms; ++k)
            cut += cut_off((double)a[k] * b[k] * up);
        const int to_float32 = cut == 0 ? 0 : 23 - exponent(cut);
        found = cut_off(cut * power_of_two(to_float32)) * power_of_two(-to_float32) * down;
    }
    return (float)found;
}
static void multiply_on_host(float *sums, u64 a, u64 b, int keep, int lines_a, int lines_b) {
    products[threadIdx.x].push_back({sums, a, b, keep, lines_a, lines_b});
}
// A thread has two rows, 8 apart, and of 8 columns two neighbours.
template <int N> static void end_products(float (&)[N]) {
    fibers::yield();
    const int thread = threadIdx.x % 128, row = thread / 32 * 16 + thread % 32 / 4;
    for (const Product &x : products[threadIdx.x]) {
        float p[2][16], q[16];
        bool zeros[2] = {true, true};
        for (int down = 0; down < 2; ++down)
            for (int k = 0; k < 16; ++k) {
                p[down][k] = element(x.a, row + 8 * down, k, x.lines_a);
                zeros[down] = zeros[down] && p[down][k] == 0;
            }
        for (int column = 0; column < N / 2; ++column) {
            for (int k = 0; k < 16 && !(zeros[0] && zeros[1]); ++k)
                q[k] = element(x.b, column / 2 * 8 + thread % 4 * 2 + column % 2, k, x.lines_b);
            for (int down = 0; down < 2; ++down) {
                float &sum = x.sums[column / 2 * 4 + 2 * down + column % 2];
                const float before = x.keep ? sum : 0;
                sum = zeros[down] ? before : added(before, p[down], q);
            }
        }
    }
    products[threadIdx.x].clear();
}
static void begin_products() {}

} // namespace fused

namespace fused {

static void begin_all() {
    barriers.clear(), loads.clear();
    memset(memory, falcon_loses ? 0 : 0xff, sizeof memory); // NaN, unless the kernel has to tell
}
static void some_loads_end() {
    for (int i = 0; i < 3; ++i)
        some_load_ends();
}
static void end_all() {
    if (!loads.empty() && !falcon_loses)
        fail("a block ended before its loads");
}
static const bool hooks = (fibers::begin = begin_all, fibers::between = some_loads_end, fibers::end = end_all, true);

} // namespace fused
