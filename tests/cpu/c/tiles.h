/* tiles.h - the tile operations of kernels/tile_impl.h in plain C.
 *
 * They follow Intel's manual (volume 2, TDPBF16PS and TDPBSSD).  Where the processor raises an exception, this ends the
 * process: a thread uses a tile without having configured its tiles, or after releasing them.
 */
#ifndef FALCON_TEST_TILES_H
#define FALCON_TEST_TILES_H
#include "dots.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { TILE_ROWS = 16, TILE_COLUMNS = 16 };
typedef uint32_t tile[TILE_ROWS][TILE_COLUMNS];
static _Thread_local struct {
    tile tile[8];
    int configured;
} tiles;

static void tiles_end(const char *why) {
    fprintf(stderr, "tiles: %s\n", why);
    abort();
}
static tile *tile_of(int t) {
    if (!tiles.configured)
        tiles_end("used while they are not configured");
    return tiles.tile + t;
}
static void tiles_begin(void) {
    if (tiles.configured)
        tiles_end("configured twice: they were not released");
    memset(&tiles, 0, sizeof tiles); /* as loading a configuration does */
    tiles.configured = 1;
}
static void tile_load(int t, const void *p, ptrdiff_t stride) {
    for (int i = 0; i < TILE_ROWS; i++)
        memcpy((*tile_of(t))[i], (const char *)p + i * stride, sizeof(*tile_of(t))[i]);
}
static void tile_store(int t, void *p, ptrdiff_t stride) {
    for (int i = 0; i < TILE_ROWS; i++)
        memcpy((char *)p + i * stride, (*tile_of(t))[i], sizeof(*tile_of(t))[i]);
}
static inline float tile_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline uint32_t tile_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Products of the even steps are summed in one float32, by fused multiply-adds, those of the odd ones in another; the
 * two are added, and that to the accumulator.  Subnormals in and out are 0 everywhere. */
static void bf16_tile_dot(int c, int a, int b) {
    tile *const to = tile_of(c), *const left = tile_of(a), *const right = tile_of(b);
    for (int i = 0; i < TILE_ROWS; i++) {
        float even[TILE_COLUMNS] = {0}, odd[TILE_COLUMNS] = {0};
        for (int g = 0; g < TILE_ROWS; g++) {
            const uint32_t x = (*left)[i][g];
            const float x0 = bf16_value(x << 16), x1 = bf16_value(x);
            for (int j = 0; j < TILE_COLUMNS; j++) {
                const uint32_t y = (*right)[g][j];
                even[j] = flushed(fmaf(x0, bf16_value(y << 16), even[j]));
                odd[j] = flushed(fmaf(x1, bf16_value(y), odd[j]));
            }
        }
        for (int j = 0; j < TILE_COLUMNS; j++)
            (*to)[i][j] = tile_bits(flushed(flushed(tile_float((*to)[i][j])) + flushed(even[j] + odd[j])));
    }
}

/* Modulo 2^32; signed_a, signed_b: which elements are signed. */
static void byte_tile_dot(int c, int a, int b, int signed_a, int signed_b) {
    tile *const to = tile_of(c), *const left = tile_of(a), *const right = tile_of(b);
    for (int i = 0; i < TILE_ROWS; i++)
        for (int g = 0; g < TILE_ROWS; g++)
            for (int q = 0; q < 32; q += 8) {
                const uint8_t x = (uint8_t)((*left)[i][g] >> q);
                const int32_t value = signed_a ? (int8_t)x : x;
                for (int j = 0; j < TILE_COLUMNS; j++) {
                    const uint8_t y = (uint8_t)((*right)[g][j] >> q);
                    (*to)[i][j] += (uint32_t)(value * (signed_b ? (int8_t)y : y));
                }
            }
}

#define TILE_BEGIN() tiles_begin()
#define TILE_END() (tile_of(0), tiles.configured = 0)
#define TILE_ZERO(t) memset(tile_of(t), 0, sizeof(tile))
#define TILE_LOAD(t, p, stride) tile_load(t, p, stride)
#define TILE_STREAM(t, p, stride) tile_load(t, p, stride)
#define TILE_STORE(t, p, stride) tile_store(t, p, stride)
#define bf16_TILE_DOT(c, a, b) bf16_tile_dot(c, a, b)
#define i8_TILE_DOT(c, a, b) byte_tile_dot(c, a, b, 1, 1)
#define u8_TILE_DOT(c, a, b) byte_tile_dot(c, a, b, 0, 0)
#define u8i8_TILE_DOT(c, a, b) byte_tile_dot(c, a, b, 0, 1)
#define i8u8_TILE_DOT(c, a, b) byte_tile_dot(c, a, b, 1, 0)

#endif
