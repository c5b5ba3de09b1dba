/* kernels_wide.c - portable kernels with the shapes of the AVX-512 ones, in
 * 64-byte GCC vectors, so that the driver runs the templates with 16 (8) elements
 * per vector, and with MR below that, on any machine.  Keep the numbers those of
 * kernels/avx512*.c. */
#define VEC_BYTES 64
#include "dots.h"
#include "kernels/kernel.h"
#include "kernels/vec_gcc.h"
#include <string.h>

#define ISA generic
#define ISA_ID FALCON_GENERIC

#define P f32
#define X_1 f32
#define X_2 f16
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 384
#include "kernels/kernel_impl.h"

#define P f64
#define X_1 f64
#define MR 8
#define NR 24
#define NR_VECS 3
#define KC 256
#include "kernels/kernel_impl.h"

#define P i32
#define X_1 i32
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 384
#include "kernels/kernel_impl.h"

#define P i16
#define X_1 i16
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 768
#include "kernels/kernel_impl.h"

#define P bf16
#define X_1 bf16
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 768
#include "kernels/kernel_impl.h"

#define P i8
#define X_1 i8
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 1536
#include "kernels/kernel_impl.h"

#define P u8
#define X_1 u8
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 1536
#include "kernels/kernel_impl.h"

#define P u8i8
#define PAIR_1 u8i8
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 1536
#include "kernels/kernel_impl.h"

#define P i8u8
#define PAIR_1 i8u8
#define MR 12
#define NR 32
#define NR_VECS 2
#define KC 1536
#include "kernels/kernel_impl.h"
