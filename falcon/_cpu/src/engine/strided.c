/* strided.c - copies, element by element, of matrices that are contiguous in no direction. */
#include "engine.h"

#define GATHER(T)                                                                                                      \
    for (ptrdiff_t k = 0; k < steps; k++)                                                                              \
        for (ptrdiff_t i = 0; i < width; i++)                                                                          \
    ((T *)dst)[k * width + i] = i < lines ? ((const T *)src)[i * is + k * ks] : 0

#define TURN(T)                                                                                                        \
    static void turn_##T(const T *src, ptrdiff_t is, ptrdiff_t ks, ptrdiff_t lines, ptrdiff_t steps, T *to,            \
                         ptrdiff_t width) {                                                                            \
        for (ptrdiff_t k = 0; k < steps; k++, to += 2 * width)                                                         \
            for (ptrdiff_t i = 0; i < lines; i++) {                                                                    \
                const T *z = src + 2 * (i * is + k * ks);                                                              \
                to[2 * i] = z[0], to[2 * i + 1] = z[1];                                                                \
                to[width + 2 * i] = -z[1], to[width + 2 * i + 1] = z[0];                                               \
            }                                                                                                          \
    }
TURN(float)
TURN(double)

void fl_turn(const void *src, ptrdiff_t is, ptrdiff_t ks, ptrdiff_t lines, ptrdiff_t steps, ptrdiff_t elem, void *dst,
             ptrdiff_t width) {
    if (elem == 8)
        turn_double(src, is, ks, lines, steps, dst, width);
    else
        turn_float(src, is, ks, lines, steps, dst, width);
}

void fl_gather(const void *src, ptrdiff_t is, ptrdiff_t ks, ptrdiff_t lines, ptrdiff_t steps, ptrdiff_t elem, void *dst,
               ptrdiff_t width) {
    if (elem == 8)
        GATHER(uint64_t);
    else if (elem == 4)
        GATHER(uint32_t);
    else if (elem == 2)
        GATHER(uint16_t);
    else
        GATHER(uint8_t);
}
