// Combine A and B in one launch: `first` thread blocks for A, the others for B. Arguments as in
// combine_in.cu.

extern "C" __global__ void __launch_bounds__(FALCON_THREADS, FALCON_BLOCKS)
    FALCON_NAME(long long first, const FALCON_T *__restrict__ in_a, FALCON_O *__restrict__ out_a, long long ld_a,
                long long major_a, long long minor_a, long long step_major_a, long long step_minor_a,
                long long height_a, long long width_a, int by_columns_a, int along_minor_a, int aligned_a,
                const State *__restrict__ powers_a, long long first_a, const State *__restrict__ steps_a,
                long long step_a, const float *__restrict__ means, long long units, long long inner,
                const FALCON_T *__restrict__ in_b, FALCON_O *__restrict__ out_b, long long ld_b, long long major_b,
                long long minor_b, long long step_major_b, long long step_minor_b, long long height_b,
                long long width_b, int by_columns_b, int along_minor_b, int aligned_b,
                const State *__restrict__ powers_b, long long first_b, const State *__restrict__ steps_b,
                long long step_b) {
    if (blockIdx.x < first)
        FALCON_OF_A::combine(blockIdx.x, in_a, out_a, ld_a, major_a, minor_a, step_major_a, step_minor_a, height_a,
                             width_a, by_columns_a, along_minor_a, aligned_a, powers_a, first_a, steps_a, step_a, means,
                             units, inner);
    else
        FALCON_OF_B::combine(blockIdx.x - (unsigned)first, in_b, out_b, ld_b, major_b, minor_b, step_major_b,
                             step_minor_b, height_b, width_b, by_columns_b, along_minor_b, aligned_b, powers_b, first_b,
                             steps_b, step_b, nullptr, 0, 0);
}
