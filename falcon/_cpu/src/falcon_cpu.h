/* falcon_cpu.h - the C interface of the CPU backend.
 *
 * falcon_gemm() computes C = alpha A B + beta C with a scheme <m,k,n;R> given
 * as data, or the ordinary way.  Every call runs the same two stages:
 *
 *   combine   engine/combine.c  A and B -> R combined operands in packed panels
 *   gemm      engine/tiles.c    C tiles: H_r = At_r Bt_r, scattered into C tiles
 *
 * (classical is the scheme <1,1,1;1>, whose combine stage is plain packing).
 * Nothing here allocates, keeps state between calls or reads the environment:
 * the caller hands in the workspace, whose exact size it asks for first.
 * Every stride and offset is in elements and ptrdiff_t.
 *
 *   kernels/   what differs by element type and instruction set, behind one descriptor (kernel.h)
 *   engine/    passes, threads, tiles; knows no type and no instruction set
 *   machine/   CPUID, caches, the clock, the peak of the multipliers
 *
 * Who may use whose symbols stands in ../sources.py and is tested from the objects.
 */
#ifndef FALCON_CPU_H
#define FALCON_CPU_H

#include "kernels/kernel.h"
#include "machine/machine.h"
#include <stddef.h>
#include <stdint.h>

enum falcon_status { FALCON_OK = 0, FALCON_UNSUPPORTED = 1, FALCON_BAD_ARGUMENT = 2, FALCON_WORKSPACE = 3 };

/* ---- Schemes ------------------------------------------------------------- */

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
    /* NULL, or of a scheme for X X', whose blocks of C below the diagonal are never begun: which of the R products are
     * of a sum and its own transpose, and so need but their upper triangles.  Its problems ask for the upper triangle.
     */
    const uint8_t *halved;
} falcon_scheme;

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

/* The whole of C, its entries i >= j, or i <= j. */
enum falcon_triangle { FALCON_WHOLE, FALCON_LOWER, FALCON_UPPER };

typedef struct {
    ptrdiff_t M, N, K;
    const void *a, *b;
    void *c;
    ptrdiff_t a_rs, a_cs, b_rs, b_cs, c_rs, c_cs; /* row and column strides */
    double alpha, beta;
    const void *packed_b; /* NULL, or from falcon_pack_b; then b is not read */
    int c_form;           /* what C holds, enum falcon_c_form */
    /* NULL, or powers of two by which the M rows of A and the N columns of B are multiplied before a scheme adds them
     * up; what C receives is divided by both, and 0 where one is 0 (at lines of zeros). */
    const double *a_scale, *b_scale;
    /* Which entries of C are formed and written; M == N unless all are.  Panels and tiles without any are left out. */
    int triangle; /* enum falcon_triangle */
    /* NULL, or where every entry (i, j) that is written to C is copied to, in C's form: C's other triangle, or the
     * other of two blocks that are each other's transposes.  Strides of i and of j. */
    void *mirror;
    ptrdiff_t mirror_rs, mirror_cs;
} falcon_problem;

/* Seconds, summed over threads. */
typedef struct {
    double combine_a, combine_b, gemm, update, wait, total;
    int32_t threads, passes, tiles, transposed, b_kept;
} falcon_profile;

/* Fill the zero fields of blk for this problem (only shapes, strides and
 * packed_b != NULL are looked at; packed_b requires nb, kb, kc as packed).
 * scheme NULL means classical.  limit: bytes of workspace not to exceed, 0 for
 * FALCON_DEFAULT_LIMIT; the smallest possible blocking is returned where it
 * can't be kept.  kb and kc depend on the limit but not on `threads`.  kb is K
 * where C's elements are accumulators rounded: once. */
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
 * from many host threads at once. */
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
                  ptrdiff_t b_rs, ptrdiff_t b_cs, const double *b_scale, int threads, const falcon_blocking *blk,
                  void *packed, void *workspace, size_t workspace_bytes);

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

/* Which team works on calls, for the whole process; returns the one in use.  wanted: one of these where it is
 * available here, else (-1) nothing changes. */
enum falcon_team { FALCON_OWN_TEAM, FALCON_OPENMP };
int falcon_threading(int wanted);

/* Whether calls run on one thread because the process was forked (OpenMP's team only). */
int falcon_in_forked_child(void);

#endif
