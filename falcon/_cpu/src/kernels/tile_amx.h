/* tile_amx.h - the tile operations of tile_impl.h for AMX.  TDPBF16PS takes subnormals for 0, returns 0 for them and
 * rounds to nearest even; TDPBSSD and its like add modulo 2^32 without saturation. */
#ifndef FALCON_TILE_AMX_H
#define FALCON_TILE_AMX_H
#include <immintrin.h>
#include <stdint.h>

/* Palette 1: eight tiles, here all of 16 rows of 64 bytes. */
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} falcon_tiles __attribute__((aligned(64))) = {
    .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

/* The C tile, see falcon_kernel: every slice of K reads and writes all of its micro-tiles (4 KiB each) in L2. */
#define B_KEPT 0
#define A_KEPT_TILE {8, 16, 60, 45}
#define B_KEPT_TILE {0}

#define TILE_BEGIN() _tile_loadconfig(&falcon_tiles)
#define TILE_END() _tile_release()
#define TILE_ZERO(t) _tile_zero(t)
#define TILE_LOAD(t, p, stride) _tile_loadd(t, p, stride)
#define TILE_STREAM(t, p, stride) _tile_stream_loadd(t, p, stride)
#define TILE_STORE(t, p, stride) _tile_stored(t, p, stride)
#define bf16_TILE_DOT(c, a, b) _tile_dpbf16ps(c, a, b)
#define i8_TILE_DOT(c, a, b) _tile_dpbssd(c, a, b)
#define u8_TILE_DOT(c, a, b) _tile_dpbuud(c, a, b)
#define u8i8_TILE_DOT(c, a, b) _tile_dpbusd(c, a, b)
#define i8u8_TILE_DOT(c, a, b) _tile_dpbsud(c, a, b)

#endif
