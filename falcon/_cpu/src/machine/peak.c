/* peak.c - the rate of multiply-adds that the CPU reaches on registers alone.
 *
 * The ceiling of a classical GEMM: independent chains of x = x * f + g, as many
 * as cover the latency of the multipliers, no memory.  The chains converge to
 * g / (1 - f), so no value overflows or becomes subnormal.  Compiled with
 * baseline flags; the wide code carries its instruction set as an attribute.
 */
#include "../engine/engine.h"
#include "../engine/team.h"

/* Steps of one burst, about 2 ms, and bursts of each thread: long against starting the threads. */
enum { STEPS = 400 * 1000, BURSTS = 4, MOST_THREADS = 1024 };

/* Each function returns the sum of its chains, so that none is dropped. */
#define PEAK(name, T, bytes, chains, target)                                                                           \
    target static double name(void) {                                                                                  \
        typedef T vec __attribute__((vector_size(bytes)));                                                             \
        vec x[chains], f = {0}, g = {0};                                                                               \
        f += (T)0.999, g += (T)0.001;                                                                                  \
        _Pragma("GCC unroll 24") for (int i = 0; i < chains; i++) x[i] = g * (T)(i + 1);                               \
        for (ptrdiff_t step = 0; step < STEPS; step++) {                                                               \
            _Pragma("GCC unroll 24") for (int i = 0; i < chains; i++) x[i] = x[i] * f + g;                             \
        }                                                                                                              \
        double sum = 0;                                                                                                \
        _Pragma("GCC unroll 24") for (int i = 0; i < chains; i++) sum += (double)x[i][0];                              \
        return sum;                                                                                                    \
    }

typedef double (*peak_fn)(void);
typedef struct {
    peak_fn run;
    double flops; /* of one burst of one thread */
} peak;
#define FLOPS(T, bytes, chains) (2.0 * STEPS * (chains) * ((bytes) / sizeof(T)))

/* 16 registers: 12 chains and the two constants; 32 registers: 24 chains. */
PEAK(generic_f32, float, 16, 12, )
PEAK(generic_f64, double, 16, 12, )
#ifdef FALCON_HAVE_NEON
PEAK(neon_f32, float, 16, 24, )
PEAK(neon_f64, double, 16, 24, )
#endif
#ifdef FALCON_HAVE_AVX2
PEAK(avx2_f32, float, 32, 12, __attribute__((target("avx2,fma"))))
PEAK(avx2_f64, double, 32, 12, __attribute__((target("avx2,fma"))))
#endif
#ifdef FALCON_HAVE_AVX512
PEAK(avx512_f32, float, 64, 24, __attribute__((target("avx512f,fma"))))
PEAK(avx512_f64, double, 64, 24, __attribute__((target("avx512f,fma"))))
#endif

static const peak peaks[FALCON_N_ISA][FALCON_N_DTYPE] = {
    [FALCON_GENERIC] = {{generic_f32, FLOPS(float, 16, 12)}, {generic_f64, FLOPS(double, 16, 12)}},
#ifdef FALCON_HAVE_NEON
    [FALCON_NEON] = {{neon_f32, FLOPS(float, 16, 24)}, {neon_f64, FLOPS(double, 16, 24)}},
#endif
#ifdef FALCON_HAVE_AVX2
    [FALCON_AVX2] = {{avx2_f32, FLOPS(float, 32, 12)}, {avx2_f64, FLOPS(double, 32, 12)}},
#endif
#ifdef FALCON_HAVE_AVX512
    [FALCON_AVX512] = {{avx512_f32, FLOPS(float, 64, 24)}, {avx512_f64, FLOPS(double, 64, 24)}},
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
    if (!falcon_kernel_get(isa, dtype) || !peaks[isa][dtype].run)
        return 0;
    static const fl_stages stages = {open_bursts, do_burst};
    const peak p = peaks[isa][dtype];
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
