/* engine.h - what the driver's files share: operands, passes, workspace.
 *
 * A call is cut into passes over (K, N, M); a pass is a whole LCMA on its part
 * of the matrices and is described by `fl_pass`.  C is always written with the
 * columns of `b` running along micro-kernel vectors; where C is stored by
 * columns the problem is transposed first (C' = B'A'), so an fl_operand knows
 * which of the caller's matrices it is.
 *
 * Packed layout of an operand, in elements:
 *   [K slice][r < R][panel][step of K][width], panels padded to whole lines.
 */
#ifndef FALCON_ENGINE_H
#define FALCON_ENGINE_H
#include "falcon_cpu.h"
#include <stdatomic.h>

#define FL_MIN(a, b) ((a) < (b) ? (a) : (b))
#define FL_MAX(a, b) ((a) > (b) ? (a) : (b))
static inline ptrdiff_t fl_up(ptrdiff_t x, ptrdiff_t to) {
    return (x + to - 1) / to * to;
}
static inline ptrdiff_t fl_div_up(ptrdiff_t x, ptrdiff_t by) {
    return (x + by - 1) / by;
}

/* One input matrix in one pass.  "Lines" are A's rows or B's columns. */
typedef struct {
    const char *src;
    ptrdiff_t line_stride, k_stride; /* of the source, in elements */
    ptrdiff_t lines, K;              /* valid extent of this pass */
    ptrdiff_t block_lines, block_k;  /* size of one block, ceilings */
    int n_line_blocks, n_k_blocks;
    int k_major; /* input number of block (f, l): k_major ? l*n_line_blocks + f : f*n_k_blocks + l */
    int width;
    ptrdiff_t panels; /* per block */
    ptrdiff_t group;  /* strips that are packed together, see fl_group */
    int mode;         /* FALCON_PACKED, LOCAL or DIRECT */
    falcon_pack_fn pack;
    const falcon_program *program; /* NULL: one block, plain packing */
    char *packed;
} fl_operand;

typedef struct {
    const falcon_kernel *kern;
    const falcon_scheme *scheme; /* never NULL in here: classical is <1,1,1;1> */
    int transposed;              /* W's index is (column block, row block) */
    fl_operand a, b;
    ptrdiff_t kc, slices, last_kc; /* slices of block_k */
    char *c;
    ptrdiff_t c_rs, c_cs, M, N, block_m, block_n;
    int m, n;
    double alpha, beta;
    ptrdiff_t X, Z; /* tiles along M and N */
    int b_rests;    /* see fl_b_rests */
    int stream_pack, stream_c;
} fl_pass;

/* Per-thread buffers, all 64-byte aligned. */
typedef struct {
    char *h, *ct, *sums, *scratch, *local_a, *local_b;
    char *watch; /* zero at first; see falcon_write_fn */
} fl_buffers;

/* Byte offsets into the workspace; the same function computes it for asking
 * and for using, so the two can't differ. */
typedef struct {
    size_t a, b, thread0, per_thread, total;
    size_t h, ct, sums, scratch, local_a, local_b; /* inside a thread's part */
    int threads, a_mode, b_mode, transposed, b_rests;
} fl_layout;

extern const falcon_scheme fl_classical_scheme;
#define FL_SCHEME(s) ((s) ? (s) : &fl_classical_scheme)

/* Whether B's panels rest (head of lcma_tiles.c), for all passes of a call.  Not with a single slice: then every
 * product ends in C or its accumulators, and going along the rows of C was faster. */
static inline int fl_b_rests(const falcon_kernel *kern, ptrdiff_t block_k, ptrdiff_t kc) {
    return kern->b_rests && block_k > kc;
}

static inline ptrdiff_t fl_slice_len(const fl_pass *p, ptrdiff_t s) {
    return s + 1 < p->slices ? p->kc : p->last_kc;
}
static inline ptrdiff_t fl_panel_stride(const falcon_kernel *kern, ptrdiff_t width, ptrdiff_t len) {
    return fl_up(len * width, 64 / kern->elem);
}

/* blocking.c */
int fl_threads(const falcon_problem *prob, int threads);
void fl_partition(ptrdiff_t panels_a, ptrdiff_t panels_b, ptrdiff_t mt, ptrdiff_t nt, int threads, int one_row,
                  ptrdiff_t *X, ptrdiff_t *Z);
void fl_layout_make(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob, int threads,
                    const falcon_blocking *blk, fl_layout *out);
ptrdiff_t fl_operand_elems(const falcon_kernel *kern, int R, ptrdiff_t panels, ptrdiff_t width, ptrdiff_t block_k,
                           ptrdiff_t kc);
ptrdiff_t fl_chunk(const falcon_kernel *kern, int width, int n_in);
size_t fl_scratch_bytes(const falcon_kernel *kern, const falcon_scheme *scheme);
falcon_problem fl_transposed_problem(const falcon_problem *prob);
int fl_wants_transpose(const falcon_problem *prob);

/* lcma.c: a barrier for the `team` threads that share *b (zero at first).  Waits by yielding: a worker that the
 * kernel woke on the very CPU where another one waits in libgomp's barrier, which spins for milliseconds, would not
 * run until its time slice came (400^3 after a pause: 12 ms instead of 1).  So every parallel region ends with one of
 * these, and libgomp's own finds everybody there. */
typedef struct {
    atomic_int arrived, round;
} fl_barrier;
void fl_meet(fl_barrier *b, int team);

/* classical.c: M == 1 or N == 1, no scheme, B not packed; needs no workspace. */
int fl_is_gemv(const falcon_scheme *scheme, const falcon_problem *prob);
/* Returns whether a value was not finite. */
int fl_gemv(const falcon_kernel *kern, const falcon_problem *prob, int threads);

/* lcma_combine.c: how many strips make a unit; unit u of the combine stage (u < fl_combine_units) */
ptrdiff_t fl_group(const fl_operand *o, ptrdiff_t slices, int threads);
ptrdiff_t fl_combine_units(const fl_pass *p, const fl_operand *o);
void fl_combine_unit(const fl_pass *p, const fl_operand *o, ptrdiff_t unit, char *scratch);

/* lcma_tiles.c: one C tile, in panels.  next: the tile this thread is likely to
 * do after it (only prefetched from), or NULL; *update: seconds spent on C, if
 * not NULL. */
typedef struct {
    ptrdiff_t x0, x1, z0, z1;
} fl_rect;
void fl_tile(const fl_pass *p, const fl_buffers *buf, fl_rect tile, const fl_rect *next, double *update);
double fl_now(void);
/* Did anything not finite pass?  Looks at the FALCON_WATCH bytes. */
int fl_watch_tripped(const falcon_kernel *kern, const char *watch);

#endif
