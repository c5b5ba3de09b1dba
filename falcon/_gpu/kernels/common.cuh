// What all kernels share: element types, vectors of sums, loads and stores. Sizes that the launches
// need too are defined by falcon/_gpu/sources.py.
//
// 16-bit elements are summed in float. Here they are plain bit patterns, converted by single
// instructions, so that no header is needed; with FALCON_HOST (a C++ compiler instead of NVRTC) the
// including file defines those of half_t.

#ifndef FALCON_HOST
#define FALCON_INLINE __device__ __forceinline__
#endif

struct half_t {
    unsigned short bits;
};
struct bfloat_t {
    unsigned short bits;
};

// --- from memory to sums, and back (rounding to nearest, ties to even) --------------------------

template <class T> FALCON_INLINE T widen(T x) {
    return x;
}
template <class S, class T> FALCON_INLINE void narrow(S x, T &to) {
    to = (T)x;
}

#ifndef FALCON_HOST
FALCON_INLINE float widen(half_t x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
FALCON_INLINE void narrow(float x, half_t &to) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
}
#endif
FALCON_INLINE float widen(bfloat_t x) {
    return __uint_as_float((unsigned)x.bits << 16);
}
FALCON_INLINE void narrow(float x, bfloat_t &to) {
#if !defined(FALCON_HOST) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
#else
    const unsigned u = __float_as_uint(x);
    to.bits = x != x ? 0x7fff : (unsigned short)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
#endif
}
FALCON_INLINE void narrow(double x, half_t &to) {
    narrow((float)x, to);
}
FALCON_INLINE void narrow(double x, bfloat_t &to) {
    narrow((float)x, to);
}

// --- W neighbouring elements in registers --------------------------------------------------------
//
// Recursive halves, not arrays: the compiler has no loops to unroll and takes a third less time.

template <class S, int W> struct Vec {
    Vec<S, W / 2> lo, hi;
};
template <class S> struct Vec<S, 1> {
    S at;
};

#define FALCON_ELEMENTWISE(OP)                                                                                         \
    template <class S> FALCON_INLINE Vec<S, 1> operator OP(const Vec<S, 1> &x, const Vec<S, 1> &y) {                   \
        return {x.at OP y.at};                                                                                         \
    }                                                                                                                  \
    template <class S, int W> FALCON_INLINE Vec<S, W> operator OP(const Vec<S, W> &x, const Vec<S, W> &y) {            \
        return {x.lo OP y.lo, x.hi OP y.hi};                                                                           \
    }
FALCON_ELEMENTWISE(+)
FALCON_ELEMENTWISE(-)
FALCON_ELEMENTWISE(*)
#undef FALCON_ELEMENTWISE

template <class S> FALCON_INLINE Vec<S, 1> operator-(const Vec<S, 1> &x) {
    return {-x.at};
}
template <class S> FALCON_INLINE Vec<S, 1> operator*(S scale, const Vec<S, 1> &x) {
    return {scale * x.at};
}
template <class S> FALCON_INLINE Vec<S, 1> absolute(const Vec<S, 1> &x) {
    return {(S)fabs(x.at)};
}
template <class S> FALCON_INLINE bool is_finite(const Vec<S, 1> &x) {
    return x.at - x.at == S(0);
}
// Of reciprocals of powers: see powers.cu.
template <class S> FALCON_INLINE bool is_known(const Vec<S, 1> &x) {
    return x.at >= S(0);
}

template <class S, int W> FALCON_INLINE Vec<S, W> operator-(const Vec<S, W> &x) {
    return {-x.lo, -x.hi};
}
template <class S, int W> FALCON_INLINE Vec<S, W> operator*(S scale, const Vec<S, W> &x) {
    return {scale * x.lo, scale * x.hi};
}
template <class S, int W> FALCON_INLINE Vec<S, W> absolute(const Vec<S, W> &x) {
    return {absolute(x.lo), absolute(x.hi)};
}
template <class S, int W> FALCON_INLINE bool is_finite(const Vec<S, W> &x) {
    return is_finite(x.lo) && is_finite(x.hi);
}
template <class S, int W> FALCON_INLINE bool is_known(const Vec<S, W> &x) {
    return is_known(x.lo) && is_known(x.hi);
}

// The same number W times.
template <int W, class S> FALCON_INLINE Vec<S, W> all(S x) {
    if constexpr (W == 1)
        return {x};
    else
        return {all<W / 2>(x), all<W / 2>(x)};
}

// Rounded to T.
template <class T, class S> FALCON_INLINE Vec<S, 1> rounded(const Vec<S, 1> &x) {
    T to;
    narrow(x.at, to);
    return {(S)widen(to)};
}
template <class T, class S, int W> FALCON_INLINE Vec<S, W> rounded(const Vec<S, W> &x) {
    return {rounded<T>(x.lo), rounded<T>(x.hi)};
}

// --- W elements in memory: one access of W * sizeof(T) bytes, which must be aligned to it --------

template <class T, int W> struct alignas(sizeof(T) * W) Pack {
    T at[W];
};

template <class T, class S> FALCON_INLINE void widen_all(const T *from, Vec<S, 1> &x) {
    x.at = (S)widen(*from);
}
template <class T, class S, int W> FALCON_INLINE void widen_all(const T *from, Vec<S, W> &x) {
    widen_all(from, x.lo);
    widen_all(from + W / 2, x.hi);
}

template <class T, class S> FALCON_INLINE void narrow_all(const Vec<S, 1> &x, T *to) {
    narrow(x.at, *to);
}
template <class T, class S, int W> FALCON_INLINE void narrow_all(const Vec<S, W> &x, T *to) {
    narrow_all(x.lo, to);
    narrow_all(x.hi, to + W / 2);
}
#if !defined(FALCON_HOST) && __CUDA_ARCH__ >= 800
// Two at a time; the first operand of the instruction becomes the upper half.
FALCON_INLINE void narrow_all(const Vec<float, 2> &x, half_t *to) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x.hi.at), "f"(x.lo.at));
    to[0].bits = (unsigned short)pair;
    to[1].bits = (unsigned short)(pair >> 16);
}
FALCON_INLINE void narrow_all(const Vec<float, 2> &x, bfloat_t *to) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x.hi.at), "f"(x.lo.at));
    to[0].bits = (unsigned short)pair;
    to[1].bits = (unsigned short)(pair >> 16);
}
#endif

template <class S, int W, class T> FALCON_INLINE Vec<S, W> load_vec(const T *from) {
    const Pack<T, W> raw = *reinterpret_cast<const Pack<T, W> *>(from);
    Vec<S, W> x;
    widen_all(raw.at, x);
    return x;
}

// With intrinsics, because the compiler would split the store of a vector into words.
template <class Raw> FALCON_INLINE void store_raw(void *to, const Raw &raw) {
    *static_cast<Raw *>(to) = raw;
}
#ifndef FALCON_HOST
FALCON_INLINE void store_raw(void *to, const Pack<unsigned, 2> &raw) {
    __stcg(static_cast<uint2 *>(to), make_uint2(raw.at[0], raw.at[1]));
}
FALCON_INLINE void store_raw(void *to, const Pack<unsigned, 4> &raw) {
    __stcg(static_cast<uint4 *>(to), make_uint4(raw.at[0], raw.at[1], raw.at[2], raw.at[3]));
}
#endif

template <class S, int W, class T> FALCON_INLINE void store_vec(T *to, const Vec<S, W> &x) {
    Pack<T, W> raw;
    narrow_all(x, raw.at);
    if constexpr (sizeof raw < sizeof(unsigned)) {
        store_raw(to, raw);
    } else {
        Pack<unsigned, sizeof raw / sizeof(unsigned)> words;
        memcpy(&words, &raw, sizeof raw);
        store_raw(to, words);
    }
}

// `count` times `step`, hidden from the compiler. With a plain product it would derive each address
// from the previous one ("strength reduction") and keep all of them in registers, two each.
FALCON_INLINE long long times(int count, long long step) {
#ifndef FALCON_HOST
    long long product;
    asm("mul.lo.s64 %0, %1, %2;" : "=l"(product) : "l"(step), "l"((long long)count));
    return product;
#else
    return count * step;
#endif
}

// --- facts about lines: see norms.cu -------------------------------------------------------------

#define FALCON_INFINITY 0x7f800000u

// Of a part of a line: its sum of squares; of products by parts also how many elements are not zero, the
// sum of their exponents, as they are stored, and the least value of a last bit of an element.
struct LinePart {
    double square, exponents;
    int count;
    float granule;
    FALCON_INLINE void add(const LinePart &x) {
        square += x.square;
        exponents += x.exponents;
        count += x.count;
        granule = x.granule < granule ? x.granule : granule;
    }
};

// What is known of all lines, in front of the tables of their powers (powers.cu): whether all powers are
// 1, or which of the values below; of products by parts also the bits of the least last bit of an element
// and of the largest norm.
struct alignas(FALCON_ACCESS_BYTES) State {
    unsigned state, granule, largest;
    template <class S> FALCON_INLINE S *table() { return reinterpret_cast<S *>(this + 1); }
    template <class S> FALCON_INLINE const S *table() const { return reinterpret_cast<const S *>(this + 1); }
};
#define FALCON_NOT_ONE 1u
#define FALCON_MULTIPLIED 2u // some are larger than 1

#ifndef FALCON_HOST
// The sum over a warp, or over the threads that hold a segment, in the last one of these. On a host,
// the threads of a warp run one after another.
FALCON_INLINE LinePart warp_total(LinePart x) {
#pragma unroll
    for (int apart = 1; apart < FALCON_LANES; apart *= 2)
        x.add({__shfl_xor_sync(0xffffffffu, x.square, apart), __shfl_xor_sync(0xffffffffu, x.exponents, apart),
               __shfl_xor_sync(0xffffffffu, x.count, apart), __shfl_xor_sync(0xffffffffu, x.granule, apart)});
    return x;
}
FALCON_INLINE float segment_sum(float x, long long) {
#pragma unroll
    for (int apart = 1; apart < FALCON_SEGMENT * (int)sizeof x / FALCON_ACCESS_BYTES; apart *= 2)
        x += __shfl_xor_sync(0xffffffffu, x, apart);
    return x;
}
#endif

// --- where a thread of a combine kernel works ------------------------------------------------------

// Row x of all blocks, and W * FALCON_LANES columns of it from `start` on for the whole warp.
struct Place {
    long long x, start;
    // The columns of this thread: W of them from `y` on, `step` apart.
    long long y;
    int step;
    // They are one vector: memory is aligned, and no block ends before its end.
    bool whole;
};

template <int W>
FALCON_INLINE Place place_of(unsigned block, long long major, long long minor, long long step_major,
                             long long step_minor, long long width, int blocks_major, int blocks_minor, int aligned) {
    constexpr int tile = FALCON_LANES * W;
    const unsigned tiles = (unsigned)((width + tile - 1) / tile);
    const long long x = (long long)(block / tiles) * blockDim.y + threadIdx.y;
    const long long start = (long long)(block % tiles) * tile;
    // Without vectors, neighbouring threads take neighbouring elements.
    if (!aligned)
        return {x, start, start + threadIdx.x, FALCON_LANES, false};
    const long long y = start + (long long)threadIdx.x * W, end = y + W;
    const bool reached = (blocks_minor - 1) * step_minor + end <= minor && (blocks_major - 1) * step_major + x < major;
    return {x, start, y, 1, end <= width && reached};
}

// The size of the matrix from element (x, y) of block (0, 0) on, and the size of a block.
struct Edge {
    long long left_i, left_j, size_i, size_j;
    FALCON_INLINE Edge(long long left_major, long long left_minor, long long step_major, long long step_minor,
                       int by_columns)
        : left_i(by_columns ? left_minor : left_major), left_j(by_columns ? left_major : left_minor),
          size_i(by_columns ? step_minor : step_major), size_j(by_columns ? step_major : step_minor) {}
    FALCON_INLINE bool has(int i, int j) const { return i * size_i < left_i && j * size_j < left_j; }
};

// The element of a thread, of kernels that have one for each (geometry.element_launch).
struct Element {
    long long major, minor;
    FALCON_INLINE explicit Element(long long size) {
        const unsigned tiles = (unsigned)((size + blockDim.x - 1) / blockDim.x);
        major = (long long)(blockIdx.x / tiles) * blockDim.y + threadIdx.y;
        minor = (long long)(blockIdx.x % tiles) * blockDim.x + threadIdx.x;
    }
};

// --- powers of two by which lines (rows of A, columns of B) are multiplied -----------------------

// What all lines read where all powers are 1.
template <class S> __device__ alignas(FALCON_ACCESS_BYTES) const S ones[] = {1, 1, 1, 1, 1, 1, 1, 1};

// Entries of a table from `first` on, of lines at one place of all blocks, which are `step` apart.
template <class S> struct Powers {
    const S *at;
    long long step; // zero for ones
    FALCON_INLINE Powers(const State *powers, long long first, long long step, unsigned least) : at(ones<S>), step(0) {
        if (powers && powers->state >= least) {
            at = reinterpret_cast<const S *>(powers + 1) + first;
            this->step = step;
        }
    }
    FALCON_INLINE void advance(long long entries) { at += step ? entries : 0; }
    // As `times`, but for each use anew: Combine H would else form all addresses before its branches, and
    // keep them in registers.
    FALCON_INLINE const S *of(int block) const {
#ifndef FALCON_HOST
        long long entries;
        asm volatile("mul.lo.s64 %0, %1, %2;" : "=l"(entries) : "l"(step), "l"((long long)block));
        return at + entries;
#else
        return at + block * step;
#endif
    }
};

// As `load_vec`, where it stands: the compiler would read what several blocks share once and early, keep
// it in registers, and spill others.
template <class S, int W> FALCON_INLINE Vec<S, W> load_now(const S *at) {
#ifdef FALCON_HOST
    return load_vec<S, W>(at);
#else
    Pack<unsigned, W * sizeof(S) / sizeof(unsigned)> words;
    unsigned *u = words.at;
    if constexpr (sizeof words == 16)
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(u[0]), "=r"(u[1]), "=r"(u[2]), "=r"(u[3])
                     : "l"(at));
    else if constexpr (sizeof words == 8)
        asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(u[0]), "=r"(u[1]) : "l"(at));
    else
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(u[0]) : "l"(at));
    Pack<S, W> raw;
    memcpy(&raw, &words, sizeof raw);
    Vec<S, W> x;
    widen_all(raw.at, x);
    return x;
#endif
}

// Times W powers; of more than 16 bytes, each 16 bytes are `apart` from the others.
template <class S, int W> FALCON_INLINE Vec<S, W> multiplied(const Vec<S, W> &x, const S *power, int apart) {
    if constexpr (W * sizeof(S) > FALCON_ACCESS_BYTES)
        return {multiplied(x.lo, power, apart), multiplied(x.hi, power + apart, apart)};
    else
        return load_now<S, W>(power) * x;
}
