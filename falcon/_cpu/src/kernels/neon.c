/* neon.c - aarch64 NEON kernels (baseline flags; a*b + c contracts to fmla).
 * A new dtype: one more block like those below, and a line in registry.c. */
#include "kernel.h"
#include "vec_gcc.h"
#include <string.h>

#define ISA neon
#define ISA_ID FALCON_NEON

#define D f32
#define T float
#define DTYPE_ID FALCON_F32
#define MR 8
#define NR 12
#define NR_VECS 3
#define KC 256
#include "kernel_impl.h"

#define D f64
#define T double
#define DTYPE_ID FALCON_F64
#define MR 6
#define NR 8
#define NR_VECS 4
#define KC 256
#include "kernel_impl.h"
