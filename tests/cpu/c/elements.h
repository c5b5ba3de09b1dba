/* elements.h - reading and writing single elements of every type, for the C test driver; shares no code with kernels.
 */
#ifndef FALCON_TEST_ELEMENTS_H
#define FALCON_TEST_ELEMENTS_H
#include "kernels/kernel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_exact(int dtype) {
    return dtype == FALCON_I8 || dtype == FALCON_U8 || dtype == FALCON_I16 || dtype == FALCON_I32 ||
           dtype == FALCON_I64 || dtype == FALCON_I64F64;
}

static falcon_scalar scalar(double real, double imag) {
    return (falcon_scalar){real, imag, (int64_t)real};
}

enum { COMPLEX = 64 }; /* with the type of the parts: complex numbers */

static ptrdiff_t bytes_of(int dtype) {
    switch (dtype) {
    case FALCON_F64 | COMPLEX:
    case FALCON_F64F32 | COMPLEX:
        return 16;
    case FALCON_F32 | COMPLEX:
    case FALCON_F32F64 | COMPLEX:
        return 8;
    case FALCON_F64:
    case FALCON_F64F32:
    case FALCON_F64BF16:
    case FALCON_I64:
    case FALCON_I64F64:
        return 8;
    case FALCON_F32:
    case FALCON_F32F64:
    case FALCON_F32BF16:
    case FALCON_F32X6:
    case FALCON_F32X3:
    case FALCON_I32:
        return 4;
    case FALCON_I8:
    case FALCON_U8:
        return 1;
    case FALCON_F16:
    case FALCON_BF16:
    case FALCON_I16:
        return 2;
    default:
        printf("elements.h knows no type %s\n", falcon_dtype_name(dtype));
        exit(1);
    }
}

/* x rounded to nearest even, to so many bits and no finer than 2^least. */
static double to_bits(double x, int bits, int least) {
    int exponent;
    frexp(x, &exponent);
    exponent = exponent - bits > least ? exponent - bits : least;
    return isfinite(x) ? ldexp(nearbyint(ldexp(x, -exponent)), exponent) : x;
}

/* x as an element of that type. */
static double rounded(int dtype, double x) {
    switch (dtype) {
    case FALCON_F64:
    case FALCON_F64F32:
    case FALCON_F64BF16:
        return x;
    case FALCON_F32:
    case FALCON_F32F64:
    case FALCON_F32BF16:
    case FALCON_F32X6:
    case FALCON_F32X3:
        return (float)x;
    case FALCON_BF16:
        return to_bits((float)x, 8, -133);
    case FALCON_F16:
        x = to_bits((float)x, 11, -24);
        return fabs(x) > 65504 ? copysign(INFINITY, x) : x;
    case FALCON_I8:
        return (int8_t)(int64_t)x;
    case FALCON_U8:
        return (uint8_t)(int64_t)x;
    case FALCON_I16:
        return (int16_t)(int64_t)x;
    case FALCON_I64:
    case FALCON_I64F64:
        return (double)(int64_t)x;
    default:
        return (int32_t)(int64_t)x;
    }
}

static double element_get(int dtype, const void *at) {
    int64_t bits = 0;
    memcpy(&bits, at, (size_t)bytes_of(dtype & ~COMPLEX));
    float f = 0;
    double d = 0;
    switch (dtype) {
    case FALCON_F64:
    case FALCON_F64F32:
    case FALCON_F64BF16:
        memcpy(&d, at, 8);
        return d;
    case FALCON_F32:
    case FALCON_F32F64:
    case FALCON_F32BF16:
    case FALCON_F32X6:
    case FALCON_F32X3:
        memcpy(&f, at, 4);
        return f;
    case FALCON_BF16:
        memcpy((char *)&f + 2, at, 2);
        return f;
    case FALCON_F16: {
        const int exponent = (int)(bits >> 10 & 31), part = (int)(bits & 1023);
        d = exponent == 31 ? (part ? NAN : INFINITY)
                           : ldexp(exponent ? part + 1024 : part, (exponent ? exponent : 1) - 25);
        return bits >> 15 ? -d : d;
    }
    default:
        return rounded(dtype, (double)bits);
    }
}

static void element_put(int dtype, void *at, double x) {
    x = is_exact(dtype) && !isfinite(x) ? 77 : rounded(dtype, x);
    const float f = (float)x;
    int64_t bits = is_exact(dtype) ? (int64_t)x : 0;
    if (dtype == FALCON_F64 || dtype == FALCON_F64F32 || dtype == FALCON_F64BF16)
        memcpy(&bits, &x, 8);
    else if (bytes_of(dtype) == 4 && !is_exact(dtype))
        memcpy(&bits, &f, 4);
    else if (dtype == FALCON_BF16)
        memcpy(&bits, (const char *)&f + 2, 2);
    else if (dtype == FALCON_F16) {
        int exponent = -14;
        frexp(x, &exponent);
        exponent = exponent - 1 < -14 ? -14 : exponent - 1;
        bits = isnan(x)   ? 0x7e00
               : isinf(x) ? 0x7c00
                          : (int64_t)ldexp(fabs(x), 10 - exponent) + ((int64_t)(exponent + 14) << 10);
        bits |= signbit(x) ? 0x8000 : 0;
    }
    memcpy(at, &bits, (size_t)bytes_of(dtype & ~COMPLEX)); /* little-endian */
}

#endif
