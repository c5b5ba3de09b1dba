/* neon.c - aarch64 NEON kernels (baseline flags; a*b + c contracts to fmla). */
#include "kernel.h"
#include "vec_gcc.h"
#include <string.h>

#define ISA neon
#define ISA_ID FALCON_NEON

#define P f32
#define X_1 f32
#define X_2 f16
#define X_3 bf16
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 256
#include "kernel_impl.h"

#define P f64
#define X_1 f64
#define X_2 i64f64
#define MR 6
#define NR 8
#define NR_VECS 4
#define KC 256
#include "kernel_impl.h"

#define P i32
#define X_1 i32
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 256
#include "kernel_impl.h"

#define P i64
#define X_1 i64
#define MR 6
#define NR 8
#define NR_VECS 4
#define KC 256
#include "kernel_impl.h"

#define P i16
#define X_1 i16
#define X_2 i8
#define X_3 u8
#define PAIR_1 u8i8
#define PAIR_2 i8u8
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 512
#include "kernel_impl.h"
