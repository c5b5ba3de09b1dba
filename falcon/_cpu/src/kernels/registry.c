/* registry.c - the one table (instruction set, type) -> kernel.
 *
 * The build defines FALCON_HAVE_ and the name of the instruction set for the
 * kernels that it links (see ../../sources.py); the portable ones are always
 * there.  Compiled with baseline flags.
 *
 * A new type: one more block in each kernel file, or one more X of a block, and a line here.
 */
#include "../machine/machine.h"
#include "kernel.h"

/* The row of an instruction set that has kernels for all types; other rows hold only the kernels that there are. */
#define ROW_OF_ALL(isa)                                                                                                \
    {&falcon_kernel_##isa##_f32,                                                                                       \
     &falcon_kernel_##isa##_f64,                                                                                       \
     &falcon_kernel_##isa##_f16,                                                                                       \
     &falcon_kernel_##isa##_bf16,                                                                                      \
     [FALCON_I16] = &falcon_kernel_##isa##_i16,                                                                        \
     [FALCON_I32] = &falcon_kernel_##isa##_i32,                                                                        \
     [FALCON_I64] = &falcon_kernel_##isa##_i64,                                                                        \
     [FALCON_I64_F64] = &falcon_kernel_##isa##_i64f64,                                                                 \
     BYTES_OF(isa)}
#define DECLARE_ALL(isa)                                                                                               \
    DECLARE_BYTES(isa);                                                                                                \
    extern const falcon_kernel falcon_kernel_##isa##_f32, falcon_kernel_##isa##_f64, falcon_kernel_##isa##_f16,        \
        falcon_kernel_##isa##_bf16, falcon_kernel_##isa##_i16, falcon_kernel_##isa##_i32, falcon_kernel_##isa##_i64,   \
        falcon_kernel_##isa##_i64f64
/* The products of 8-bit elements: an instruction set has all four or none. */
#define BYTES_OF(isa)                                                                                                  \
    [FALCON_I8] = &falcon_kernel_##isa##_i8, [FALCON_U8] = &falcon_kernel_##isa##_u8,                                  \
    [FALCON_U8I8] = &falcon_kernel_##isa##_u8i8, [FALCON_I8U8] = &falcon_kernel_##isa##_i8u8
#define DECLARE_BYTES(isa)                                                                                             \
    extern const falcon_kernel falcon_kernel_##isa##_i8, falcon_kernel_##isa##_u8, falcon_kernel_##isa##_u8i8,         \
        falcon_kernel_##isa##_i8u8

DECLARE_ALL(generic);
#ifdef FALCON_HAVE_NEON
DECLARE_ALL(neon);
#endif
#ifdef FALCON_HAVE_NEON_DOT
DECLARE_BYTES(neon_dot);
#endif
#ifdef FALCON_HAVE_NEON_I8MM
DECLARE_BYTES(neon_i8mm);
#endif
#ifdef FALCON_HAVE_NEON_BF16
extern const falcon_kernel falcon_kernel_neon_bf16_bf16;
#endif
#ifdef FALCON_HAVE_AVX2
DECLARE_ALL(avx2);
#endif
#ifdef FALCON_HAVE_AVX_VNNI
DECLARE_BYTES(avx_vnni);
extern const falcon_kernel falcon_kernel_avx_vnni_i16;
#endif
#ifdef FALCON_HAVE_AVX512
DECLARE_ALL(avx512);
#endif
#ifdef FALCON_HAVE_AVX512_VNNI
DECLARE_BYTES(avx512_vnni);
extern const falcon_kernel falcon_kernel_avx512_vnni_i16;
#endif
#ifdef FALCON_HAVE_AVX512_BF16
extern const falcon_kernel falcon_kernel_avx512_bf16_bf16;
#endif

#ifdef FALCON_HAVE_AMX_INT8
DECLARE_BYTES(amx_int8);
#endif
#ifdef FALCON_HAVE_AMX_BF16
extern const falcon_kernel falcon_kernel_amx_bf16_bf16, falcon_kernel_amx_bf16x6_f32, falcon_kernel_amx_bf16x3_f32;
#endif

static const falcon_kernel *const kernels[FALCON_N_ISA][FALCON_N_DTYPE] = {
    [FALCON_GENERIC] = ROW_OF_ALL(generic),
#ifdef FALCON_HAVE_NEON
    [FALCON_NEON] = ROW_OF_ALL(neon),
#endif
#ifdef FALCON_HAVE_NEON_DOT
    [FALCON_NEON_DOT] = {BYTES_OF(neon_dot)},
#endif
#ifdef FALCON_HAVE_NEON_I8MM
    [FALCON_NEON_I8MM] = {BYTES_OF(neon_i8mm)},
#endif
#ifdef FALCON_HAVE_NEON_BF16
    [FALCON_NEON_BF16] = {[FALCON_BF16] = &falcon_kernel_neon_bf16_bf16},
#endif
#ifdef FALCON_HAVE_AVX2
    [FALCON_AVX2] = ROW_OF_ALL(avx2),
#endif
#ifdef FALCON_HAVE_AVX_VNNI
    [FALCON_AVX_VNNI] = {BYTES_OF(avx_vnni), [FALCON_I16] = &falcon_kernel_avx_vnni_i16},
#endif
#ifdef FALCON_HAVE_AVX512
    [FALCON_AVX512] = ROW_OF_ALL(avx512),
#endif
#ifdef FALCON_HAVE_AVX512_VNNI
    [FALCON_AVX512_VNNI] = {BYTES_OF(avx512_vnni), [FALCON_I16] = &falcon_kernel_avx512_vnni_i16},
#endif
#ifdef FALCON_HAVE_AVX512_BF16
    [FALCON_AVX512_BF16] = {[FALCON_BF16] = &falcon_kernel_avx512_bf16_bf16},
#endif
#ifdef FALCON_HAVE_AMX_INT8
    [FALCON_AMX_INT8] = {BYTES_OF(amx_int8)},
#endif
#ifdef FALCON_HAVE_AMX_BF16
    [FALCON_AMX_BF16] = {[FALCON_BF16] = &falcon_kernel_amx_bf16_bf16,
                         [FALCON_F32_X6] = &falcon_kernel_amx_bf16x6_f32,
                         [FALCON_F32_X3] = &falcon_kernel_amx_bf16x3_f32},
#endif
};

/* What falcon_kernel_put has put in their place. */
static const falcon_kernel *for_test[FALCON_N_ISA][FALCON_N_DTYPE];

static const char *const isa_names[FALCON_N_ISA] = {"generic",     "neon",        "neon_dot", "neon_i8mm",
                                                    "neon_bf16",   "avx2",        "avx_vnni", "avx512",
                                                    "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16"};
static const char *const dtype_names[FALCON_N_DTYPE] = {"f32", "f64", "f16",  "bf16", "i8",    "u8",    "i16",
                                                        "i32", "i64", "u8i8", "i8u8", "f32x6", "f32x3", "i64f64"};

const char *falcon_isa_name(int isa) {
    return isa_names[isa];
}

const char *falcon_dtype_name(int dtype) {
    return dtype_names[dtype];
}

const falcon_kernel *falcon_kernel_get(int isa, int dtype) {
    return for_test[isa][dtype] ? for_test[isa][dtype] : fl_cpu_runs(isa) ? kernels[isa][dtype] : NULL;
}

void falcon_kernel_put(int isa, int dtype, const falcon_kernel *kern) {
    for_test[isa][dtype] = kern;
}

const char *falcon_isa_refused(int isa) {
    for (int dtype = 0; dtype < FALCON_N_DTYPE; dtype++)
        if (kernels[isa][dtype])
            return fl_cpu_refused(isa);
    return NULL;
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
    while (!falcon_isa_supported(isa))
        isa--; /* the portable kernels are always there */
    return isa;
}
