// Combine A or B, as a function that combine.cu calls: reads every element of the matrix once, forms
// all sums in registers and writes them once. Macros and Sums come from falcon/codegen/cuda_emit.py.
//
// The matrix is P x Q blocks. "Major" is the axis whose neighbours are ld elements apart, "minor"
// the one whose neighbours are adjacent in memory: rows and columns of a matrix stored by rows, the
// other way round for one stored by columns. A thread handles the same position (x, y) of all
// blocks, WIDTH elements at a time if memory is aligned and no block ends before them, else one at
// a time; elements beyond the edge of the matrix count as zero.
//
//   in        element (0, 0) of block (0, 0), or of the part of it that is combined
//   out       R blocks of height x width, or of each PARTS parts, whose sum the block is to 8 bits per
//             part; the members of a chain, part by part, follow one another along the minor axis
//             (along_minor), or in memory as a whole
//   major     sizes of the matrix from there
//   minor
//   step_*    distance between blocks along each axis
//   height    size of that part of a block; width is a multiple of WIDTH
//   width
//   aligned   in, ld and step_minor allow accesses of WIDTH elements
//   powers    null, or powers by which rows of A or columns of B are multiplied (powers.cu), and the
//   first     entry in their tables of the first line of the part in block (0, 0): of repeated powers
//             if all elements of a vector are in one line (along_minor)
//   steps     null, or powers by which columns of A or rows of B are multiplied (units.cu), and the entry of
//   step      the first of the part in block (0, 0)
//   means     with FALCON_CENTRED: those that are subtracted from A (means.cu), from the part's first row
//   units     on, how many of a segment there are, and the part's first place in a row
//   inner

namespace FALCON_SUMS {

typedef FALCON_T T;
typedef FALCON_O O;

struct Source {
    const T *at;
    long long step_i, step_j;
    Powers<S> powers;
    int apart; // of `multiplied`
    // Of the first step along K of this thread in block (0, 0), or null; how far they are apart in the next
    // block, and whether neighbours have powers of their own.
    const S *steps;
    long long step_inner;
    int along_minor;
    template <int W> FALCON_INLINE Vec<S, W> evened(const Vec<S, W> &x, int i, int j) const {
        if (!steps)
            return x;
        const S *step = steps + times(FALCON_STEP, step_inner);
        return along_minor ? multiplied(x, step, FALCON_ACCESS_BYTES / (int)sizeof(S)) : *step * x;
    }
#if FALCON_CENTRED
    const float *means; // of this thread's row of block (0, 0)
    long long units, inner, step_rows;
    int by_columns;
    template <int W> FALCON_INLINE Vec<S, W> centred(const Vec<S, W> &x, int i, int j) const {
        const float *mean = means + (inner + times(j, step_inner)) / FALCON_SEGMENT * units + times(i, step_rows);
        return x - (by_columns ? load_now<S, W>(mean) : all<W>(*mean));
    }
#else
    template <int W> FALCON_INLINE const Vec<S, W> &centred(const Vec<S, W> &x, int, int) const { return x; }
#endif
    FALCON_INLINE void advance(long long y, int along_minor) {
        at += y;
        powers.advance(along_minor ? 0 : y);
        steps += steps && along_minor ? y : 0;
#if FALCON_CENTRED
        means += by_columns ? y : 0;
        inner += by_columns ? 0 : y;
#endif
    }
};

template <int W> struct Whole : Source {
    FALCON_INLINE Vec<S, W> operator()(int i, int j) const {
        const Vec<S, W> x = load_vec<S, W>(at + times(i, step_i) + times(j, step_j));
        return multiplied(centred(evened(x, i, j), i, j), powers.of(FALCON_LINE), apart);
    }
};

struct Guarded : Source {
    const Edge edge;
    FALCON_INLINE Vec<S, 1> operator()(int i, int j) const {
        if (!edge.has(i, j))
            return {S(0)};
        const Vec<S, 1> x = {(S)widen(at[i * step_i + j * step_j])};
        return *powers.of(FALCON_LINE) * centred(evened(x, i, j), i, j);
    }
};

template <int W> struct Target {
    // This thread's position in block 0 if that is in no chain; distances between blocks and between
    // the members of a chain, and what each further member of the chain adds to the start.
    O *out;
    long long plane, member, longer;
    FALCON_INLINE void put(int block, int position, int length, const Vec<S, W> &sum) {
        O *to = out + times(block, plane);
        if (length > 1)
            to += times(length - 1, longer) + times(position, member);
        store_vec<S, W>(to, sum);
    }
    FALCON_INLINE void operator()(int block, int position, int length, Vec<S, W> sum) {
#pragma unroll
        for (int part = 0; part < FALCON_PARTS; ++part) {
            put(FALCON_PARTS * block, length * (FALCON_PLACE) + position, FALCON_PARTS * length, sum);
            if (part + 1 < FALCON_PARTS)
                sum = sum - rounded<O>(sum);
        }
    }
};

FALCON_INLINE void combine(unsigned block, const T *__restrict__ in, O *__restrict__ out, long long ld, long long major,
                           long long minor, long long step_major, long long step_minor, long long height,
                           long long width, int by_columns, int along_minor, int aligned,
                           const State *__restrict__ powers, long long first, const State *__restrict__ steps,
                           long long step, const float *__restrict__ means, long long units, long long inner) {
    const int rows = by_columns ? FALCON_Q : FALCON_P, columns = by_columns ? FALCON_P : FALCON_Q;
    constexpr int repeated = FALCON_ACCESS_BYTES / sizeof(S);
    const Place place =
        place_of<FALCON_WIDTH>(block, major, minor, step_major, step_minor, width, rows, columns, aligned);
    const long long x = place.x;
    if (x >= height)
        return;
    const long long up = step_major * ld;
    Powers<S> of_lines(powers, first, along_minor ? repeated * step_major : step_minor, FALCON_MULTIPLIED);
    of_lines.advance(along_minor ? repeated * x : 0);
    Source origin = {in + x * ld, by_columns ? step_minor : up, by_columns ? up : step_minor, of_lines,
                     along_minor ? 0 : repeated};
    origin.steps = steps && steps->state ? steps->table<S>() + step + (along_minor ? 0 : x) : nullptr;
    origin.step_inner = along_minor ? step_minor : step_major, origin.along_minor = along_minor;
#if FALCON_CENTRED
    origin.means = means + (by_columns ? 0 : x), origin.units = units, origin.by_columns = by_columns;
    origin.inner = inner + (by_columns ? x : 0);
    origin.step_rows = by_columns ? step_minor : step_major;
#endif
    const long long plane = height * width, row = x * width;
    const long long member = along_minor ? width : plane, longer = along_minor ? row : 0;
    if (place.whole) {
        const long long y = place.y;
        Whole<FALCON_WIDTH> load = {origin};
        load.advance(y, along_minor);
        Target<FALCON_WIDTH> store = {out + row + y, plane, member, longer};
        Sums<FALCON_WIDTH>::run(load, store);
        return;
    }
#pragma unroll 1
    for (int e = 0; e < FALCON_WIDTH; ++e) {
        const long long y = place.y + e * place.step;
        if (y >= width)
            return;
        Guarded load = {origin, Edge(major - x, minor - y, step_major, step_minor, by_columns)};
        load.advance(y, along_minor);
        Target<1> store = {out + row + y, plane, member, longer};
        Sums<1>::run(load, store);
    }
}

} // namespace FALCON_SUMS
