// Marks every region of a block of C if A and B are too uneven for the scheme: repair.cu then forms
// the classical product.
//
//   rows, columns    results of spread.cu for A and for B; 0: the scheme adds up no lines there
//   most             the largest product of both with which the scheme may run
//   count            number of regions: the marks begin with a word for all of them

extern "C" __global__ void __launch_bounds__(256)
    FALCON_NAME(const unsigned *rows, const unsigned *columns, float most, unsigned *marks, long long count) {
    const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const float of_rows = *rows ? __uint_as_float(*rows) : 1.0f,
                of_columns = *columns ? __uint_as_float(*columns) : 1.0f;
    if (at <= count && !(of_rows * of_columns <= most))
        marks[at] = 1;
}

#undef FALCON_NAME
#undef FALCON_A
#undef FALCON_T
#undef FALCON_S
