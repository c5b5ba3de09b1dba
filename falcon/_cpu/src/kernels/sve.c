/* sve.c - float32 and float64 by SVE, of any width from 128 bits.  Has run under QEMU only: nothing is known about its
 * speed. */
#include "kernel.h"
#include "vec_gcc.h"
#include <string.h>

#define ISA sve
#define ISA_ID FALCON_SVE
#define SCALABLE 1

#define P f32
#define X_1 f32
#define MR 12
#define NR 32
#define KC 256
#include "kernel_impl.h"

#define P f64
#define X_1 f64
#define MR 12
#define NR 16
#define KC 256
#include "kernel_impl.h"
