/* test_cpu.c - standalone test driver of the C library; tests/cpu/test_c_driver.py builds and runs it:
 *
 *   python -m tests.cpu.test_c_driver FOLDER -O2 -g -fsanitize=address,undefined &&
 *   FOLDER/test_cpu [rounds] [isa, emulated or all] [alone or openmp]
 *
 * Every case draws shape, strides, alpha, beta, blocking and scheme at random
 * (fixed seed, printed on failure) on every instruction set that runs here.
 * Values are small integers, so every result is exact and compared bit for bit;
 * a second run on real numbers compares thread counts bit for bit.  Operands
 * end at an unreadable page, C's gaps hold canaries, workspaces hold NaN.
 */
#include "batch_case.h"
#include "elements.h"
#include "emulated_case.h"
#include "engine/engine.h"
#include "engine/team.h"
#include "machine/machine.h"
#include "matrices.h"
#include "schemes.h"
#include "team_case.h"
#include <math.h>
#include <stdio.h>

typedef struct {
    const falcon_kernel *kern;
    const falcon_scheme *scheme;
    falcon_problem prob;
    falcon_blocking blk;
    int threads, packed, nonfinite; /* nonfinite: set by run() */
} test_call;

static int alone; /* no calls of several threads */

/* Runs the call with guarded, poisoned, exactly sized workspaces. */
static void run(test_call *call) {
    test_call t = *call;
    falcon_problem p = t.prob;
    guarded packed = {0}, ws2 = {0};
    if (t.packed) {
        const size_t bytes = falcon_packed_b_size(t.kern, t.scheme, p.K, p.N, &t.blk);
        const size_t work = falcon_pack_b_workspace(t.kern, t.scheme, t.threads);
        packed = guarded_new(bytes, 1), ws2 = guarded_new(work, 1);
        falcon_pack_b(t.kern, t.scheme, p.K, p.N, p.b, p.b_rs, p.b_cs, p.b_scale, t.threads, &t.blk, packed.at, ws2.at);
        p.b = NULL, p.packed_b = packed.at;
    }
    const size_t bytes = falcon_workspace(t.kern, t.scheme, &p, t.threads, &t.blk);
    guarded ws = guarded_new(bytes, 1);
    falcon_profile prof = {0};
    call->nonfinite = falcon_gemm(t.kern, t.scheme, &p, t.threads, &t.blk, ws.at, rnd(2) ? &prof : NULL);
    guarded_free(ws);
    if (t.packed)
        guarded_free(packed), guarded_free(ws2);
}

static const int sizes[] = {1,  2,  3,  5,  7,  8,  9,  12,  13,  15,  16,  17, 24,
                            31, 32, 33, 47, 64, 65, 97, 101, 128, 131, 197, 257};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* Change A or B so that at least one element of AB is not finite. */
static void poison(const matrix *a, const matrix *b) {
    const ptrdiff_t i = rnd((int)a->rows), l = rnd((int)a->cols), j = rnd((int)b->cols);
    const double huge = a->dtype == FALCON_F64 ? 1e308 : 3e38;
    switch (rnd(a->dtype == FALCON_F16 || a->dtype == FALCON_F32F64 ? 3 : 4)) { /* wider products are finite */
    case 0:
        put(a, i, l, NAN);
        break;
    case 1:
        put(b, l, j, -INFINITY);
        break;
    case 2:
        put(a, i, l, INFINITY);
        break;
    default: /* finite operands, an infinite product */
        put(a, i, l, huge), put(b, l, j, huge);
    }
}

/* The runs of one_case: integers, compared with the plain loop; reals on 1, 2 and 3 threads; then two runs that
 * only check `nonfinite`: C holds an infinity (not reported), A or B does (reported). */
enum { INTEGERS, REALS_1, REALS_2, REALS_3, INF_IN_C, INF_IN_AB, N_PASSES };

/* Powers of two, so small that integers stay exact in every type; mostly NULL. */
static double *scales_new(ptrdiff_t lines, int dtype) {
    if (is_exact(dtype) || rnd(3))
        return NULL;
    double *found = malloc((size_t)lines * sizeof *found);
    for (ptrdiff_t i = 0; i < lines; i++)
        found[i] = dtype == FALCON_BF16 ? 1 + rnd(2) : ldexp(1, rnd(5) - 2);
    return found;
}

/* Whether A and B have two types: C holds accumulators. */
static int is_pair(const falcon_kernel *kern) {
    return kern->a_dtype != kern->b_dtype;
}

static falcon_problem product_of(const matrix *a, const matrix *b, const matrix *c) {
    return (falcon_problem){.M = c->rows,
                            .N = c->cols,
                            .K = a->cols,
                            .a = a->p,
                            .b = b->p,
                            .c = c->p,
                            .a_rs = a->rs,
                            .a_cs = a->cs,
                            .b_rs = b->rs,
                            .b_cs = b->cs,
                            .c_rs = c->rs,
                            .c_cs = c->cs};
}

static int one_case(int isa, int dtype, const falcon_scheme *scheme, const char *scheme_name) {
    const uint64_t seed0 = seed;
    ptrdiff_t M = sizes[rnd(N_SIZES)], N = sizes[rnd(N_SIZES)], K = sizes[rnd(N_SIZES)];
    if (!scheme && rnd(5) == 0) { /* matrix times vector, large enough for threads and several blocks */
        const int row = rnd(2);
        M = row ? 1 : 1 + rnd(rnd(2) ? 4500 : 300), N = row ? 1 + rnd(rnd(2) ? 4500 : 300) : 1;
        K = 1 + rnd(M + N > 1500 ? 400 : 4500);
    }
    const int ka = rnd(8), kb = rnd(8), kc = rnd(7), small = !scheme && rnd(4) == 0;
    const double alphas[] = {1, 2, -1, 0}, betas[] = {0, 0, 1, -2};
    const double alpha = alphas[rnd(100) < 95 ? rnd(3) : 3], beta = betas[rnd(4)];
    const falcon_kernel *kern = falcon_kernel_get(isa, dtype);
    const int exact = kern->exact || is_exact(dtype);
    /* a scheme's sums wrap like the elements: where they may be negative, accumulators would differ */
    const int elem = rnd(3) || (dtype == FALCON_U8 && scheme);
    const int c_form = elem && !is_pair(kern) ? FALCON_C_ELEM : FALCON_C_ACC, c_type = c_form ? kern->acc_dtype : dtype;
    matrix a = matrix_new(kern->a_dtype, M, K, ka), b = matrix_new(kern->b_dtype, K, N, kb),
           c = matrix_new(c_type, M, N, kc);
    double *want = calloc((size_t)(M * N), 8), *first = calloc((size_t)(M * N), 8);
    test_call t = {.kern = kern, .scheme = scheme, .packed = !small && rnd(3) == 0};
    t.prob = product_of(&a, &b, &c);
    t.prob.alpha = scalar(alpha, 0), t.prob.beta = scalar(beta, 0), t.prob.c_form = c_form;
    double *a_scale = scales_new(M, a.dtype), *b_scale = scales_new(N, b.dtype);
    t.prob.a_scale = a_scale, t.prob.b_scale = b_scale;
    if (rnd(2))
        t.blk.kc = kern->k_grain * (1 + rnd(4));
    if (rnd(3) == 0)
        t.blk.mt = 1 + rnd(3), t.blk.nt = 1 + rnd(3);
    if (rnd(3) == 0)
        t.blk.kb = 1 + rnd((int)K);
    if (rnd(4) == 0)
        t.blk.mb = 1 + rnd((int)M), t.blk.nb = 1 + rnd((int)N);
    t.blk.stream_pack = rnd(3), t.blk.stream_c = rnd(3);
    falcon_blocking_fill(t.kern, scheme, &t.prob, 3, rnd(3) ? 0 : 1 << 18, &t.blk);
    const char *why = NULL;
    for (int pass = 0; pass < (exact ? INF_IN_C : N_PASSES) && !why; pass++) {
        if (alone && (pass == REALS_2 || pass == REALS_3))
            continue;
        if (pass == 0 || pass == 1)
            fill(&a, pass), fill(&b, pass);
        const uint64_t before = seed;
        seed = seed0 + 1;
        for (ptrdiff_t i = 0; i < M; i++)
            for (ptrdiff_t j = 0; j < N; j++)
                put(&c, i, j, beta == 0 ? NAN : rnd(7) - 3);
        if (pass == 0)
            for (ptrdiff_t i = 0; i < M; i++)
                for (ptrdiff_t j = 0; j < N; j++) {
                    double s = 0;
                    for (ptrdiff_t l = 0; l < K; l++)
                        s += get(&a, i, l) * get(&b, l, j);
                    want[i * N + j] = rounded(c_type, alpha * s + (beta == 0 ? 0 : beta * get(&c, i, j)));
                }
        seed = before;
        t.threads = pass < 2 || alone ? 1 : pass < INF_IN_C ? pass : 1 + rnd(3);
        if (pass == INF_IN_C && beta != 0)
            put(&c, rnd((int)M), rnd((int)N), INFINITY);
        if (pass == INF_IN_AB)
            poison(&a, &b);
        if (small)
            t.nonfinite = falcon_gemm_small(t.kern, &t.prob, t.threads);
        else
            run(&t);
        for (ptrdiff_t i = 0; i < M && !why; i++)
            for (ptrdiff_t j = 0; j < N && !why; j++) {
                const double got = get(&c, i, j);
                if (pass == 1)
                    first[i * N + j] = got;
                if (pass == 0 && got != want[i * N + j])
                    why = "wrong value";
                if (pass >= 2 && pass < INF_IN_C && memcmp(&got, first + i * N + j, 8))
                    why = "result depends on the number of threads";
            }
        if (!why && t.nonfinite != (pass == INF_IN_AB && alpha != 0))
            why = "wrong report of values that are not finite";
        if (!why && !gaps_intact(&c))
            why = "memory between C's elements was written";
    }
    if (why)
        printf("FAIL %s: %s %s M=%td N=%td K=%td kinds %d%d%d C %d alpha=%g beta=%g packed=%d small=%d blocking "
               "%td,%td,%td,%td,%td,%td threads=%d seed=%llu\n",
               why, kern->name, scheme_name, M, N, K, ka, kb, kc, c_form, alpha, beta, t.packed, small, t.blk.mb,
               t.blk.nb, t.blk.kb, t.blk.kc, t.blk.mt, t.blk.nt, t.threads, (unsigned long long)seed0);
    guarded_free(a.mem), guarded_free(b.mem), guarded_free(c.mem);
    free(want), free(first), free(a_scale), free(b_scale);
    return why != NULL;
}

/* Blockings of large problems, not run: kb and kc must not depend on the number of threads, the limit must
 * be kept where it is not tiny, and choosing must be quick. */
static int blocking_case(int isa, int dtype, const falcon_scheme *scheme, const char *scheme_name, double *slowest) {
    const uint64_t seed0 = seed;
    const falcon_kernel *kern = falcon_kernel_get(isa, dtype);
    const ptrdiff_t M = 1 + rnd(1 << rnd(15)), N = 1 + rnd(1 << rnd(15)), K = 1 + rnd(1 << rnd(15));
    const size_t limit = rnd(4) ? (size_t)1 << (20 + rnd(12)) : 0;
    falcon_problem p = {.M = M,
                        .N = N,
                        .K = K,
                        .alpha = scalar(1, 0),
                        .a_rs = K,
                        .a_cs = 1,
                        .b_rs = N,
                        .b_cs = 1,
                        .c_rs = N,
                        .c_cs = 1};
    p.c_form = kern->exact && !is_pair(kern) ? FALCON_C_ELEM : FALCON_C_ACC; /* for a rounded C, K cannot be cut */
    if (rnd(3) == 0)
        p.c_rs = 1, p.c_cs = M + 1;
    if (rnd(3) == 0)
        p.b_rs = 1, p.b_cs = K;
    const char *why = NULL;
    falcon_blocking first = {0};
    static const int teams[] = {1, 2, 3, 8, 64};
    for (int i = 0; i < 5 && !why; i++) {
        falcon_blocking b = {0};
        double took = 1;
        for (int again = 0; again < 3; again++) { /* the least of three: the machine may be busy */
            memset(&b, 0, sizeof b);
            const double t0 = fl_now();
            falcon_blocking_fill(kern, scheme, &p, teams[i], limit, &b);
            const double t = fl_now() - t0;
            took = t < took ? t : took;
        }
        *slowest = took > *slowest ? took : *slowest;
        if (i == 0)
            first = b;
        if (b.kb != first.kb || b.kc != first.kc)
            why = "kb or kc depends on the number of threads";
        const size_t need = falcon_workspace(kern, scheme, &p, teams[i], &b);
        const size_t most = limit ? limit : FALCON_DEFAULT_LIMIT;
        if (need > most && most >= (size_t)teams[i] << 24) /* passes are chosen for 8 threads */
            why = "the workspace exceeds the limit";
        if (why)
            printf("FAIL %s: %s %s M=%td N=%td K=%td limit=%zu need=%zu threads=%d blocking %td,%td,%td,%td,%td,%td "
                   "seed=%llu\n",
                   why, kern->name, scheme_name, M, N, K, limit, need, teams[i], b.mb, b.nb, b.kb, b.kc, b.mt, b.nt,
                   (unsigned long long)seed0);
    }
    return why != NULL;
}

/* Part (0, 1) of an element of a complex matrix. */
static char *part_at(const matrix *x, ptrdiff_t i, ptrdiff_t j, int part) {
    return x->p + (i * x->rs + j * x->cs) * bytes_of(x->dtype) + part * bytes_of(x->dtype ^ COMPLEX);
}
static double part_of(const matrix *x, ptrdiff_t i, ptrdiff_t j, int part) {
    return element_get(x->dtype ^ COMPLEX, part_at(x, i, j, part));
}
static void fill_parts(const matrix *x, int nan) {
    for (ptrdiff_t e = 0; e < 2 * x->rows * x->cols; e++)
        element_put(x->dtype ^ COMPLEX, part_at(x, e / 2 / x->cols, e / 2 % x->cols, (int)(e % 2)),
                    nan ? NAN : rnd(5) - 2);
}

/* A complex product of integers, which is exact: any strides, scalars, conjugates. */
static int parts_case(int isa, int dtype, const falcon_scheme *scheme) {
    const uint64_t seed0 = seed;
    const falcon_kernel *kern = falcon_kernel_get(isa, dtype);
    const ptrdiff_t M = sizes[rnd(N_SIZES)], N = sizes[rnd(N_SIZES)], K = sizes[rnd(N_SIZES)];
    matrix a = matrix_new(dtype | COMPLEX, M, K, rnd(8)), b = matrix_new(dtype | COMPLEX, K, N, rnd(8)),
           c = matrix_new(dtype | COMPLEX, M, N, rnd(7));
    test_call t = {.kern = kern, .scheme = scheme, .packed = rnd(3) == 0, .threads = alone ? 1 : 1 + rnd(3)};
    t.prob = product_of(&a, &b, &c);
    t.prob.alpha = scalar(rnd(3) - 1, 1 + rnd(2)), t.prob.beta = scalar(rnd(2), rnd(2));
    t.prob.a_conj = rnd(2), t.prob.b_conj = !t.packed && rnd(2);
    if (rnd(2))
        t.prob.alpha = scalar(1, 0);
    t.blk.stream_c = rnd(3);
    falcon_blocking_fill(kern, scheme, &t.prob, 3, rnd(3) ? 0 : 1 << 18, &t.blk);
    const falcon_problem *p = &t.prob;
    fill_parts(&a, 0), fill_parts(&b, 0), fill_parts(&c, p->beta.real == 0 && p->beta.imag == 0);
    double *want = malloc((size_t)(2 * M * N) * sizeof *want);
    for (ptrdiff_t i = 0; i < M; i++)
        for (ptrdiff_t j = 0; j < N; j++) {
            double s[2] = {0}, old[2] = {0}, *to = want + 2 * (i * N + j);
            for (ptrdiff_t l = 0; l < K; l++) {
                const double ar = part_of(&a, i, l, 0), ai = part_of(&a, i, l, 1) * (p->a_conj ? -1 : 1);
                const double br = part_of(&b, l, j, 0), bi = part_of(&b, l, j, 1) * (p->b_conj ? -1 : 1);
                s[0] += ar * br - ai * bi, s[1] += ar * bi + ai * br;
            }
            for (int q = 0; q < 2 && (p->beta.real != 0 || p->beta.imag != 0); q++)
                old[q] = part_of(&c, i, j, q);
            to[0] = p->alpha.real * s[0] - p->alpha.imag * s[1] + p->beta.real * old[0] - p->beta.imag * old[1];
            to[1] = p->alpha.real * s[1] + p->alpha.imag * s[0] + p->beta.real * old[1] + p->beta.imag * old[0];
        }
    run(&t);
    int bad = t.nonfinite || !gaps_intact(&c);
    for (ptrdiff_t e = 0; e < 2 * M * N && !bad; e++)
        bad = part_of(&c, e / 2 / N, e / 2 % N, (int)(e % 2)) != want[e];
    if (bad)
        printf("FAIL complex %s R=%d M=%td N=%td K=%td packed=%d seed=%llu\n", kern->name, scheme->R, M, N, K, t.packed,
               (unsigned long long)seed0);
    guarded_free(a.mem), guarded_free(b.mem), guarded_free(c.mem);
    free(want);
    return bad;
}

/* Squared norms of the lines of a matrix of any strides: exact on integers, the same bits on 1 and 3 threads. */
static int norms_case(int isa, int dtype) {
    const uint64_t seed0 = seed;
    const falcon_kernel *kern = falcon_kernel_get(isa, dtype);
    const int many = rnd(10) == 0, real = rnd(2); /* many: enough for several threads, strips and runs */
    const ptrdiff_t rows = many ? 1 + rnd(3000) : sizes[rnd(N_SIZES)];
    const ptrdiff_t cols = many ? 1 + rnd(3000) : sizes[rnd(N_SIZES)];
    matrix x = matrix_new(dtype, rows, cols, rnd(8));
    fill(&x, real);
    if (dtype == FALCON_F32BF16 || dtype == FALCON_F64BF16) /* norms are those of what is read */
        for (ptrdiff_t i = 0; i < rows * cols; i++)
            put(&x, i / cols, i % cols, rounded(FALCON_BF16, get(&x, i / cols, i % cols)));
    const int by_columns = rnd(2);
    const ptrdiff_t lines = by_columns ? cols : rows, len = by_columns ? rows : cols;
    const ptrdiff_t ls = by_columns ? x.cs : x.rs, ks = by_columns ? x.rs : x.cs;
    guarded first = guarded_new((size_t)lines * 8, 1), again = guarded_new((size_t)lines * 8, rnd(2));
    const ptrdiff_t cuts[] = {0, len / 3, len / 3, len};
    guarded totals = guarded_new((size_t)lines * 48, 1), more = guarded_new((size_t)lines * 48, 0);
    falcon_norms(kern, x.p, lines, len, ls, ks, 1, NULL, (double *)first.at, NULL, cuts, 3, (double *)totals.at);
    falcon_norms(kern, x.p, lines, len, ls, ks, alone ? 1 : 3, NULL, (double *)again.at, NULL, cuts, 3,
                 (double *)more.at);
    int bad = memcmp(first.at, again.at, (size_t)lines * 8) || memcmp(totals.at, more.at, (size_t)lines * 48);
    for (ptrdiff_t i = 0; i < 3 * lines && !bad; i++) {
        double sum = 0, size = 0;
        for (ptrdiff_t k = cuts[i / lines]; k < cuts[i / lines + 1]; k++) {
            const double v = by_columns ? get(&x, k, i % lines) : get(&x, i % lines, k);
            sum += v, size += fabs(v);
        }
        const double off = fabs(((double *)totals.at)[i] - sum);
        bad = real ? !(off <= 1e-4 * size) : off != 0;
    }
    falcon_norms(kern, x.p, lines, len, ls, ks, 1, NULL, (double *)again.at, NULL, NULL, 0, NULL);
    for (ptrdiff_t i = 0; i < lines && !bad; i++) {
        double sum = 0;
        for (ptrdiff_t k = 0; k < len; k++) {
            const double v = by_columns ? get(&x, k, i) : get(&x, i, k);
            sum += v * v;
        }
        const double off = fmax(fabs(((double *)first.at)[i] - sum), fabs(((double *)again.at)[i] - sum));
        bad = real ? !(off <= 1e-4 * sum) : off != 0; /* all steps may be equal, and round alike */
    }
    if (bad)
        printf("FAIL norms %s %td x %td rs=%td cs=%td by_columns=%d seed=%llu\n", kern->name, rows, cols, x.rs, x.cs,
               by_columns, (unsigned long long)seed0);
    guarded_free(x.mem), guarded_free(first), guarded_free(again), guarded_free(totals), guarded_free(more);
    return bad;
}

extern const falcon_kernel falcon_kernel_emulated_f32bf16, falcon_kernel_emulated_f64bf16, falcon_kernel_blocks_f32bf16,
    falcon_kernel_blocks_f64bf16, falcon_kernel_emulated_bf16, falcon_kernel_emulated_i8, falcon_kernel_emulated_u8,
    falcon_kernel_emulated_u8i8, falcon_kernel_emulated_i8u8, falcon_kernel_blocks_bf16, falcon_kernel_blocks_i8,
    falcon_kernel_blocks_u8, falcon_kernel_blocks_u8i8, falcon_kernel_blocks_i8u8;
static const falcon_kernel *const emulated[] = {
    &falcon_kernel_emulated_f32bf16, &falcon_kernel_emulated_f64bf16, &falcon_kernel_blocks_f32bf16,
    &falcon_kernel_blocks_f64bf16,   &falcon_kernel_emulated_bf16,    &falcon_kernel_emulated_i8,
    &falcon_kernel_emulated_u8,      &falcon_kernel_emulated_u8i8,    &falcon_kernel_emulated_i8u8,
    &falcon_kernel_blocks_bf16,      &falcon_kernel_blocks_i8,        &falcon_kernel_blocks_u8,
    &falcon_kernel_blocks_u8i8,      &falcon_kernel_blocks_i8u8};
enum { N_EMULATED = sizeof emulated / sizeof *emulated };

/* If the use of tile registers is refused, there is a reason, and always the same one. */
static int permission_case(void) {
    const char *why = fl_ask_for_tiles();
    const int runs = fl_cpu_runs(FALCON_AMX_INT8) || fl_cpu_runs(FALCON_AMX_BF16);
    const int bad = why != fl_ask_for_tiles() || (runs && why) || (why && strlen(why) < 10);
    printf("%stile registers: %s\n", bad ? "FAIL " : "", why ? why : "granted");
    return bad;
}

typedef struct {
    const char *name;
    falcon_scheme s;
} named_scheme;
enum { N_SCHEMES = 6, N_PARTS = 3 };

/* Every type that the instruction set has a kernel for; nothing where it does not run. */
static int one_isa(int isa, const named_scheme *schemes, const falcon_scheme *parts, int rounds) {
    int cases = 0, failures = 0;
    double slowest = 0;
    const char *name = NULL;
    for (int dtype = 0; dtype < FALCON_N_DTYPE; dtype++) {
        const falcon_kernel *kern = falcon_kernel_get(isa, dtype);
        if (!kern)
            continue;
        name = kern->name;
        const uint64_t seed0 = seed;
        for (int i = 0; i < N_SCHEMES; i++) {
            if (kern->exact && !strncmp(schemes[i].name, "scaled", 6))
                continue; /* fractions */
            if (is_pair(kern) && i && kern->panel == 1)
                continue; /* sums of unsigned elements wrap, and accumulators would differ */
            const falcon_scheme *scheme = i ? &schemes[i].s : NULL;
            for (int n = 0; n < rounds && failures < 10; n++, cases++)
                failures += one_case(isa, dtype, scheme, schemes[i].name);
            for (int n = 0; n < 10 * rounds && failures < 10; n++)
                failures += blocking_case(isa, dtype, scheme, schemes[i].name, &slowest);
        }
        for (int n = 0; !kern->exact && n < 2 * rounds && failures < 10; n++, cases++)
            failures += norms_case(isa, dtype);
        for (int n = 0; kern->write_parts && n < 2 * rounds && failures < 10; n++, cases++)
            failures += parts_case(isa, dtype, parts + n % N_PARTS);
        if (dtype == FALCON_F64F32 || dtype == FALCON_F32F64)
            seed = seed0; /* the cases of other types do not depend on these */
    }
    if (name) {
        printf("slowest choice of a blocking: %.0f microseconds\n", slowest * 1e6);
        printf("%s: %d cases of %s and the like, %d failures\n", falcon_isa_name(isa), cases, name, failures);
    }
    return failures;
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 60;
    alone = argc > 3 && !strcmp(argv[3], "alone");
    if (argc > 3 && !strcmp(argv[3], "openmp"))
        falcon_threading(FALCON_OPENMP);
    dense_scheme st = dense_strassen(0), sc = dense_strassen(1), c1 = dense_classical(1, 3, 2),
                 c2 = dense_classical(3, 1, 1);
    named_scheme schemes[N_SCHEMES] = {{"classical", {0}},
                                       {"strassen", scheme_of(dense_strassen(0))},
                                       {"scaled strassen", scheme_of(sc)},
                                       {"strassen twice", scheme_of(dense_compose(st, st))},
                                       {"strassen x <1,3,2>", scheme_of(dense_compose(st, c1))},
                                       {"<3,1,1> x strassen", scheme_of(dense_compose(c2, st))}};
    const falcon_scheme parts[N_PARTS] = {complex_scheme_of(dense_strassen(1), 0),
                                          complex_scheme_of(dense_classical(1, 1, 1), 1),
                                          complex_scheme_of(dense_compose(c2, st), 0)};
    dense_free(st), dense_free(c1), dense_free(c2);
    int failures = alone || falcon_threading(-1) != FALCON_OWN_TEAM ? 0 : team_case(100 * rounds);
    failures += alone ? 0 : batch_case();
    for (int i = 1; i < N_SCHEMES; i++) {
        const char *why = falcon_scheme_check(&schemes[i].s);
        if (why)
            printf("FAIL %s: %s\n", schemes[i].name, why), failures++;
    }
    for (int i = 0; i < N_PARTS; i++) {
        const char *why = falcon_scheme_check(parts + i);
        if (why)
            printf("FAIL complex scheme %d: %s\n", i, why), failures++;
    }
    failures += permission_case();
    const char *only = argc > 2 && strcmp(argv[2], "all") ? argv[2] : NULL;
    for (int isa = 0; isa < FALCON_N_ISA; isa++)
        if (!only || !strcmp(only, falcon_isa_name(isa)))
            failures += one_isa(isa, schemes, parts, rounds);
    int has_emulated[FALCON_N_ISA] = {0};
    for (int i = 0; i < N_EMULATED; i++) {
        const falcon_kernel *kern = emulated[i], *real = falcon_kernel_get(kern->isa, kern->dtype);
        if (real && (!only || !strcmp(only, falcon_isa_name(kern->isa))))
            failures += emulated_case(real, kern, rounds);
        falcon_kernel_put(kern->isa, kern->dtype, kern);
        has_emulated[kern->isa] = !only || !strcmp(only, "emulated");
    }
    for (int isa = 0; isa < FALCON_N_ISA; isa++)
        if (has_emulated[isa])
            failures += one_isa(isa, schemes, parts, rounds);
    for (int i = 1; i < N_SCHEMES; i++)
        scheme_free(schemes[i].s);
    for (int i = 0; i < N_PARTS; i++)
        scheme_free(parts[i]);
    printf("%s\n", failures ? "FAILED" : "all passed");
    return failures != 0;
}
