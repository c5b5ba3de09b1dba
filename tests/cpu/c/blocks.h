/* blocks.h - BFMMLA, SMMLA, UMMLA and USMMLA in plain C, as vector operations of kernels/block_impl.h.
 *
 * They follow Arm's manual (BFMMLA where FEAT_EBF16 is missing or FPCR.EBF is 0); emulated_case.h compares them with
 * the instructions.
 */
#ifndef FALCON_TEST_BLOCKS_H
#define FALCON_TEST_BLOCKS_H
#include "dots.h"

#define i8_FLIP 0
#define u8_FLIP 0

/* x + y, rounded to odd: where it is not exact, that neighbour in float32 whose last bit is 1; infinite from 2^128 on.
 * What would be subnormal is 0. */
static inline float odd_sum(float x, float y) {
    const double sum = (double)x + y, part = sum - x, rest = (x - (sum - part)) + (y - part); /* x + y = sum + rest */
    const float near = (float)sum;
    const double off = sum != near ? sum - near : rest;
    uint32_t bits;
    memcpy(&bits, &near, sizeof bits);
    if (!(fabs(sum) < 0x1p128) || off == 0 || bits & 1)
        return flushed(near);
    return flushed(nextafterf(near, off > 0 ? INFINITY : -INFINITY));
}

/* Two products, exact where they are neither subnormal nor infinite, are added, and their sum to the accumulator. */
static inline float bf16_pair(uint32_t a, uint32_t b, float c) {
    const float even = flushed(bf16_value(a << 16) * bf16_value(b << 16)), odd = flushed(bf16_value(a) * bf16_value(b));
    return odd_sum(flushed(c), odd_sum(even, odd));
}

/* Two rows by two columns, each of two parts of 4 bytes, which are added one after the other. */
#define EACH_ENTRY(VEC, part, a, b, c)                                                                                 \
    ({                                                                                                                 \
        const i32_VEC a_ = (a), b_ = (b);                                                                              \
        VEC c_ = (c);                                                                                                  \
        for (int e_ = 0; e_ < 4; e_++)                                                                                 \
            for (int q_ = 0; q_ < 2; q_++)                                                                             \
                c_[e_] = part(a_[e_ / 2 * 2 + q_], b_[e_ % 2 * 2 + q_], c_[e_]);                                       \
        c_;                                                                                                            \
    })
static inline uint32_t i8_four(uint32_t a, uint32_t b, uint32_t c) {
    for (int q = 0; q < 32; q += 8)
        c += (uint32_t)((int8_t)(a >> q) * (int8_t)(b >> q));
    return c;
}
static inline uint32_t u8_four(uint32_t a, uint32_t b, uint32_t c) {
    for (int q = 0; q < 32; q += 8)
        c += (uint32_t)((uint8_t)(a >> q) * (uint8_t)(b >> q));
    return c;
}
static inline uint32_t u8i8_four(uint32_t a, uint32_t b, uint32_t c) {
    for (int q = 0; q < 32; q += 8)
        c += (uint32_t)((uint8_t)(a >> q) * (int8_t)(b >> q));
    return c;
}
#define bf16_BLOCK(a, b, c) EACH_ENTRY(f32_VEC, bf16_pair, a, b, c)
#define i8_BLOCK(a, b, c) EACH_ENTRY(i32_VEC, i8_four, a, b, c)
#define u8_BLOCK(a, b, c) EACH_ENTRY(i32_VEC, u8_four, a, b, c)
#define u8i8_BLOCK(a, b, c) EACH_ENTRY(i32_VEC, u8i8_four, a, b, c)
#define i8u8_BLOCK(a, b, c) u8i8_BLOCK(b, a, c)

#endif
