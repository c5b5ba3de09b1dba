/* bytes.h - the kernels of an instruction set for 8-bit integers as they are, in the sizes that it defines. */
#define P i8
#include "kernel_impl.h"

#define P u8
#include "kernel_impl.h"

#define P u8i8
#include "kernel_impl.h"

#define P i8u8
#include "kernel_impl.h"
