// Group Combine A or B: every element of the matrix is read once, all sums are formed in registers
// and written once. Macros and Sums come from falcon/codegen/cuda_emit.py.
//
// The matrix is P x Q blocks. "Major" is the axis whose neighbours are ld elements apart, "minor"
// the one whose neighbours touch: rows and columns of a matrix stored by rows, the other way round
// for one stored by columns. A thread handles the same position (x, y) of all blocks, WIDTH
// elements at a time where memory is aligned and all blocks reach that far, else one at a time;
// what lies beyond the edge of the matrix counts as zero.
//
//   in        element (0, 0) of block (0, 0), or of the part of the block that is wanted
//   out       R blocks of height x width; those of a chain lie side by side along the minor axis
//             (along_minor), or behind one another
//   major     sizes of the matrix from there
//   minor
//   step_*    distance between blocks along each axis
//   height    size of the wanted part of a block; width is a multiple of WIDTH
//   width
//   aligned   in, ld and step_minor allow accesses of WIDTH elements

namespace FALCON_SUMS {

typedef FALCON_T T;

struct Source {
    const T *at;
    long long step_i, step_j;
};

template <int W> struct Whole : Source {
    FALCON_INLINE explicit Whole(const Source &source) : Source(source) {}
    FALCON_INLINE Vec<S, W> operator()(int i, int j) const { return load_vec<S, W>(at + i * step_i + j * step_j); }
};

struct Guarded : Source {
    // How much of the matrix is left from here along the two block axes.
    long long left_i, left_j, size_i, size_j;
    FALCON_INLINE explicit Guarded(const Source &source) : Source(source) {}
    FALCON_INLINE Vec<S, 1> operator()(int i, int j) const {
        const bool inside = i * size_i < left_i && j * size_j < left_j;
        return {inside ? (S)widen(at[i * step_i + j * step_j]) : S(0)};
    }
};

template <int W> struct Target {
    T *out;
    long long plane, x, y, width;
    bool along_minor;
    FALCON_INLINE void operator()(int block, int position, int length, const Vec<S, W> &sum) {
        const long long inside = along_minor ? (x * length + position) * width : position * plane + x * width;
        store_vec<S, W>(out + block * plane + inside + y, sum);
    }
};

} // namespace FALCON_SUMS

extern "C" __global__ void __launch_bounds__(FALCON_THREADS, FALCON_BLOCKS)
    FALCON_NAME(const FALCON_T *__restrict__ in, FALCON_T *__restrict__ out, long long ld, long long major,
                long long minor, long long step_major, long long step_minor, long long height, long long width,
                int by_columns, int along_minor, int aligned) {
    using namespace FALCON_SUMS;
    constexpr int tile = FALCON_LANES * FALCON_WIDTH;
    const unsigned tiles = (unsigned)((width + tile - 1) / tile);
    const long long x = (long long)(blockIdx.x / tiles) * blockDim.y + threadIdx.y;
    const long long start = (long long)(blockIdx.x % tiles) * tile;
    if (x >= height)
        return;
    const long long far_major = (long long)((by_columns ? FALCON_Q : FALCON_P) - 1) * step_major;
    const long long far_minor = (long long)((by_columns ? FALCON_P : FALCON_Q) - 1) * step_minor;
    const long long up = step_major * ld;
    const Source origin = {in + x * ld, by_columns ? step_minor : up, by_columns ? up : step_minor};
    const long long plane = height * width;
    if (aligned && start + tile <= width && far_minor + start + tile <= minor && far_major + x < major) {
        const long long y = start + (long long)threadIdx.x * FALCON_WIDTH;
        Whole<FALCON_WIDTH> load(origin);
        load.at += y;
        Target<FALCON_WIDTH> store = {out, plane, x, y, width, along_minor != 0};
        Sums<FALCON_WIDTH>::run(load, store);
        return;
    }
#pragma unroll 1
    for (int e = 0; e < FALCON_WIDTH; ++e) {
        const long long y = start + e * FALCON_LANES + threadIdx.x;
        if (y >= width)
            return;
        Guarded load(origin);
        load.at += y;
        load.size_i = by_columns ? step_minor : step_major;
        load.size_j = by_columns ? step_major : step_minor;
        load.left_i = by_columns ? minor - y : major - x;
        load.left_j = by_columns ? major - x : minor - y;
        Target<1> store = {out, plane, x, y, width, along_minor != 0};
        Sums<1>::run(load, store);
    }
}

#undef FALCON_NAME
#undef FALCON_SUMS
#undef FALCON_T
#undef FALCON_S
#undef FALCON_P
#undef FALCON_Q
#undef FALCON_WIDTH
#undef FALCON_BLOCKS
#undef FALCON_THREADS
