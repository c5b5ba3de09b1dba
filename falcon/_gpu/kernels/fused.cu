// Products of matrices of two float16 parts, of a Hopper GPU (sm_90a), in one main loop:
//
//     out = sum over blocks of BLOCK elements along K of (a1 b0 + a0 b1 + a0 b0),    a = a0 + a1
//
// Tensor cores cut sums off toward zero, a bias that grows with a sum. Here the sum of a block is added to
// one in float32 by an addition that rounds, so that nothing is centred, or cut in pieces.
//
// Of a thread block one warpgroup loads, by a single thread: the tensor memory accelerator fills STAGES
// buffers with blocks of A and B. Two warpgroups multiply 64 rows each: while one adds up, tensor cores
// work for the other. Thread blocks stay, and take one tile of `out` after another.
//
// An operand has four axes, which a map describes: elements along K and lines (rows of A, columns of B), of
// which the first are neighbours in memory if it is along (A_ALONG, B_ALONG), else the second; parts; and
// matrices of a batch. What is beyond the ends reads as zero. In shared memory lie rows of 64 elements, as
// the tensor cores take them: swizzled.
//
//   of_a, of_b  maps, in boxes of BLOCK elements by TILE lines, or of 64 lines by BLOCK elements
//   turned      parts lie the other way round: A's smallest first, B's largest first
//   out         float32 by rows, ld apart, an even number; matrices of the batch are `step` apart
//   inner       elements along K
//   add         whether sums are added to what is there
//   triangle    only tiles that reach the diagonal, or below, are computed
//
// A wait that lasts too long, which no product has, ends: NaN is written, and repaired.

typedef unsigned long long u64;
typedef unsigned u32;

struct alignas(64) TensorMap {
    u64 words[16];
};

namespace fused {

constexpr int BLOCK = FALCON_FUSED_BLOCK, STAGES = FALCON_FUSED_STAGES, TILE = FALCON_FUSED_TILE;
constexpr int SUMS = TILE / 2; // of a thread
// Rows of tiles that follow one another share columns of B; tries of a wait, which take seconds.
constexpr int GROUP = 16, TRIES = 1 << 20;
constexpr u32 HALF = 64 * BLOCK * 2, PART = 2 * HALF, STAGE = 4 * PART; // bytes of 64 lines, of a part, of a stage

#ifdef FALCON_HOST // whose including file defines what follows
#undef FALCON_WGMMA
#define FALCON_WGMMA multiply_on_host
#else
FALCON_INLINE u32 shared(const void *at) {
    return (u32)__cvta_generic_to_shared(at);
}
FALCON_INLINE void prepare(u32 barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
FALCON_INLINE void expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
FALCON_INLINE void arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
FALCON_INLINE bool has_passed(u32 barrier, u32 phase) {
    u32 passed;
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(passed)
                 : "r"(barrier), "r"(phase)
                 : "memory");
    return passed;
}
FALCON_INLINE void begin_block() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
}
FALCON_INLINE void load_box(u32 to, const TensorMap &map, u32 barrier, int x, int y, int part, int matrix) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(part), "r"(matrix)
                 : "memory");
}
// Registers go from the warpgroup that loads to those that multiply.
FALCON_INLINE void take_registers(bool multiplies) {
    if (multiplies)
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    else
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
}
FALCON_INLINE void begin_products() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
FALCON_INLINE void end_products(float (&sums)[SUMS]) {
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int i = 0; i < SUMS; ++i)
        asm volatile("" : "+f"(sums[i])::"memory");
}
#endif

FALCON_INLINE void multiply(float (&sums)[SUMS], u64 a, u64 b, int keep) {
    FALCON_WGMMA(sums, a, b, keep, !FALCON_A_ALONG, !FALCON_B_ALONG);
}
FALCON_INLINE bool wait(u32 barrier, u32 phase) {
#pragma unroll 1
    for (int tries = 0; tries < TRIES; ++tries)
        if (has_passed(barrier, phase))
            return true;
    return false;
}
// A part of a block of TILE lines.
template <bool ALONG>
FALCON_INLINE void load(u32 to, const TensorMap &map, u32 barrier, int line, int k, int part, int matrix) {
    if (ALONG) {
        load_box(to, map, barrier, k, line, part, matrix);
    } else {
        load_box(to, map, barrier, line, k, part, matrix);
        load_box(to + HALF, map, barrier, line + 64, k, part, matrix);
    }
}
// What tensor cores read: 8 rows of shared memory are 1024 bytes, swizzled within; 64 lines HALF bytes.
// Behind it, by how much the next 16 elements along K are further.
template <bool ALONG> FALCON_INLINE u64 descriptor(u32 at) {
    const u64 halves = ALONG ? 1 : HALF >> 4, swizzle = 1;
    return (u64)((at & 0x3ffff) >> 4) | halves << 16 | (u64)(1024 >> 4) << 32 | swizzle << 62;
}
template <bool ALONG> constexpr u64 next = (ALONG ? 16 * 2 : 16 * 128) >> 4;

// The products of a block: the smallest first.
FALCON_INLINE void multiply_block(float (&sums)[SUMS], u32 a, u32 b) {
    const u64 a0 = descriptor<FALCON_A_ALONG>(a), a1 = descriptor<FALCON_A_ALONG>(a + PART);
    const u64 b0 = descriptor<FALCON_B_ALONG>(b), b1 = descriptor<FALCON_B_ALONG>(b + PART);
    constexpr u64 to_a = next<FALCON_A_ALONG>, to_b = next<FALCON_B_ALONG>;
    begin_products();
#pragma unroll
    for (int q = 0; q < BLOCK / 16; ++q) {
        multiply(sums, a1 + q * to_a, b0 + q * to_b, q > 0);
        multiply(sums, a0 + q * to_a, b1 + q * to_b, 1);
    }
#pragma unroll
    for (int q = 0; q < BLOCK / 16; ++q)
        multiply(sums, a0 + q * to_a, b0 + q * to_b, 1);
    end_products(sums);
}

// What follows is computed where it stands: the compiler would do it once, and keep it in registers.
FALCON_INLINE int tiles_of(int size) {
    asm volatile("" : "+r"(size));
    return (size + TILE - 1) / TILE;
}

// Tile number `at` of all: its matrix, row and column, in tiles. In groups of rows, column by column.
struct Tile {
    int matrix, row, column;
    FALCON_INLINE Tile(int at, int rows, int columns, bool triangle) {
        rows = tiles_of(rows), columns = tiles_of(columns);
        const int of_matrix = triangle ? rows * (rows + 1) / 2 : rows * columns;
        matrix = at / of_matrix, at %= of_matrix;
        int first = 0, high = rows < GROUP ? rows : GROUP;
#pragma unroll 1
        for (;;) { // whole columns of a group
            const int whole = high * (triangle ? first : columns), corner = triangle ? high * (high + 1) / 2 : 0;
            if (at < whole) {
                row = first + at % high, column = at / high;
                return;
            }
            at -= whole;
            if (at < corner)
                break;
            at -= corner, first += high;
            high = rows - first < GROUP ? rows - first : GROUP;
        }
#pragma unroll 1
        for (column = 0; at >= high - column; ++column)
            at -= high - column;
        row = first + column + at, column += first;
    }
};

} // namespace fused

extern "C" __global__ void __launch_bounds__(384, 1)
    FALCON_NAME(const __grid_constant__ TensorMap of_a, const __grid_constant__ TensorMap of_b, int turned, float *out,
                long long ld, long long step, int rows, int columns, int inner, int batch, int add, int triangle) {
    using namespace fused;
    extern __shared__ __align__(1024) unsigned char memory[];
    const u32 base = shared(memory), full = base + STAGES * STAGE, empty = full + 8 * STAGES;
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0), thread = threadIdx.x % 128; // of whole warps
    if (threadIdx.x == 0)
        for (int stage = 0; stage < STAGES; ++stage) {
            prepare(full + 8 * stage, 1);
            prepare(empty + 8 * stage, 2);
        }
    begin_block();
    const int high = tiles_of(rows), wide = tiles_of(columns);
    const int tiles = batch * (triangle ? high * (high + 1) / 2 : high * wide), blocks = (inner + BLOCK - 1) / BLOCK;
    int stage = 0;
    u32 phase = 0;
    const auto advance = [&] {
        if (++stage == STAGES)
            stage = 0, phase ^= 1;
    };
    if (group == 0) {
        take_registers(false);
        for (int at = blockIdx.x; thread == 0 && at < tiles; at += gridDim.x) {
            const Tile tile(at, rows, columns, triangle);
            for (int k = 0; k < blocks; ++k) {
                if (!wait(empty + 8 * stage, phase ^ 1))
                    return;
                const u32 barrier = full + 8 * stage, to = base + stage * STAGE;
                expect(barrier, STAGE);
                for (int part = 0; part < 2; ++part) {
                    const u32 a = to + part * PART, b = a + 2 * PART;
                    load<FALCON_A_ALONG>(a, of_a, barrier, tile.row * TILE, k * BLOCK, part ^ turned, tile.matrix);
                    load<FALCON_B_ALONG>(b, of_b, barrier, tile.column * TILE, k * BLOCK, part ^ !turned, tile.matrix);
                }
                advance();
            }
        }
        return;
    }
    take_registers(true);
    const int half = group - 1;
    bool live = true; // no wait has failed
    for (int at = blockIdx.x; at < tiles; at += gridDim.x) {
        float total[SUMS] = {}, sums[SUMS];
#pragma unroll 1
        for (int k = 0; k < blocks; ++k) {
            live = live && wait(full + 8 * stage, phase);
            const u32 to = base + stage * STAGE;
            multiply_block(sums, to + half * HALF, to + 2 * PART);
            if (live && thread == 0)
                arrive(empty + 8 * stage);
#pragma unroll
            for (int i = 0; i < SUMS; ++i)
                total[i] += sums[i];
            advance();
        }
        const Tile tile(at, rows, columns, triangle);
        const int row = tile.row * TILE + half * 64 + thread / 32 * 16 + thread % 32 / 4;
        const int column = tile.column * TILE + thread % 4 * 2;
        const float spoilt = live ? 0.f : __uint_as_float(0x7fffffffu);
        float *to = out + tile.matrix * step + row * ld + column;
#pragma unroll
        for (int i = 0; i < SUMS; i += 2) {
            const int down = i / 2 % 2 * 8, right = i / 4 * 8;
            if (row + down < rows && column + right < columns) {
                float *at_pair = to + down * ld + right;
                Vec<float, 2> pair = {{total[i] + spoilt}, {total[i + 1] + spoilt}};
                if (add)
                    pair = pair + load_vec<float, 2>(at_pair);
                store_vec<float, 2>(at_pair, pair);
            }
        }
    }
}
