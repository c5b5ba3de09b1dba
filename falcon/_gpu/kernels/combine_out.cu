// Combine H: reads every product once, applies alpha and beta, adds c, and writes out once.
// Macros and Sums come from falcon/codegen/cuda_emit.py. Axes are named as in combine_in.cu.
//
//   h         planes of height x width
//   out       element (0, 0) of block (0, 0) of C, or of the part of it that is written
//   c         the matrix that is added, in the same order as out; never read where beta is zero
//   flags     null, or flags, zero at first: whether any region of REGION_MAJOR x REGION_MINOR has a sum
//             that is not finite, then the same of every region
//   aligned   out, c, their leading dimensions and step_minor allow accesses of WIDTH elements
//   powers_*  null, or the powers by which lines of A and B that are C's lines along this axis were
//   first_*   multiplied, and the entry of the first: sums are multiplied by their reciprocals

namespace FALCON_SUMS {

typedef FALCON_T T;

template <int W> struct Planes {
    const S *at;
    long long plane;
    FALCON_INLINE Vec<S, W> operator()(int p) const { return load_vec<S, W>(at + times(p, plane)); }
};

struct Result {
    T *out;
    const T *c;
    long long out_i, out_j, c_i, c_j;
    S alpha, beta;
    Powers<S> major, minor;
    int by_columns;
    bool finite;

    FALCON_INLINE void at(long long y) {
        out += y;
        c += y;
        minor.advance(y);
    }
    template <int W> FALCON_INLINE void finish(int i, int j, const Vec<S, W> &sum) {
        finite = finite && is_finite(sum);
        Vec<S, W> value = alpha * sum;
        if (major.step || minor.step) {
            const S line = *major.of(by_columns ? j : i);
            const Vec<S, W> lines = load_vec<S, W>(minor.of(by_columns ? i : j));
            finite = finite && line >= S(0) && is_known(lines);
            // By both at once: one alone could leave a subnormal number.
            value = alpha * (absolute(line * lines) * sum);
        }
        if (beta != S(0))
            value = value + beta * load_vec<S, W>(c + times(i, c_i) + times(j, c_j));
        store_vec<S, W>(out + times(i, out_i) + times(j, out_j), value);
    }
};

template <int W> struct Whole : Result {
    FALCON_INLINE void operator()(int i, int j, const Vec<S, W> &sum) { finish(i, j, sum); }
};

struct Guarded : Result {
    const Edge edge;
    FALCON_INLINE void operator()(int i, int j, const Vec<S, 1> &sum) {
        if (edge.has(i, j))
            finish(i, j, sum);
    }
};

} // namespace FALCON_SUMS

extern "C" __global__ void __launch_bounds__(FALCON_THREADS, FALCON_BLOCKS)
    FALCON_NAME(const FALCON_S *__restrict__ h, FALCON_T *out, const FALCON_T *c, long long ld, long long ld_c,
                long long major, long long minor, long long step_major, long long step_minor, long long height,
                long long width, FALCON_S alpha, FALCON_S beta, unsigned *flags, int by_columns, int aligned,
                const State *__restrict__ powers_major, long long first_major, const State *__restrict__ powers_minor,
                long long first_minor) {
    using namespace FALCON_SUMS;
    const int rows = by_columns ? FALCON_Q : FALCON_P, columns = by_columns ? FALCON_P : FALCON_Q;
    const Place place =
        place_of<FALCON_WIDTH>(blockIdx.x, major, minor, step_major, step_minor, width, rows, columns, aligned);
    const long long x = place.x;
    if (x >= height)
        return;
    const long long up = step_major * ld, up_c = step_major * ld_c;
    Powers<S> of_major(powers_major, first_major, step_major, FALCON_NOT_ONE);
    of_major.advance(x);
    const Result origin = {out + x * ld,
                           c + x * ld_c,
                           by_columns ? step_minor : up,
                           by_columns ? up : step_minor,
                           by_columns ? step_minor : up_c,
                           by_columns ? up_c : step_minor,
                           alpha,
                           beta,
                           of_major,
                           {powers_minor, first_minor, step_minor, FALCON_NOT_ONE},
                           by_columns,
                           true};
    const long long plane = height * width;
    unsigned *flag = flags;
    if (flags) {
        const long long regions = (width + FALCON_REGION_MINOR - 1) / FALCON_REGION_MINOR;
        flag += 1 + x / FALCON_REGION_MAJOR * regions + place.start / FALCON_REGION_MINOR;
    }
    static_assert(FALCON_REGION_MINOR % (FALCON_LANES * FALCON_WIDTH) == 0, "a warp is in one region");
    bool finite = true;
    if (place.whole) {
        const long long y = place.y;
        const Planes<FALCON_WIDTH> load = {h + x * width + y, plane};
        Whole<FALCON_WIDTH> store = {origin};
        store.at(y);
        Sums<FALCON_WIDTH>::run(load, store);
        finite = store.finite;
    } else {
#pragma unroll 1
        for (int e = 0; e < FALCON_WIDTH; ++e) {
            const long long y = place.y + e * place.step;
            if (y >= width)
                break;
            const Planes<1> load = {h + x * width + y, plane};
            Guarded store = {origin, Edge(major - x, minor - y, step_major, step_minor, by_columns)};
            store.at(y);
            Sums<1>::run(load, store);
            finite = finite && store.finite;
        }
    }
    if (flags && !finite) {
        *flags = 1;
        *flag = 1;
    }
}
