/* falcon_cpu.h - the C interface of the CPU backend.
 *
 * Two entry points do all the work: falcon_classical() computes
 * C = alpha A B + beta C the ordinary way, falcon_lcma() with a scheme
 * <m,k,n;R> given as data.  Both run the same engine:
 *
 *   combine   lcma_combine.c  A and B -> R combined operands in packed panels
 *   gemm      lcma_tiles.c    C tiles: H_r = At_r Bt_r, scattered into C tiles
 *
 * (classical is the scheme <1,1,1;1>, whose combine stage is plain packing).
 * Nothing here allocates, keeps state between calls or reads the environment:
 * the caller hands in the workspace, whose exact size it asks for first.
 * Every stride and offset is in elements and ptrdiff_t.
 */
#ifndef FALCON_CPU_H
#define FALCON_CPU_H

#include <stddef.h>
#include <stdint.h>

enum falcon_isa { FALCON_GENERIC, FALCON_NEON, FALCON_AVX2, FALCON_AVX512, FALCON_N_ISA };
enum falcon_dtype { FALCON_F32, FALCON_F64, FALCON_N_DTYPE };
enum falcon_status { FALCON_OK = 0, FALCON_UNSUPPORTED = 1, FALCON_BAD_ARGUMENT = 2, FALCON_WORKSPACE = 3 };

/* ---- Linear-combination programs -------------------------------------- */

/* Registers 0..n_in-1 are the inputs, n_in..n_in+n_temp-1 temporaries, and
 * FALCON_ACC an accumulator that never leaves the vector registers: chains
 * that end in a STORE should run through it.  dst may be a temporary or ACC. */
enum { FALCON_ACC = -1 };
enum falcon_opcode {
    FALCON_OP_ADD,   /* dst = a + b          */
    FALCON_OP_SUB,   /* dst = a - b          */
    FALCON_OP_SCALE, /* dst = coef * a       */
    FALCON_OP_AXPY,  /* dst = a + coef * b   */
    FALCON_OP_STORE, /* output dst = coef * a */
    FALCON_N_OPCODE
};
typedef struct {
    int32_t op, dst, a, b;
    double coef;
} falcon_op;

struct falcon_program;
/* Form all outputs of a program from all inputs.  Input q is the contiguous
 * vector src + q*src_stride, output r the vector dst + r*dst_stride, each of
 * len elements.  src, dst and the byte size of both strides and of len are
 * multiples of 64.  stream != 0 asks for non-temporal stores (the outputs will
 * not be read soon); a fence follows later.  scratch: n_temp * FALCON_BLOCK
 * bytes, for the interpreter.  Generated code has this same signature and may
 * ignore prog and scratch. */
typedef void (*falcon_combine_fn)(const void *src, ptrdiff_t src_stride, void *dst, ptrdiff_t dst_stride, ptrdiff_t len,
                                  int stream, const struct falcon_program *prog, void *scratch);
enum { FALCON_BLOCK = 256 }; /* bytes per register that the interpreter handles at a time */

typedef struct falcon_program {
    int32_t n_in, n_out, n_temp, n_ops;
    const falcon_op *ops;
    falcon_combine_fn generated; /* NULL: interpret.  Must fit the call's dtype and ISA. */
} falcon_program;

/* U's program reads A[i,l] as input i*k + l, V's reads B[l,j] as input l*n + j;
 * output r is At_r or Bt_r.  W as what becomes of H_r when it is there: steps
 * w_start[r] up to w_start[r+1], each "slot += coef * source". */
typedef struct {
    int32_t slot;   /* block i*n + j of C; from m*n on: a sum that several blocks share */
    int32_t source; /* FALCON_PRODUCT: H_r, else the slot of a sum that an earlier step of H_r completed */
    int32_t flags;  /* FALCON_FIRST: the slot holds nothing yet; FALCON_LAST: the block or sum is complete */
    double coef;
} falcon_step;
enum { FALCON_PRODUCT = -1, FALCON_FIRST = 1, FALCON_LAST = 2 };
typedef struct {
    int32_t m, k, n, R, n_slots;
    falcon_program u, v;
    const int32_t *w_start;
    const falcon_step *w;
} falcon_scheme;

/* ---- Kernels ----------------------------------------------------------- */

/* h[i*NR + j] (+)= sum over p < kc of a[p*MR + i] * b[p*ldb + j].  The variant
 * [rows-1][vectors-1] touches that many rows and vectors of columns only.
 * pf: while running, prefetch into L2 the lines pf, pf + pf_step, ... (bytes),
 * one for every FALCON_PF_EVERY steps of p. */
typedef void (*falcon_ukr_fn)(ptrdiff_t kc, const void *a, const void *b, ptrdiff_t ldb, void *h, int accumulate,
                              const char *pf, ptrdiff_t pf_step);
enum { FALCON_PF_EVERY = 2 };
/* dst[p*width + i] = src[i*is + p*ps] for i < vi, p < vp; 0 for the other i < width, p < len. */
typedef void (*falcon_pack_fn)(const void *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp, void *dst,
                               ptrdiff_t len);
/* dst = ct + coef*h over a whole MR x NR micro-tile; ct may be NULL (zero) or dst. */
typedef void (*falcon_scatter_fn)(void *dst, const void *ct, const void *h, double coef);
/* C = alpha*(ct + coef*h) + beta*C on rows x cols elements; ct may be NULL
 * (zero); beta == 0 never reads C; stream: non-temporal stores where aligned.
 * watch: FALCON_WATCH aligned bytes, elements that become NaN if a value of
 * alpha*(ct + coef*h) written here is not finite, else stay as they are. */
enum { FALCON_WATCH = 64 };
typedef void (*falcon_write_fn)(const void *ct, const void *h, double coef, double alpha, double beta, void *c,
                                ptrdiff_t rs, ptrdiff_t cs, ptrdiff_t rows, ptrdiff_t cols, int stream, void *watch);

/* y[i] += sum over k < len of mat(i, k) * x[k] for i < lines.  dot: stride s from line to line, K contiguous;
 * axpy: stride s from step to step of K, lines contiguous.  The order of a sum depends on len and on i modulo 64. */
typedef void (*falcon_gemv_fn)(ptrdiff_t lines, ptrdiff_t len, const void *mat, ptrdiff_t s, const void *x, void *y);

/* sums[i] += sum over k < len of mat(i, k)^2 for i < lines.  dot, axpy: strides as in falcon_gemv_fn.  axpy adds up
 * FALCON_NORM_LINES lines at a time, which stay in L1. */
typedef void (*falcon_norm_fn)(ptrdiff_t lines, ptrdiff_t len, const void *mat, ptrdiff_t s, double *sums);
enum { FALCON_NORM_LINES = 1024, FALCON_NORM_RUN = 2048 };

typedef struct falcon_kernel {
    const char *name; /* isa_dtype_ukr_MRxNR */
    int isa, dtype, elem, mr, nr, vlen, kc;
    int b_rests; /* where K makes several slices, B's panels stay in L1 while A's stream, not the other way round */
    struct {
        int a_panels, b_panels;    /* most panels of a C tile */
        int a_share, b_share;      /* percent of L2 that a tile's slice of A and of B may take */
    } tile[2];                     /* where A's panels rest, and where B's do */
    const falcon_ukr_fn *ukr;      /* [mr][nr / vlen] */
    falcon_pack_fn pack_a, pack_b; /* widths mr and nr */
    falcon_combine_fn interpret;
    falcon_scatter_fn scatter;
    falcon_write_fn write;
    falcon_gemv_fn dot, axpy;
    falcon_norm_fn norm_dot, norm_axpy;
    double least_square; /* of a line: below, squares of its elements may have underflowed */
    void (*fence)(void); /* orders non-temporal stores before what follows */
} falcon_kernel;

/* The registration table: NULL where an instruction set is not built in. */
extern const falcon_kernel *const falcon_kernels[FALCON_N_ISA][FALCON_N_DTYPE];
/* The kernel if it is built in and this CPU and OS can run it, else NULL. */
const falcon_kernel *falcon_kernel_get(int isa, int dtype);
const char *falcon_isa_name(int isa);

/* ---- The machine (cpuid.c) ---------------------------------------------- */

int falcon_isa_supported(int isa); /* built in and runnable here */
int falcon_isa_best(void);
typedef struct {
    ptrdiff_t l1d, l2, l3; /* bytes; l1d and l2 per core, l3 as shared by a core; guesses where unknown */
    int l3_sharers;        /* logical CPUs that share it, 1 if unknown */
} falcon_caches;
void falcon_cache_sizes(falcon_caches *out);

/* Multiply-adds on registers alone, flop/s: the best burst within about that
 * many seconds, all threads together; 0 if the instruction set does not run. */
double falcon_peak(int isa, int dtype, int threads, double seconds);

/* ---- Calls --------------------------------------------------------------- */

enum { FALCON_PACKED, FALCON_LOCAL, FALCON_DIRECT }; /* where the engine takes an operand's panels from */

/* How a call is cut.  Zero in any size means "choose".  mb, nb, kb: elements of
 * M, N, K per pass (each pass is a whole LCMA on that part); kc: slice of a
 * block's K; mt, nt: largest C tile in micro-panels.  Results depend on mb, nb,
 * kb and kc (which lines are combined, the order of summation), never on the
 * rest; so what chooses these never looks at the number of threads. */
typedef struct {
    ptrdiff_t mb, nb, kb, kc, mt, nt;
    int stream_pack, stream_c; /* 0 choose, 1 ordinary stores, 2 non-temporal */
} falcon_blocking;

typedef struct {
    ptrdiff_t M, N, K;
    const void *a, *b;
    void *c;
    ptrdiff_t a_rs, a_cs, b_rs, b_cs, c_rs, c_cs; /* row and column strides */
    double alpha, beta;
    const void *packed_b; /* NULL, or from falcon_pack_b; then b is not read */
} falcon_problem;

/* Seconds, summed over threads. */
typedef struct {
    double combine_a, combine_b, gemm, update, wait, total;
    int32_t threads, passes, tiles, transposed, b_rests;
} falcon_profile;

/* Fill the zero fields of blk for this problem (only shapes, strides and
 * packed_b != NULL are looked at; packed_b requires nb, kb, kc as packed).
 * scheme NULL means classical.  limit: bytes of workspace not to exceed, 0 for
 * FALCON_DEFAULT_LIMIT; the smallest possible blocking is returned where it
 * can't be kept.  kb and kc depend on the limit but not on `threads`. */
enum { FALCON_DEFAULT_LIMIT = 512 << 20 };
void falcon_blocking_fill(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob,
                          int threads, size_t limit, falcon_blocking *blk);
/* Exactly the bytes that falcon_gemm uses with this (filled) blocking.  Of
 * strides, only these count: c_cs == 1, c_rs == 1, b_cs == 1 and (if C is by
 * columns) a_rs == 1; the same holds for falcon_blocking_fill. */
size_t falcon_workspace(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob, int threads,
                        const falcon_blocking *blk);
/* Does the call.  workspace: 64-byte aligned; profile and nonfinite may be
 * NULL.  *nonfinite becomes 1 if some value of alpha*A*B (over one K pass, and
 * before beta*C is added) was NaN or infinite as it was written, else 0.  Safe
 * from many host threads at once; serial in a forked child. */
int falcon_gemm(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob, int threads,
                const falcon_blocking *blk, void *workspace, size_t workspace_bytes, falcon_profile *profile,
                int *nonfinite);

/* Is this problem small enough for falcon_gemm_small: one thread, buffers on
 * the stack, no workspace, no blocking?  (classical only) */
int falcon_is_small(const falcon_kernel *kern, const falcon_problem *prob);
void falcon_gemm_small(const falcon_kernel *kern, const falcon_problem *prob, int *nonfinite);

/* Packed B: depends on K, N, the scheme, the kernel and blk's nb, kb, kc. It is stored in files:
 * where panels come to lie otherwise, LAYOUT in packed.py must be raised. */
size_t falcon_packed_b_size(const falcon_kernel *kern, const falcon_scheme *scheme, ptrdiff_t K, ptrdiff_t N,
                            const falcon_blocking *blk);
size_t falcon_pack_b_workspace(const falcon_kernel *kern, const falcon_scheme *scheme, int threads);
int falcon_pack_b(const falcon_kernel *kern, const falcon_scheme *scheme, ptrdiff_t K, ptrdiff_t N, const void *b,
                  ptrdiff_t b_rs, ptrdiff_t b_cs, int threads, const falcon_blocking *blk, void *packed,
                  void *workspace, size_t workspace_bytes);

/* Checks that no register, output or slot is out of range, that every output is
 * written once, and that every block of C is begun, added to and completed in
 * this order, as is every sum before it is read.  scratch: n_slots integers.
 * NULL if sound, else a message. */
const char *falcon_scheme_check(const falcon_scheme *scheme, int32_t *scratch);

/* sums[i] = squared 2-norm of line i, lines x len elements (norms.c). */
void falcon_norms(const falcon_kernel *kern, const void *x, ptrdiff_t lines, ptrdiff_t len, ptrdiff_t line_stride,
                  ptrdiff_t k_stride, int threads, double *sums);

/* C = beta*C (set to zero if beta == 0); what a call with alpha == 0 or K == 0 is. */
void falcon_scale_c(const falcon_kernel *kern, const falcon_problem *prob);

int falcon_in_forked_child(void);

#endif
