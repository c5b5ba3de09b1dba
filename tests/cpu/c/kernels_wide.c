/* kernels_wide.c - the AVX-512 kernels in 64-byte GCC vectors, as portable ones, so that the driver runs the templates
 * with 16 (8) elements per vector, and with MR below that, on any machine. */
#define VEC_BYTES 64
#include "dots.h"
#include "kernels/kernel.h"
#include "kernels/vec_gcc.h"

/* Not to be included: what vec_gcc.h takes the place of. */
#define FALCON_VEC_X86_H
#define FALCON_AVX512 FALCON_GENERIC
#define FALCON_AVX512_BF16 FALCON_GENERIC
#define FALCON_AVX512_VNNI FALCON_GENERIC

/* One kernel per type: those of AVX512_BF16 and AVX512_VNNI where there are two. */
#define avx512 wide
#define falcon_kernel_wide_f32 falcon_kernel_generic_f32
#define falcon_kernel_wide_f64 falcon_kernel_generic_f64
#define falcon_kernel_wide_i64f64 falcon_kernel_generic_i64f64
#define falcon_kernel_wide_f64f32 falcon_kernel_generic_f64f32
#define falcon_kernel_wide_f32f64 falcon_kernel_generic_f32f64
#define falcon_kernel_wide_f16 falcon_kernel_generic_f16
#define falcon_kernel_wide_i32 falcon_kernel_generic_i32
#define falcon_kernel_wide_i64 falcon_kernel_generic_i64
#include "kernels/avx512.c"
#undef ISA
#undef ISA_ID
#define avx512_bf16 generic
#define avx512_vnni generic
#include "kernels/avx512_bf16.c"
#undef ISA
#undef ISA_ID
#include "kernels/avx512_vnni.c"
