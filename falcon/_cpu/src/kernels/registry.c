/* registry.c - the one table (instruction set, type) -> kernel.
 *
 * The build says which kernel objects it links with FALCON_HAVE_AVX512,
 * FALCON_HAVE_AVX2 and FALCON_HAVE_NEON (see ../../sources.py); the portable ones
 * are always there.  Compiled with baseline flags.
 */
#include "../machine/machine.h"
#include "kernel.h"

extern const falcon_kernel falcon_kernel_generic_f32, falcon_kernel_generic_f64, falcon_kernel_generic_bf16;
#ifdef FALCON_HAVE_NEON
extern const falcon_kernel falcon_kernel_neon_f32, falcon_kernel_neon_f64;
#endif
#ifdef FALCON_HAVE_AVX2
extern const falcon_kernel falcon_kernel_avx2_f32, falcon_kernel_avx2_f64;
#endif
#ifdef FALCON_HAVE_AVX512
extern const falcon_kernel falcon_kernel_avx512_f32, falcon_kernel_avx512_f64;
#endif

static const falcon_kernel *const kernels[FALCON_N_ISA][FALCON_N_DTYPE] = {
    [FALCON_GENERIC] = {&falcon_kernel_generic_f32, &falcon_kernel_generic_f64, &falcon_kernel_generic_bf16},
#ifdef FALCON_HAVE_NEON
    [FALCON_NEON] = {&falcon_kernel_neon_f32, &falcon_kernel_neon_f64},
#endif
#ifdef FALCON_HAVE_AVX2
    [FALCON_AVX2] = {&falcon_kernel_avx2_f32, &falcon_kernel_avx2_f64},
#endif
#ifdef FALCON_HAVE_AVX512
    [FALCON_AVX512] = {&falcon_kernel_avx512_f32, &falcon_kernel_avx512_f64},
#endif
};

static const char *const isa_names[FALCON_N_ISA] = {"generic", "neon", "avx2", "avx512"};

const char *falcon_isa_name(int isa) {
    return isa >= 0 && isa < FALCON_N_ISA ? isa_names[isa] : "unknown";
}

const falcon_kernel *falcon_kernel_get(int isa, int dtype) {
    if (isa < 0 || isa >= FALCON_N_ISA || dtype < 0 || dtype >= FALCON_N_DTYPE || !fl_cpu_runs(isa))
        return NULL;
    return kernels[isa][dtype];
}

const falcon_kernel *falcon_kernel_best(int most, int dtype) {
    const falcon_kernel *found = NULL;
    for (int isa = most; isa >= 0 && !found; isa--)
        found = falcon_kernel_get(isa, dtype);
    return found;
}

int falcon_isa_supported(int isa) {
    for (int dtype = 0; dtype < FALCON_N_DTYPE; dtype++)
        if (falcon_kernel_get(isa, dtype))
            return 1;
    return 0;
}

int falcon_isa_best(void) {
    int isa = FALCON_N_ISA - 1;
    while (isa > FALCON_GENERIC && !falcon_isa_supported(isa))
        isa--;
    return isa;
}
