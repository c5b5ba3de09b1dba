/* engine.h - what the driver's files share: operands, passes, workspace.
 *
 * A call is cut into passes over (K, N, M); a pass is a whole LCMA on its part
 * of the matrices and is described by `fl_pass`.  The micro-kernel's vectors
 * always run along the rows of C; if C is column-major, the problem is transposed
 * first (C' = B'A'), so operand `a` may be the caller's B (k_major says so).
 *
 * Packed layout of an operand:
 *   [K slice][r < R][panel][group of kr steps of K][line][step in the group]
 * panels padded to whole cache lines.  Sizes and offsets of panels are in bytes.
 */
#ifndef FALCON_ENGINE_H
#define FALCON_ENGINE_H
#include "../falcon_cpu.h"

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
    ptrdiff_t lines, K;              /* extent in this pass, without padding */
    ptrdiff_t block_lines, block_k;  /* size of one block, rounded up */
    int n_line_blocks, n_k_blocks;
    int k_major; /* input number of block (f, l): k_major ? l*n_line_blocks + f : f*n_k_blocks + l */
    int width;
    int parts, conj;     /* parts of an element (2: complex); whether imaginary ones are negated */
    ptrdiff_t elem;      /* bytes of an element, all parts */
    ptrdiff_t panels;    /* per block */
    ptrdiff_t group;     /* strips that are packed together, see fl_group */
    int mode;            /* FALCON_PACKED, LOCAL or DIRECT */
    double *sums;        /* NULL, or where its lines are added up: see falcon_problem */
    const char *units;   /* NULL, or a factor for each step of this pass, accumulators */
    const double *scale; /* NULL, or a factor for each line of this pass */
    const char *weights; /* NULL, or those of this pass: see falcon_problem */
    const char *means;   /* NULL, or those of the first segment and line of this pass: see falcon_problem */
    ptrdiff_t means_step, means_lines; /* in accumulators: to the next segment, to the imaginary parts */
    falcon_pack_fn pack, load;
    falcon_load_parts_fn load_parts;
    falcon_combine_fn interpret;
    falcon_units_fn times_units;
    falcon_level_fn level;
    falcon_sums_fn add_up;
    const falcon_program *program; /* NULL: one block, plain packing */
    falcon_code_fn code;           /* the same as code, or NULL */
    int by_rows;                   /* whether that reads the source where it is */
    char *packed;
} fl_operand;

typedef struct {
    const falcon_kernel *kern;
    const falcon_scheme *scheme; /* never NULL in here: classical is <1,1,1;1> */
    int transposed;              /* W's index is (column block, row block) */
    fl_operand a, b;
    ptrdiff_t kc, slices, last_kc; /* slices of block_k */
    char *c;
    ptrdiff_t c_elem, c_rs, c_cs, M, N, block_m, block_n;
    falcon_write_fn write;
    int m, n;
    falcon_scalar alpha, beta;
    int narrow_scales;               /* see falcon_unscale_fn */
    const char *left, *right;        /* of the first row and column of this pass: see falcon_problem */
    ptrdiff_t left_step, right_step; /* in accumulators, from one of the `rank` to the next */
    int rank;
    ptrdiff_t X, Z; /* tiles along M and N */
    /* Units of the multiplication: strips of `strips` equal ones along M (or N) in each row (or column) of tiles, and
     * how many neighbouring ones make a whole tile. */
    ptrdiff_t strips, most_strips;
    int along_n;
    int b_kept; /* see fl_b_kept */
    int stream_pack, stream_c;
    int triangle; /* of the whole C; entry (i, j) of the pass is on its diagonal where j - i == diagonal */
    ptrdiff_t diagonal;
    char *mirror; /* NULL: nothing to copy in this pass */
    ptrdiff_t mirror_rs, mirror_cs;
} fl_pass;

/* Per-thread buffers, all 64-byte aligned. */
typedef struct {
    char *h, *ct, *sums, *scratch, *local_a, *local_b;
    char *watch; /* zero at first; see falcon_write_fn */
} fl_buffers;

/* Byte offsets into the workspace. */
typedef struct {
    size_t a, b, thread0, per_thread, total;
    size_t h, ct, sums, scratch, local_a, local_b; /* inside a thread's part */
    int threads, a_mode, b_mode, transposed, b_kept;
} fl_layout;

extern const falcon_scheme fl_classical_scheme;
#define FL_SCHEME(s) ((s) ? (s) : &fl_classical_scheme)

static inline int fl_blocks_of_c(const falcon_scheme *s) {
    return s->parts * s->m * s->n;
}
static inline ptrdiff_t fl_inputs(const fl_operand *o) {
    return (ptrdiff_t)o->parts * o->n_line_blocks * o->n_k_blocks;
}

/* Whether B's panels are kept in L1 (see tiles.c), for all passes of a call.  Not with a single slice of K: then every
 * product goes to C or its accumulators at once, and going along the rows of C was faster. */
static inline int fl_b_kept(const falcon_kernel *kern, ptrdiff_t block_k, ptrdiff_t kc) {
    return kern->b_kept && block_k > kc;
}

/* Steps of slice s, padded to whole groups. */
static inline ptrdiff_t fl_slice_len(const fl_pass *p, ptrdiff_t s) {
    return s + 1 < p->slices ? p->kc : fl_up(p->last_kc, p->kern->kr);
}
enum { FL_LINE = 64 }; /* bytes of a cache line */
/* Bytes from one panel of len steps to the next. */
static inline ptrdiff_t fl_panel_bytes(const falcon_kernel *kern, ptrdiff_t width, ptrdiff_t len) {
    return fl_up(fl_up(len, kern->kr) * width * kern->panel, FL_LINE);
}
/* Bytes of a micro-tile of accumulators. */
static inline ptrdiff_t fl_micro_bytes(const falcon_kernel *kern) {
    return (ptrdiff_t)kern->mr * kern->nr * kern->acc;
}
/* The length of the slices of a block of block_k steps: a block shorter than kc is one slice. */
static inline ptrdiff_t fl_slice(const falcon_kernel *kern, ptrdiff_t kc, ptrdiff_t block_k) {
    return FL_MIN(kc, fl_up(block_k, kern->k_grain));
}
/* Slices of a block that have their means in common: a segment, see falcon_problem. */
static inline ptrdiff_t fl_segment_slices(ptrdiff_t kc) {
    return FL_MAX(1, FALCON_SEGMENT / kc);
}
static inline ptrdiff_t fl_c_elem(const falcon_kernel *kern, const falcon_problem *prob) {
    return prob->c_form == FALCON_C_ACC ? kern->acc : kern->elem;
}

/* Packs lines of an operand, from step k of the pass on, with their weights. */
static inline void fl_pack(const falcon_kernel *kern, const fl_operand *o, const char *from, ptrdiff_t lines,
                           ptrdiff_t steps, ptrdiff_t k, char *to, ptrdiff_t len) {
    o->pack(from, o->line_stride, o->k_stride, lines, steps, to, len);
    if (o->weights && lines > 0 && steps > 0)
        kern->weigh(to, steps, o->weights + k * kern->acc);
}

/* problem.c: orientation, threads and special shapes of a problem */
falcon_problem fl_transposed_problem(const falcon_problem *prob);
int fl_wants_transpose(const falcon_problem *prob);
/* The number of threads that the problem pays for, at most `threads`; 1 if the team cannot be used (fl_team_size). */
int fl_threads(const falcon_problem *prob, int threads);
/* The same whether or not the team can be used. */
int fl_threads_of(const falcon_problem *prob, int threads);
/* M == 1 or N == 1, no scheme, B not packed, sums in any order. */
int fl_is_gemv(const falcon_scheme *scheme, const falcon_problem *prob);
/* Few rows and a row-major B, which is read in place. */
int fl_is_thin(const falcon_kernel *kern, const falcon_scheme *s, const falcon_problem *t);

/* layout.c: the parts of the workspace */
typedef enum { FL_EVEN, FL_ONE_ROW, FL_TRIANGLE, FL_OWN_PANELS } fl_cutting;
fl_cutting fl_cutting_of(const falcon_problem *t, const falcon_scheme *s, int thin);
void fl_partition(ptrdiff_t panels_a, ptrdiff_t panels_b, ptrdiff_t mt, ptrdiff_t nt, int threads, fl_cutting how,
                  ptrdiff_t *X, ptrdiff_t *Z);
/* A tile of C, in panels. */
typedef struct {
    ptrdiff_t x0, x1, z0, z1;
} fl_rect;
/* Cuts a pass, whose X and Z are known, into strips; their number; the tile that units first to *end - 1 make, or those
 * up to the end of its row or column of tiles, which becomes *end. */
void fl_cut_strips(fl_pass *p, int threads);
ptrdiff_t fl_tile_units(const fl_pass *p);
fl_rect fl_tile_of(const fl_pass *p, ptrdiff_t first, ptrdiff_t *end);
void fl_layout_make(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob, int threads,
                    const falcon_blocking *blk, fl_layout *out);
void fl_thread_buffers(const falcon_kernel *kern, const falcon_scheme *s, ptrdiff_t mt, ptrdiff_t nt, ptrdiff_t block_k,
                       ptrdiff_t kc, fl_layout *out);
/* Bytes of all panels of an operand. */
ptrdiff_t fl_operand_bytes(const falcon_kernel *kern, int R, ptrdiff_t panels, ptrdiff_t width, ptrdiff_t block_k,
                           ptrdiff_t kc);
/* Steps that are combined at a time, and the bytes of scratch that this takes. */
ptrdiff_t fl_chunk(const falcon_kernel *kern, int width, int n_in);
ptrdiff_t fl_scratch_stride(const falcon_kernel *kern, int width, ptrdiff_t chunk);
size_t fl_scratch_bytes(const falcon_kernel *kern, const falcon_scheme *scheme);

/* gemv.c: needs no workspace.  Returns whether a value was not finite. */
int fl_gemv(const falcon_kernel *kern, const falcon_problem *prob, int threads);
/* Whether it is a matrix-vector product too small for a second thread. */
int fl_is_small_gemv(const falcon_problem *prob);

/* direct.c: products by kernels that read operands where they are.  Whether a problem, whose C is by rows, is
 * multiplied so; and the matrices first to first+count-1 of a batch: whether a value was not finite, if `reports`. */
int fl_is_direct(const falcon_kernel *kern, const falcon_problem *q);
/* The parts that such a product has for threads: strips of A's rows, or panels of B's columns. */
ptrdiff_t fl_direct_pieces(const falcon_kernel *kern, const falcon_problem *q);
int fl_direct_batch(const falcon_kernel *kern, const falcon_problem *q, const falcon_batch *batch, ptrdiff_t first,
                    ptrdiff_t count, int team, int reports);
/* Where a matrix of a batch is: its place in the shape, bytes from the first A, B and C. */
typedef struct {
    ptrdiff_t at[FALCON_BATCH_AXES], offset[3];
} fl_place;
fl_place fl_nth(const falcon_batch *batch, ptrdiff_t n);
void fl_advance(const falcon_batch *batch, fl_place *place);
/* How a team claims a batch: units, each a matrix or one of `parts` of it, `grab` of them at a time.  pieces: the most
 * parts of a matrix. */
typedef struct {
    ptrdiff_t units, parts, grab;
    int team;
} fl_claims;
fl_claims fl_claims_of(const falcon_problem *q, ptrdiff_t count, int team, ptrdiff_t pieces);

/* scratch.c: FL_SCRATCH bytes of the calling thread, 64-byte aligned, for one user at a time */
enum { FL_SCRATCH = 96 << 10 };
char *fl_scratch(void);

/* strided.c: dst[k*width + i] = src[i*is + k*ks] for i < lines, 0 for the other i < width */
void fl_gather(const void *src, ptrdiff_t is, ptrdiff_t ks, ptrdiff_t lines, ptrdiff_t steps, ptrdiff_t elem, void *dst,
               ptrdiff_t width);

/* strided.c: complex src[i*is + k*ks], and times i, as rows 2k and 2k+1 of dst, of width real numbers of elem bytes */
void fl_turn(const void *src, ptrdiff_t is, ptrdiff_t ks, ptrdiff_t lines, ptrdiff_t steps, ptrdiff_t elem, void *dst,
             ptrdiff_t width);

/* combine.c: how many strips make a unit; unit u of the combine stage (u < fl_combine_units) */
ptrdiff_t fl_group(const fl_operand *o, ptrdiff_t slices, int threads);
ptrdiff_t fl_combine_units(const fl_pass *p, const fl_operand *o);
void fl_combine_unit(const fl_pass *p, const fl_operand *o, ptrdiff_t unit, char *scratch);

/* plain.c: whether operands look plain, by a sample of their lines, with room for two numbers a step; and are, by the
 * sums that combining them has measured. */
int fl_sample_is_plain(const fl_pass *p, const falcon_plain *q, double *room);
int fl_sums_are_plain(const fl_pass *p, const falcon_plain *q);

/* triangle.c: which entries of C are wanted.  A rectangle of entries of the pass: */
typedef struct {
    ptrdiff_t row, rows, col, cols;
} fl_entries;
/* Whether none of them is wanted; whether all are.  Entry (i, j) of the pass is on C's diagonal where j - i ==
 * diagonal, above it where j - i is more. */
static inline int fl_outside(const fl_pass *p, fl_entries e) {
    return p->triangle == FALCON_LOWER   ? e.col - (e.row + e.rows - 1) > p->diagonal
           : p->triangle == FALCON_UPPER ? e.col + e.cols - 1 - e.row < p->diagonal
                                         : 0;
}
static inline int fl_inside(const fl_pass *p, fl_entries e) {
    return p->triangle == FALCON_LOWER   ? e.col + e.cols - 1 - e.row <= p->diagonal
           : p->triangle == FALCON_UPPER ? e.col - (e.row + e.rows - 1) >= p->diagonal
                                         : 1;
}
/* The columns [*first, *end) of row i that are wanted, i < e.rows, counted from e.col. */
void fl_wanted(const fl_pass *p, fl_entries e, ptrdiff_t i, ptrdiff_t *first, ptrdiff_t *end);
/* Copies those of e that were written to the mirror. */
void fl_mirror(const fl_pass *p, fl_entries e);

/* tiles.c: one C tile.  next: the tile this thread is likely to do after it
 * (only prefetched from), or NULL; the seconds spent on C are added to *update,
 * if not NULL. */
void fl_tile(const fl_pass *p, const fl_buffers *buf, fl_rect tile, const fl_rect *next, double *update);

#endif
