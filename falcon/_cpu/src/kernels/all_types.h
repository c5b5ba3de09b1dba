/* all_types.h - the kernels of an instruction set that has them for every type, in the sizes that it defines. */
#define P f32
#define X_1 f16
#define X_2 bf16
#define X_3 f64f32
#include "kernel_impl.h"

#define P f64
#define X_1 i64f64
#define X_2 f32f64
#include "kernel_impl.h"

#define P i32
#include "kernel_impl.h"

#define P i64
#include "kernel_impl.h"

#define P i16
#define X_1 i8
#define X_2 u8
#define X_3 u8i8
#define X_4 i8u8
#include "kernel_impl.h"
