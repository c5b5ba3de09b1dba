/* dots.h - VDPBF16PS and VPDPBUSD in plain C, lane by lane, as vector operations of kernels/vec_types.h. */
#ifndef FALCON_TEST_DOTS_H
#define FALCON_TEST_DOTS_H
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Subnormals in and out are 0; each product is added by one fused multiply-add, that of the odd elements first. */
static inline float flushed(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}
static inline float bf16_value(uint32_t upper) {
    const uint32_t bits = upper & 0xffff0000;
    float x;
    memcpy(&x, &bits, sizeof x);
    return flushed(x);
}
static inline float bf16_dot_lane(uint32_t a, uint32_t b, float c) {
    c = flushed(fmaf(bf16_value(a), bf16_value(b), flushed(c)));
    return flushed(fmaf(bf16_value(a << 16), bf16_value(b << 16), c));
}
/* Four unsigned times four signed elements, modulo 2^32. */
static inline uint32_t i8_dot_lane(uint32_t a, uint32_t b, uint32_t c) {
    for (int q = 0; q < 32; q += 8)
        c += (uint32_t)((int32_t)(uint8_t)(a >> q) * (int32_t)(int8_t)(b >> q));
    return c;
}

#define EACH_LANE(VEC, lane, a, b, c)                                                                                  \
    ({                                                                                                                 \
        const i32_VEC a_ = (a), b_ = (b);                                                                              \
        VEC c_ = (c);                                                                                                  \
        for (int l_ = 0; l_ < i32_VLEN; l_++)                                                                          \
            c_[l_] = lane(a_[l_], b_[l_], c_[l_]);                                                                     \
        c_;                                                                                                            \
    })
#define bf16_DOT(a, b, c) EACH_LANE(f32_VEC, bf16_dot_lane, a, b, c)
#define i8_DOT(a, b, c) EACH_LANE(i32_VEC, i8_dot_lane, a, b, c)
#define u8_DOT(a, b, c) EACH_LANE(i32_VEC, i8_dot_lane, b, a, c)
#define u8i8_DOT(a, b, c) EACH_LANE(i32_VEC, i8_dot_lane, a, b, c)
#define i8u8_DOT(a, b, c) EACH_LANE(i32_VEC, i8_dot_lane, b, a, c)

#endif
