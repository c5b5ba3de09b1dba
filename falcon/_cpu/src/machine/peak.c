/* peak.c - the rate of multiply-adds that the CPU reaches on registers alone.
 *
 * The ceiling of a classical GEMM: independent chains of x = x * f + g, or of
 * dot products added to x, as many as cover the latency of the multipliers, no
 * memory.  The chains converge to g / (1 - f), so no value overflows or becomes
 * subnormal; integers wrap.  Compiled with baseline flags; the wide code carries
 * its instruction set as an attribute.
 */
#include "../engine/engine.h"
#include "../engine/team.h"

/* Steps of one burst, about 2 ms, and bursts of each thread: long compared with starting the threads. */
enum { STEPS = 400 * 1000, BURSTS = 4, MOST_THREADS = 1024 };

/* Each function runs `chains` chains of x = STEP(x, f, g) on vectors `vec` of elements T, and returns their sum, so
 * that the compiler drops none. */
#define PEAK(name, T, vec, chains, STEP, target)                                                                       \
    target static double name(void) {                                                                                  \
        vec x[chains], f = (vec){0} + (T)0.999, g = (vec){0} + (T)0.001;                                               \
        if ((T)0.999 == 0) /* integers */                                                                              \
            f += (T)3, g += (T)5;                                                                                      \
        _Pragma("GCC unroll 24") for (int i = 0; i < chains; i++) x[i] = g * (T)(i + 1);                               \
        for (ptrdiff_t step = 0; step < STEPS; step++) {                                                               \
            _Pragma("GCC unroll 24") for (int i = 0; i < chains; i++) x[i] = STEP(x[i], f, g);                         \
        }                                                                                                              \
        double sum = 0;                                                                                                \
        _Pragma("GCC unroll 24") for (int i = 0; i < chains; i++) sum += (double)x[i][0];                              \
        return sum;                                                                                                    \
    }
#define FMA(x, f, g) ((x) * (f) + (g))
#define VECTOR(T, bytes) typedef T v##bytes##_##T __attribute__((vector_size(bytes)))
VECTOR(float, 16);
VECTOR(double, 16);
VECTOR(uint32_t, 16);
VECTOR(uint64_t, 16);

typedef double (*peak_fn)(void);
typedef struct {
    peak_fn run;
    double flops; /* of one burst of one thread */
} peak;
/* Of one burst on vectors of so many bytes, which add `dots` products to each element T. */
#define FLOPS(T, bytes, chains, dots) (2.0 * STEPS * (chains) * ((bytes) / sizeof(T)) * (dots))

/* 16 registers: 12 chains and the two constants; 32 registers: 24 chains. */
PEAK(generic_f32, float, v16_float, 12, FMA, )
PEAK(generic_f64, double, v16_double, 12, FMA, )
PEAK(generic_i32, uint32_t, v16_uint32_t, 12, FMA, )
PEAK(generic_i64, uint64_t, v16_uint64_t, 12, FMA, )
#ifdef FALCON_HAVE_NEON
PEAK(neon_f32, float, v16_float, 24, FMA, )
PEAK(neon_f64, double, v16_double, 24, FMA, )
PEAK(neon_i32, uint32_t, v16_uint32_t, 24, FMA, )
PEAK(neon_i64, uint64_t, v16_uint64_t, 24, FMA, )
#endif
#ifdef FALCON_HAVE_AVX2
#include <immintrin.h>
#define ON_AVX2 __attribute__((target("avx2,fma")))
#define MADD256(x, f, g) ((v32_uint32_t)_mm256_madd_epi16((__m256i)(x), (__m256i)(f)) + (g))
VECTOR(float, 32);
VECTOR(double, 32);
VECTOR(uint32_t, 32);
VECTOR(uint64_t, 32);
PEAK(avx2_f32, float, v32_float, 12, FMA, ON_AVX2)
PEAK(avx2_f64, double, v32_double, 12, FMA, ON_AVX2)
PEAK(avx2_i32, uint32_t, v32_uint32_t, 12, FMA, ON_AVX2)
PEAK(avx2_i64, uint64_t, v32_uint64_t, 12, FMA, ON_AVX2)
PEAK(avx2_i16, uint32_t, v32_uint32_t, 12, MADD256, ON_AVX2)
#endif
#ifdef FALCON_HAVE_AVX_VNNI
#define ON_AVX_VNNI __attribute__((target("avx2,avxvnni")))
#define DOT8_256(x, f, g) ((v32_uint32_t)_mm256_dpbusd_avx_epi32((__m256i)(x), (__m256i)(f), (__m256i)(g)))
#define DOT16_256(x, f, g) ((v32_uint32_t)_mm256_dpwssd_avx_epi32((__m256i)(x), (__m256i)(f), (__m256i)(g)))
PEAK(avx_vnni_i8, uint32_t, v32_uint32_t, 12, DOT8_256, ON_AVX_VNNI)
PEAK(avx_vnni_i16, uint32_t, v32_uint32_t, 12, DOT16_256, ON_AVX_VNNI)
#endif
#ifdef FALCON_HAVE_AVX512
#define ON_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,fma")))
#define MADD512(x, f, g) ((v64_uint32_t)_mm512_madd_epi16((__m512i)(x), (__m512i)(f)) + (g))
VECTOR(float, 64);
VECTOR(double, 64);
VECTOR(uint32_t, 64);
VECTOR(uint64_t, 64);
PEAK(avx512_f32, float, v64_float, 24, FMA, ON_AVX512)
PEAK(avx512_f64, double, v64_double, 24, FMA, ON_AVX512)
PEAK(avx512_i32, uint32_t, v64_uint32_t, 24, FMA, ON_AVX512)
PEAK(avx512_i64, uint64_t, v64_uint64_t, 24, FMA, ON_AVX512)
PEAK(avx512_i16, uint32_t, v64_uint32_t, 24, MADD512, ON_AVX512)
#endif
#ifdef FALCON_HAVE_AVX512_VNNI
#define ON_VNNI __attribute__((target("avx512f,avx512vnni")))
#define DOT8(x, f, g) ((v64_uint32_t)_mm512_dpbusd_epi32((__m512i)(x), (__m512i)(f), (__m512i)(g)))
#define DOT16(x, f, g) ((v64_uint32_t)_mm512_dpwssd_epi32((__m512i)(x), (__m512i)(f), (__m512i)(g)))
PEAK(avx512_vnni_i8, uint32_t, v64_uint32_t, 24, DOT8, ON_VNNI)
PEAK(avx512_vnni_i16, uint32_t, v64_uint32_t, 24, DOT16, ON_VNNI)
#endif
#ifdef FALCON_HAVE_AVX512_BF16
/* The halves of f and g are the bfloat16 numbers that make them up: about 1 and 0.001, so that no sum overflows. */
#define ON_BF16 __attribute__((target("avx512f,avx512bf16")))
#define DOT_BF16(x, f, g) ((v64_float)_mm512_dpbf16_ps((__m512)(x), (__m512bh)(f), (__m512bh)(g)))
PEAK(avx512_bf16_bf16, float, v64_float, 24, DOT_BF16, ON_BF16)
#endif

/* A type that is converted while packing has the peak of the type of its panels. */
#define ROW_OF_ALL(isa, bytes, chains, i16, pairs)                                                                     \
    {                                                                                                                  \
        [FALCON_F32] = {isa##_f32, FLOPS(float, bytes, chains, 1)},                                                    \
        [FALCON_F64] = {isa##_f64, FLOPS(double, bytes, chains, 1)},                                                   \
        [FALCON_F16] = {isa##_f32, FLOPS(float, bytes, chains, 1)},                                                    \
        [FALCON_BF16] = {isa##_f32, FLOPS(float, bytes, chains, 1)},                                                   \
        [FALCON_I8] = {i16, FLOPS(float, bytes, chains, pairs)},                                                       \
        [FALCON_U8] = {i16, FLOPS(float, bytes, chains, pairs)},                                                       \
        [FALCON_I16] = {i16, FLOPS(float, bytes, chains, pairs)},                                                      \
        [FALCON_I32] = {isa##_i32, FLOPS(float, bytes, chains, 1)},                                                    \
        [FALCON_I64] = {isa##_i64, FLOPS(double, bytes, chains, 1)},                                                   \
        [FALCON_I64_F64] = {isa##_f64, FLOPS(double, bytes, chains, 1)},                                               \
    }
static const peak peaks[FALCON_N_ISA][FALCON_N_DTYPE] = {
    [FALCON_GENERIC] = ROW_OF_ALL(generic, 16, 12, NULL, 0), /* no i16: not every compiler uses pmaddwd there */
#ifdef FALCON_HAVE_NEON
    [FALCON_NEON] = ROW_OF_ALL(neon, 16, 24, NULL, 0),
#endif
#ifdef FALCON_HAVE_AVX2
    [FALCON_AVX2] = ROW_OF_ALL(avx2, 32, 12, avx2_i16, 2),
#endif
#ifdef FALCON_HAVE_AVX512
    [FALCON_AVX512] = ROW_OF_ALL(avx512, 64, 24, avx512_i16, 2),
#endif
#ifdef FALCON_HAVE_AVX_VNNI
    [FALCON_AVX_VNNI] = {[FALCON_I8] = {avx_vnni_i8, FLOPS(float, 32, 12, 4)},
                         [FALCON_U8] = {avx_vnni_i8, FLOPS(float, 32, 12, 4)},
                         [FALCON_I16] = {avx_vnni_i16, FLOPS(float, 32, 12, 2)}},
#endif
#ifdef FALCON_HAVE_AVX512_VNNI
    [FALCON_AVX512_VNNI] = {[FALCON_I8] = {avx512_vnni_i8, FLOPS(float, 64, 24, 4)},
                            [FALCON_U8] = {avx512_vnni_i8, FLOPS(float, 64, 24, 4)},
                            [FALCON_I16] = {avx512_vnni_i16, FLOPS(float, 64, 24, 2)}},
#endif
#ifdef FALCON_HAVE_AVX512_BF16
    [FALCON_AVX512_BF16] = {[FALCON_BF16] = {avx512_bf16_bf16, FLOPS(float, 64, 24, 2)}},
#endif
};

typedef struct {
    peak_fn run;
    int threads, opened;
    double sums[MOST_THREADS];
} job;

static ptrdiff_t open_bursts(void *j_, ptrdiff_t *grab) {
    job *j = j_;
    *grab = 1;
    return j->opened++ ? 0 : BURSTS * j->threads;
}

static void do_burst(void *j_, int seat, ptrdiff_t first, ptrdiff_t end) {
    job *j = j_;
    for (; first < end; first++)
        j->sums[seat] += j->run();
}

double falcon_peak(int isa, int dtype, int threads, double seconds) {
    const falcon_kernel *kern = falcon_kernel_get(isa, dtype);
    if (!kern || !peaks[isa][kern->a_dtype].run) /* two types: that of either */
        return 0;
    static const fl_stages stages = {open_bursts, do_burst};
    const peak p = peaks[isa][kern->a_dtype];
    const int team = FL_MAX(1, FL_MIN(threads, MOST_THREADS));
    const double end = fl_now() + seconds;
    double best = 0;
    do {
        job j = {.run = p.run, .threads = fl_team_size(team, team)};
        const double from = fl_now();
        fl_team_run(&stages, &j, j.threads);
        best = FL_MAX(best, p.flops * BURSTS * j.threads / (fl_now() - from));
        volatile double keep = j.sums[0];
        (void)keep;
    } while (fl_now() < end);
    return best;
}
