/* kernels_wide.c - the AVX-512 kernels' shapes in place of the portable ones, in
 * 64-byte GCC vectors: so that the driver runs what their template makes of 16
 * (8) elements per vector and of MR below that, on any machine.  Keep the
 * numbers those of kernels/avx512.c. */
#define VEC_BYTES 64
#include "kernels/kernel.h"
#include "kernels/vec_gcc.h"
#include <string.h>

#define ISA generic
#define ISA_ID FALCON_GENERIC

#define D f32
#define T float
#define DTYPE_ID FALCON_F32
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 384
#include "kernels/kernel_impl.h"

#define D f64
#define T double
#define DTYPE_ID FALCON_F64
#define MR 8
#define NR 24
#define NR_VECS 3
#define KC 256
#include "kernels/kernel_impl.h"
