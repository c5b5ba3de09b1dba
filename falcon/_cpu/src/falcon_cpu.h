/* falcon_cpu.h - the C interface of the CPU backend.
 *
 * falcon_gemm() computes C = alpha A B + beta C with a scheme <m,k,n;R> given
 * as data, or with the classical algorithm.  A call runs two stages per pass:
 *
 *   combine   engine/combine.c  A and B -> R combined operands in packed panels
 *   gemm      engine/tiles.c    C tiles: H_r = At_r Bt_r, scattered into C tiles
 *
 * (classical is the scheme <1,1,1;1>, whose combine stage is plain packing).
 * No call allocates memory, reads the environment or keeps any state but the
 * team's threads: the caller asks for the exact size of the workspace and
 * passes it in.  Every stride and offset is in elements and ptrdiff_t.
 *
 *   kernels/   what differs by element type and instruction set, behind one descriptor (kernel.h)
 *   engine/    passes, threads, tiles; knows no type and no instruction set
 *   machine/   CPUID, caches, the clock
 *
 * ../sources.py says which files may use the symbols of which; a test checks it in the object files.
 */
#ifndef FALCON_CPU_H
#define FALCON_CPU_H

#include "kernels/kernel.h"
#include "machine/machine.h"
#include <stddef.h>
#include <stdint.h>

/* ---- Schemes ------------------------------------------------------------- */

/* U's program reads A[i,l] as input i*k + l, V's reads B[l,j] as input l*n + j;
 * output r is At_r or Bt_r.  W is given as the steps that follow H_r: those from
 * w_start[r] up to w_start[r+1], each "slot += coef * source".
 *
 * With parts == 2 the matrices are complex, and the products those of real matrices: each of these blocks is two, the
 * real parts at twice the number above and the imaginary ones at the next.  C's are written together, by the step that
 * completes the second one; that of the first has FALCON_WAITS. */
typedef struct {
    int32_t slot;   /* block i*n + j of C; from parts*m*n on: a sum that several blocks share */
    int32_t source; /* FALCON_PRODUCT: H_r, else the slot of a sum that an earlier step of H_r completed */
    int32_t flags;  /* FALCON_FIRST: the slot holds nothing yet; FALCON_LAST: the block or sum is complete */
    double coef;
} falcon_step;
enum { FALCON_PRODUCT = -1, FALCON_FIRST = 1, FALCON_LAST = 2, FALCON_WAITS = 4 };
typedef struct {
    int32_t m, k, n, R, n_slots, parts;
    falcon_program u, v;
    const int32_t *w_start;
    const falcon_step *w;
} falcon_scheme;

/* The rate of the micro-kernel alone on panels in L1, of all threads together, in flop/s: the best burst within about
 * `seconds`. */
double falcon_peak(const falcon_kernel *kern, int threads, double seconds);

/* ---- Calls --------------------------------------------------------------- */

enum { FALCON_PACKED, FALCON_LOCAL, FALCON_DIRECT }; /* panels: packed for all tiles, packed per tile, in place */

/* How a call is cut.  Zero in any size means "choose".  mb, nb, kb: elements of
 * M, N, K per pass (each pass is a whole LCMA on that part); kc: slice of a
 * block's K; mt, nt: largest C tile in micro-panels.  Results depend on kb and
 * kc (the order of summation) and with a scheme on mb and nb (which lines are
 * combined), so these are chosen without looking at the number of threads. */
typedef struct {
    ptrdiff_t mb, nb, kb, kc, mt, nt;
    int stream_pack, stream_c; /* 0 choose, 1 ordinary stores, 2 non-temporal */
} falcon_blocking;

/* All entries (i, j) of C, those with i >= j, or those with i <= j. */
enum falcon_triangle { FALCON_WHOLE, FALCON_LOWER, FALCON_UPPER };

/* What makes operands plain, so that a scheme adds their lines as they are.  In a sample, over all of K: terms that are
 * at most `loss` times what the sizes of its steps say (INFINITY: not looked at), squared sums of lines of less than
 * sampled_mean times the product of K and their squared norms, squared norms that differ by less than sampled_spread.
 * Then, measured while panels are formed: sums of lines, and of their segments, of less than `mean` times their length
 * times the line's root mean square, of segments also if less than `noise` times the root of their length; squared
 * norms that differ by less than `wide`, and within each group of lines that are added by less than `even`, or whose
 * means over least ones come to no more than `spread` for A times B. */
typedef struct {
    double loss, sampled_mean, sampled_spread, mean, noise, wide, even, spread;
} falcon_plain;
enum { FALCON_NOT_PLAIN = 2 };

enum { FALCON_OUTER_PAD = 64, FALCON_SEGMENT = 512 };
typedef struct {
    ptrdiff_t M, N, K;
    const void *a, *b;
    void *c;
    ptrdiff_t a_rs, a_cs, b_rs, b_cs, c_rs, c_cs; /* row and column strides */
    falcon_scalar alpha, beta;
    int a_conj, b_conj; /* whether complex A and B, whose strides are in complex numbers, are conjugated */
    /* Whether a batch is of complex matrices, as products of real ones: row 2k of B, of N real numbers, is row k of the
     * complex b, whose strides are in complex numbers, and row 2k+1 that row times i.  A and C need nothing but real
     * sizes, where their rows are contiguous. */
    int complex_b;
    const void *packed_b; /* NULL, or from falcon_pack_b; then b is not read */
    int c_form;           /* what C holds, enum falcon_c_form */
    /* NULL, or powers of two by which the M rows of A and the N columns of B are multiplied before a scheme adds them;
     * the product is divided by both again, and is 0 where a scale is 0 (a line of zeros). */
    const double *a_scale, *b_scale;
    /* NULL, or powers of two, K accumulators, by which a scheme multiplies the columns of A and the rows of B before
     * anything else. */
    const void *a_units, *b_units;
    /* NULL, or what a scheme subtracts from the lines of A and of B before they are scaled: for each segment of K (a
     * slice of a block of a pass, or as many as have FALCON_SEGMENT steps, in their order) a mean per line, in
     * accumulators, of complex matrices the real parts of all lines before the imaginary ones.  means_step: from
     * segment to segment; 0: all have the same means. */
    const void *a_means, *b_means;
    ptrdiff_t a_means_step, b_means_step;
    /* NULL, or what operands must be for the product to be made: see falcon_plain.  Needs falcon_plain_bytes more of
     * workspace.  There, for each slice of K of each block, in their order, are the squared norms of all lines of A, as
     * the engine sees it, and behind all of them the sums of their elements; then those of B. */
    const falcon_plain *plain;
    /* What is added to A B for that, and before alpha: in each pass over K, for the real and the imaginary part, `rank`
     * rows of M + FALCON_OUTER_PAD accumulators and of N + FALCON_OUTER_PAD, whose outer products are summed up. */
    const void *left, *right;
    int rank;
    /* enum falcon_triangle: which entries of C are computed and written; M == N unless all are.  Tiles and panels
     * without such entries are skipped. */
    int triangle;
    /* Whether an entry of C has the same bits whatever M and N, 0 or 1: all products are cut along K alike, in one
     * pass, and summed by the micro-kernel, not as small ones or as a matrix by a vector. */
    int one_order;
    /* NULL, or by what the steps of B, as the engine sees it, are multiplied when it is packed: K accumulators; for
     * kernels that `weigh`, without a scheme, of a B that is not packed before. */
    const void *weights;
    /* NULL, or where to copy every entry (i, j) that is written to C, in C's form: C's other triangle, or the block
     * that is C's transpose.  mirror_rs, mirror_cs: strides of i and of j. */
    void *mirror;
    ptrdiff_t mirror_rs, mirror_cs;
} falcon_problem;

/* Seconds, summed over threads; total: elapsed. */
typedef struct {
    double combine_a, combine_b, gemm, update, wait, total;
    int32_t threads, b_kept;
    const char *kernel; /* whose micro-kernels multiplied; NULL: none */
} falcon_profile;

/* Fills the zero fields of blk for this problem.  Reads no matrix: shapes,
 * strides, c_form, triangle, one_order and whether packed_b, weights and mirror
 * are NULL decide.
 * With packed_b, nb, kb and kc must be those it was packed with.  scheme NULL:
 * classical.  limit: the most bytes of workspace, 0 for FALCON_DEFAULT_LIMIT; if
 * nothing fits, the blocking with the least workspace is returned.  kb and kc
 * depend on the limit but not on `threads`.  kb is K where C holds rounded
 * accumulators, so that each is rounded once. */
enum { FALCON_DEFAULT_LIMIT = 512 << 20 };
void falcon_blocking_fill(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob,
                          int threads, size_t limit, falcon_blocking *blk);
/* All that falcon_blocking_fill, falcon_workspace and falcon_is_small see of strides, of whether mirror is NULL and of
 * the process: problems that are equal in this and in sizes, c_form, triangle, one_order and whether B is packed are
 * cut alike. FALCON_IN_PLACE: operands fit into the caches, and are not packed if the problem is small. */
enum { FALCON_IN_PLACE = 16 };
int falcon_form(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob);
/* Whether a B by rows is read once, where it is, if A has few rows: all its panels are multiplied in place, or tiles
 * multiply while they read the next rows. */
int falcon_reads_b_in_place(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob);
/* Exactly the bytes that falcon_gemm uses with this (filled) blocking. */
size_t falcon_workspace(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob, int threads,
                        const falcon_blocking *blk);
/* Bytes of workspace that a call with `plain` needs behind these; 0: it cannot be made.  That takes a scheme of real
 * matrices, a kernel with sums, and a single pass. */
size_t falcon_plain_bytes(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob,
                          const falcon_blocking *blk);
/* Runs the call with a filled blocking, and returns whether a value of alpha*A*B (of one K pass, before beta*C is
 * added) was NaN or infinite when it was written; FALCON_NOT_PLAIN: C is as it was.  workspace: 64-byte aligned, of
 * falcon_workspace bytes; profile may be NULL. May be called by several threads at once.  Complex matrices need a
 * scheme, alpha != 0, K > 0 and a kernel with write_parts. */
int falcon_gemm(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob, int threads,
                const falcon_blocking *blk, void *workspace, falcon_profile *profile);

/* Is this problem small enough for falcon_gemm_small: scratch memory of threads, no
 * workspace, no blocking?  (classical only) */
int falcon_is_small(const falcon_kernel *kern, const falcon_problem *prob);
/* And so small that handing it to another library would take longer. */
int falcon_is_tiny(const falcon_kernel *kern, const falcon_problem *prob);
int falcon_gemm_small(const falcon_kernel *kern, const falcon_problem *prob, int threads);

/* The matrices first to first+count-1 of a batch, classically.  prob: the problem of the first matrix of all; extent:
 * the batch's shape; step: bytes from matrix to matrix along each of its axes, of A, B and C (a mirror lies as C
 * does).  blk, workspace: as for falcon_gemm, if the problem is not small. */
enum { FALCON_BATCH_AXES = 64 };
typedef struct {
    int axes;
    const ptrdiff_t *extent, *step[3];
} falcon_batch;
void falcon_gemm_batch(const falcon_kernel *kern, const falcon_problem *prob, const falcon_batch *batch,
                       ptrdiff_t first, ptrdiff_t count, int threads, const falcon_blocking *blk, void *workspace);

/* Packed B: depends on K, N, the scheme, the kernel and blk's nb, kb, kc. */
size_t falcon_packed_b_size(const falcon_kernel *kern, const falcon_scheme *scheme, ptrdiff_t K, ptrdiff_t N,
                            const falcon_blocking *blk);
size_t falcon_pack_b_workspace(const falcon_kernel *kern, const falcon_scheme *scheme, int threads);
void falcon_pack_b(const falcon_kernel *kern, const falcon_scheme *scheme, ptrdiff_t K, ptrdiff_t N, const void *b,
                   ptrdiff_t b_rs, ptrdiff_t b_cs, const double *b_scale, int threads, const falcon_blocking *blk,
                   void *packed, void *workspace);

/* NULL if no register, output or slot is out of range, else a message.  That sums are formed before they are read, and
 * blocks of C completed, is for falcon.codegen to see to. */
const char *falcon_scheme_check(const falcon_scheme *scheme);
/* falcon_program.code of a program. */
int falcon_code_of(const falcon_program *program);

/* sums[i] = squared 2-norm of line i, lines x len elements (norms.c).  odd: NULL, or where k_stride is 1 that of the
 * elements 1, 3, ..., which then do not count in sums.  units: NULL, or by what each step is multiplied before: as many
 * accumulators as a line has elements.  totals: NULL, or for each of the segments of K between two of
 * cuts[0] = 0, ..., cuts[segments] = len, the sum of the elements of each line; and behind these what rounding took
 * from each. */
void falcon_norms(const falcon_kernel *kern, const void *x, ptrdiff_t lines, ptrdiff_t len, ptrdiff_t line_stride,
                  ptrdiff_t k_stride, int threads, const void *units, double *sums, double *odd, const ptrdiff_t *cuts,
                  int segments, double *totals);
/* found, 4 x lines: the squared 2-norm of each line; and, of sums that start anew after a slice of steps and are then
 * added up, the sum over all steps of what the line's share of the sum so far is to that, squared: how many roundings
 * of the whole product a sum has at most (falcon/_core/ladder.py).  The rest is room.  parts: elements of a step, 2
 * where real and imaginary ones lie in turn. */
void falcon_roundings(const falcon_kernel *kern, const void *x, ptrdiff_t lines, ptrdiff_t len, ptrdiff_t line_stride,
                      ptrdiff_t k_stride, int threads, ptrdiff_t slice, int parts, double *found);

/* Floats as 8-bit integers, and products of these as floats: see falcon_bytes and falcon_products (quantise.c). */
void falcon_quantise(const falcon_kernel *kern, const falcon_bytes *bytes, int threads);
void falcon_from_bytes(const falcon_kernel *kern, const falcon_products *products, int threads);
/* See falcon_peaks_fn. */
void falcon_peaks_of(const falcon_kernel *kern, const falcon_peaks *peaks, int threads);

/* The sum of some matrices modulo p, see falcon_modulo (modulo.c). */
void falcon_reduce(const falcon_kernel *kern, falcon_modulo *m, int threads);

/* C = beta*C (set to zero if beta == 0): what a call with alpha == 0 or K == 0 does. */
void falcon_scale_c(const falcon_kernel *kern, const falcon_problem *prob);

/* Chooses the team that runs calls, for the whole process, and returns the one in use.  Nothing changes if `wanted` is
 * neither (-1) or not available here. */
enum falcon_team { FALCON_OWN_TEAM, FALCON_OPENMP };
int falcon_threading(int wanted);

/* The callback that runs an OpenBLAS's jobs on falcon's own team (lend.c); NULL without such a team, or where it has
 * not a helper for each of the `threads` of that OpenBLAS but the caller's.  most: the threads that it was built for.
 */
typedef void (*falcon_lend_callback)(int sync, void (*dojob)(int thread, void *data, int index), int jobs, size_t size,
                                     void *data, int index);
falcon_lend_callback falcon_lend(int most, int threads);

/* The parallel region of an OpenMP (GOMP_parallel) on whose threads calls of this thread run while these spin
 * (guests.c); NULL: none.  Both return how many threads it has, 0 where nothing is known of them, or no longer. */
typedef void (*falcon_parallel)(void (*body)(void *), void *about, unsigned threads, unsigned flags);
int falcon_meet(falcon_parallel begin);
int falcon_guests(void);

/* Whether calls run on one thread because the process was forked (OpenMP's team only). */
int falcon_in_forked_child(void);

#endif
