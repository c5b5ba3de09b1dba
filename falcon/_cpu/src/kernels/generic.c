/* generic.c - portable kernels in GCC vector extensions (baseline flags).
 * A new dtype: one more block like those below, and a line in registry.c. */
#include "kernel.h"
#include "vec_gcc.h"
#include <string.h>

#define ISA generic
#define ISA_ID FALCON_GENERIC

#define D f32
#define T float
#define DTYPE_ID FALCON_F32
#define MR 4
#define NR 8
#define NR_VECS 2
#define KC 256
#include "kernel_impl.h"

#define D f64
#define T double
#define DTYPE_ID FALCON_F64
#define MR 4
#define NR 4
#define NR_VECS 2
#define KC 256
#include "kernel_impl.h"
