// Units along K: powers of two by which columns of A are multiplied, and rows of B divided, before anything
// else, as falcon/_core/units.py does on the host where B is packed: ::
//
//     A B = (A D^-1) (D B)         where (sum 1 / B_k) (sum B_k) > LOST K^2
//
// B_k is what LINES columns of B, brought to norm 1, have in row k; D brings it to its mean. What that says is
// true of A whose columns are the inverse of B's rows, and D does no harm to another. Columns of zeros, or
// that are not finite, do not count, nor do rows of which the sample has more zeros than others: of sparse
// data a few numbers say nothing.
//
//   x       the transpose of B: lines x inner, any strides
//   steps   `State`, not zero if there are units, then two tables: the powers of A's columns, of whole
//           units of `inner`, and of B's rows
//   most    the largest exponent
//
// One thread block: the sums, and so the result, are always the same.

namespace units {

constexpr int LINES = FALCON_SAMPLED, TOGETHER = 4, THREADS = FALCON_SAMPLE_THREADS, PER_LINE = THREADS / LINES;
// 16 numbers of each row come to 1.14 (normal), 1.3 (exponential), 1.7 to 1.9 (lognormal, t of 3) by chance.
constexpr double LOST = 2;

// The sum over all threads, in every thread; `shared`: of THREADS numbers.
FALCON_INLINE double total(double x, double *shared) {
    __syncthreads();
    shared[threadIdx.x] = x;
    for (int apart = THREADS / 2; apart > 0; apart /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < apart)
            shared[threadIdx.x] += shared[threadIdx.x + apart];
    }
    __syncthreads();
    return shared[0];
}

} // namespace units

extern "C" __global__ void __launch_bounds__(FALCON_SAMPLE_THREADS)
    FALCON_NAME(long long inner, const FALCON_A *__restrict__ x, long long line_stride, long long inner_stride,
                long long lines, State *steps, int most) {
    using namespace units;
    __shared__ double shared[THREADS], norms[LINES];
    const auto square = [&](int line, long long k) {
        // Neighbours share sectors of memory.
        const long long spread = (lines - TOGETHER) * (line / TOGETHER) / (LINES / TOGETHER - 1) + line % TOGETHER;
        const long long number = lines <= LINES ? line : spread;
        const double value = number < lines ? (double)widen(x[number * line_stride + k * inner_stride]) : 0;
        return value * value;
    };
    double sum = 0;
    const int own = threadIdx.x / PER_LINE;
#pragma unroll 8
    for (long long k = threadIdx.x % PER_LINE; k < inner; k += PER_LINE)
        sum += square(own, k);
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x % PER_LINE == 0) {
        for (int i = 1; i < PER_LINE; ++i)
            sum += shared[threadIdx.x + i];
        norms[own] = sum > 0 && sum - sum == 0 ? 1 / sum : 0;
    }
    __syncthreads();
    // Sizes, in the memory of the powers; each thread reads its own ones.
    const long long units = (inner + FALCON_UNIT - 1) / FALCON_UNIT * FALCON_UNIT;
    FALCON_S *of_a = reinterpret_cast<FALCON_S *>(steps + 1), *of_b = of_a + units;
    double sizes = 0, inverses = 0, seen = 0, exponents = 0;
    for (long long k = threadIdx.x; k < inner; k += THREADS) {
        double size = 0;
        int zeros = 0;
#pragma unroll 8
        for (int line = 0; line < LINES; ++line)
            if (norms[line] != 0) {
                const double share = square(line, k) * norms[line];
                size += share, zeros += share > 0 ? -1 : 1;
            }
        of_b[k] = FALCON_S(zeros > 0 ? 0 : size);
        if (of_b[k] > 0)
            sizes += of_b[k], inverses += 1 / (double)of_b[k], exponents += rint(0.5 * log2((double)of_b[k])), ++seen;
    }
    sizes = total(sizes, shared), inverses = total(inverses, shared), seen = total(seen, shared);
    const double usual = rint(total(exponents, shared) / (seen > 0 ? seen : 1));
    const bool lost = sizes * inverses > LOST * seen * seen;
    if (threadIdx.x == 0)
        *steps = {lost ? FALCON_MULTIPLIED : 0, 0, 0};
    for (long long k = threadIdx.x; k < inner && lost; k += THREADS) {
        int exponent = of_b[k] > 0 ? (int)(rint(0.5 * log2((double)of_b[k])) - usual) : 0;
        exponent = exponent > most ? most : exponent < -most ? -most : exponent;
        of_a[k] = FALCON_S(ldexp(1.0, exponent)), of_b[k] = FALCON_S(ldexp(1.0, -exponent));
    }
}
