/* registry.c - the one table (instruction set, dtype) -> kernel.
 *
 * The build says which kernel objects it links with FALCON_HAVE_AVX512,
 * FALCON_HAVE_AVX2 and FALCON_HAVE_NEON (see ../sources.py); the portable ones
 * are always there.  Compiled with baseline flags.
 */
#include "falcon_cpu.h"

extern const falcon_kernel falcon_kernel_generic_f32, falcon_kernel_generic_f64;
#ifdef FALCON_HAVE_NEON
extern const falcon_kernel falcon_kernel_neon_f32, falcon_kernel_neon_f64;
#endif
#ifdef FALCON_HAVE_AVX2
extern const falcon_kernel falcon_kernel_avx2_f32, falcon_kernel_avx2_f64;
#endif
#ifdef FALCON_HAVE_AVX512
extern const falcon_kernel falcon_kernel_avx512_f32, falcon_kernel_avx512_f64;
#endif

const falcon_kernel *const falcon_kernels[FALCON_N_ISA][FALCON_N_DTYPE] = {
    [FALCON_GENERIC] = {&falcon_kernel_generic_f32, &falcon_kernel_generic_f64},
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
    if (isa < 0 || isa >= FALCON_N_ISA || dtype < 0 || dtype >= FALCON_N_DTYPE || !falcon_isa_supported(isa))
        return NULL;
    return falcon_kernels[isa][dtype];
}
