/* kernel.h - the descriptor of a kernel: all that the engine knows of an element type on an instruction set.
 *
 * One row of the table in registry.c per (instruction set, type).  The engine calls through it and knows no type, no
 * instruction set and no K granularity by name; what differs is a size or a function here.
 *
 * An element goes through four forms, which may all be the same (float32, float64):
 *
 *                                                        bfloat16 on AVX-512   on AVX512_BF16
 *   elem   as A and B hold it                                  bfloat16           bfloat16
 *   sum    as load writes it for a scheme's sums               float32            bfloat16
 *   panel  as the micro-kernel reads it                        float32            bfloat16
 *   acc    as products are accumulated, in H and C's tiles     float32            float32
 *
 * C holds either elements like A's and B's or accumulators.
 */
#ifndef FALCON_KERNEL_H
#define FALCON_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/* enum falcon_isa, in ascending order of preference: a type runs on the best one that has a kernel for it.  enum
 * falcon_dtype: what a kernel multiplies, two matrices of one type, or A and B of two.  Integers wrap; i32 is the type
 * of their accumulators, but for i64.  Of u8i8 (A of u8, B of i8) and i8u8, C holds accumulators.  enum falcon_opcode.
 * The tables are those of ../../sources.py, which writes this header. */
#include "falcon_tables.h"

/* ---- Linear-combination programs -------------------------------------- */

/* Registers 0..n_in-1 are the inputs, n_in..n_in+n_temp-1 temporaries, and
 * FALCON_ACC an accumulator that never leaves the vector registers: chains
 * that end in a STORE should run through it.  dst may be a temporary or ACC. */
enum { FALCON_ACC = -1 };
/* ADD, SUB: dst = a + b, a - b.  SCALE: dst = coef * a.  STORE: output dst = coef * a. */
typedef struct {
    int32_t op, dst, a, b;
    double coef;
} falcon_op;
typedef struct {
    int32_t n_in, n_out, n_temp, n_ops;
    const falcon_op *ops;
    int32_t code; /* 1 + its number among the programs of falcon_codes.h, or 0 */
} falcon_program;
enum { FALCON_BLOCK = 256 }; /* bytes per register that the interpreter handles at a time */

/* ---- Functions of a kernel ---------------------------------------------- */

/* Write a strip of `width` lines step by step, d steps of a line together: element (i, p) goes to
 *     dst[(p / d * width + i) * d + p % d]
 * It is src[i*is + p*ps] for i < vi, p < vp, and 0 for the other i < width, p < len.  len is a multiple of kr.
 * d is kr, but in B's panels for tiles a lane: the steps that make 4 bytes.
 * pack writes panels, load the inputs of a scheme's sums. */
typedef void (*falcon_pack_fn)(const void *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp, void *dst,
                               ptrdiff_t len);
/* The same for complex numbers, as two strips: their real parts at re, their imaginary ones, negated if conj, at im.
 * Strides are in complex numbers. */
typedef void (*falcon_load_parts_fn)(const void *src, ptrdiff_t is, ptrdiff_t ps, ptrdiff_t vi, ptrdiff_t vp, void *re,
                                     void *im, ptrdiff_t len, int conj);
/* Form all outputs of a program from all inputs; one function for A's panels and one for B's.  Input q is the
 * contiguous vector src + q*src_stride (as load wrote it), output r the vector dst + r*dst_stride (a panel), each of
 * len elements; strides in elements.  src, dst and the byte size of both strides and of len are multiples of 64. stream
 * != 0 asks for non-temporal stores (the outputs will not be read soon); the caller fences later.  scratch: n_temp *
 * FALCON_BLOCK bytes. */
typedef void (*falcon_combine_fn)(const void *src, ptrdiff_t src_stride, void *dst, ptrdiff_t dst_stride, ptrdiff_t len,
                                  int stream, const falcon_program *prog, void *scratch);
/* The same by straight-line code for one program, which is written by falcon/codegen/cpu_emit.py.  Input q lies at
 * src[q]: `steps` rows, src_step bytes apart, each `panels` pieces of `bytes` (whole cache lines) behind each other.
 * Piece i of step k of output r goes to dst + r*dst_stride + i*dst_panel + k*bytes.  ahead: NULL, or where other rows
 * of the inputs begin, which are prefetched meanwhile.  stream: as above; outputs: how many the program has. */
typedef struct {
    const char *const *src, *const *ahead;
    char *dst;
    ptrdiff_t src_step, steps, panels, bytes, dst_stride, dst_panel;
    int stream, outputs;
} falcon_rows;
typedef void (*falcon_code_fn)(const falcon_rows *rows);
/* How a micro-kernel treats h.  A kernel that `keeps` can leave the accumulators in its registers (KEEP), from which
 * the next call, for the micro-tile that follows h, stores them between its products (KEPT); in calls of the variant
 * for all rows and vectors only. */
enum falcon_how { FALCON_ADD = 1, FALCON_KEEP = 2, FALCON_KEPT = 4 };
/* h[i*nr + j] (+ with ADD)= sum over p < kc of a(i, p) * b(p, j), both panels (kc a multiple of kr).  ldb: elements
 * from one group of kr steps of b to the next, nr*kr in a panel, B's row stride where B is read in place.  The variant
 * [rows-1][vectors-1] touches that many rows and vectors of columns only.
 * pf: while running, prefetch into L2 the lines pf, pf + pf_step, ... (bytes),
 * pf_lines of them for every FALCON_PF_EVERY groups of kr steps. */
typedef void (*falcon_ukr_fn)(ptrdiff_t kc, const void *a, const void *b, ptrdiff_t ldb, void *h, int how,
                              const char *pf, ptrdiff_t pf_step);
enum { FALCON_PF_EVERY = 2 };
/* dst = ct + coef*h over a whole mr x nr micro-tile of accumulators; ct may be NULL (zero) or dst. */
typedef void (*falcon_scatter_fn)(void *dst, const void *ct, const void *h, double coef);
/* alpha or beta: its parts, and for integers, which have up to 64 bits, the same number modulo 2^64. */
typedef struct {
    double real, imag;
    int64_t whole;
} falcon_scalar;
/* C = alpha*(ct + coef*h) + beta*C on rows x cols elements; ct may be NULL
 * (zero); beta == 0 never reads C; stream: non-temporal stores where aligned.
 * watch: FALCON_WATCH aligned bytes, accumulators that become NaN if a value of
 * alpha*(ct + coef*h) written here is not finite, else stay as they are. */
enum { FALCON_WATCH = 64 };
typedef void (*falcon_write_fn)(const void *ct, const void *h, double coef, falcon_scalar alpha, falcon_scalar beta,
                                void *c, ptrdiff_t rs, ptrdiff_t cs, ptrdiff_t rows, ptrdiff_t cols, int stream,
                                void *watch);
/* C = alpha A B + beta C of up to mr rows and nr columns, of operands that are read and written where they are: A by
 * any strides, the rows of B and C contiguous.  The variant [rows-1][vectors-1] is for that many rows, and as many
 * vectors as `cols` columns need.  Sums run along K in one chain.  pf: in every step, prefetch into L2 one of the lines
 * pf, pf + pf_step, ... (bytes). */
typedef struct {
    ptrdiff_t K, a_rs, a_cs, b_rs, c_rs; /* strides in bytes */
    falcon_scalar alpha, beta;
    void *watch; /* NULL, or see falcon_write_fn */
} falcon_direct;
typedef void (*falcon_direct_fn)(const falcon_direct *how, const void *a, const void *b, void *c, ptrdiff_t cols,
                                 const char *pf, ptrdiff_t pf_step);
/* C = alpha*(re + i im) + beta*C on complex numbers: two micro-tiles of accumulators, strides in complex numbers; watch
 * and stream as above. */
typedef void (*falcon_write_parts_fn)(const void *re, const void *im, falcon_scalar alpha, falcon_scalar beta, void *c,
                                      ptrdiff_t rs, ptrdiff_t cs, ptrdiff_t rows, ptrdiff_t cols, int stream,
                                      void *watch);
/* The steps of a panel of B, as pack wrote it, are multiplied by weights[p], which are accumulators. */
typedef void (*falcon_weigh_fn)(void *panel, ptrdiff_t steps, const void *weights);
/* x becomes x * units[k] in step k of a strip that load wrote; units: accumulators. */
typedef void (*falcon_units_fn)(void *strip, ptrdiff_t steps, const void *units);
/* x becomes (x - means[i]) * scale[i] in line i of a strip that load wrote, i < lines.  means: accumulators, or NULL
 * (zeros); scale: NULL (ones). */
typedef void (*falcon_level_fn)(void *strip, ptrdiff_t steps, const void *means, const double *scale, ptrdiff_t lines);
/* squares[i] and totals[i] += the squares and the elements of line i of a strip, i < lines, in runs of FALCON_SUM_RUN
 * steps, which lie `step` elements apart (the strip's width where load wrote it): however a slice is cut into strips of
 * whole runs, sums have the same bits. */
typedef void (*falcon_sums_fn)(const void *strip, ptrdiff_t step, ptrdiff_t steps, double *squares, double *totals,
                               ptrdiff_t lines);
enum { FALCON_SUM_RUN = 16 };
/* falcon_scatter_fn, and left[r*left_step + i] * right[r*right_step + j], r < rank, is added to element (i, j): all are
 * accumulators. */
typedef void (*falcon_outer_fn)(void *dst, const void *ct, const void *h, double coef, int rank, const void *left,
                                ptrdiff_t left_step, const void *right, ptrdiff_t right_step);
/* Divide element (i, j) of a micro-tile of accumulators by rows[i] and columns[j]; either may be NULL (ones).  narrow:
 * whether 1 / (rows[i] columns[j]), 1 / rows[i] and 1 / columns[j] are accumulators. */
typedef void (*falcon_unscale_fn)(void *tile, ptrdiff_t n_rows, ptrdiff_t n_columns, const double *rows,
                                  const double *columns, int narrow);
/* What C holds: elements like A and B, or accumulators. */
enum falcon_c_form { FALCON_C_ELEM, FALCON_C_ACC, FALCON_N_C_FORM };

/* y[i] += sum over k < len of mat(i, k) * x[k] for i < lines; mat elements like A's, x like B's, y accumulators.  dot:
 * stride s from line to line, K contiguous; axpy: stride s from step to step of K, lines contiguous.  The order of a
 * sum depends on len and on i modulo 64. */
typedef void (*falcon_gemv_fn)(ptrdiff_t lines, ptrdiff_t len, const void *mat, ptrdiff_t s, const void *x, void *y);
/* sums[i] += sum over k < len of (units[k] * mat(i, k))^2 for i < lines; units: accumulators, or NULL (ones).  dot,
 * axpy: strides as in falcon_gemv_fn.  axpy takes FALCON_NORM_LINES lines at a time, whose sums stay in L1.  odd: where
 * dot adds the squares of odd k instead, if it is not NULL; axpy has none.  totals: NULL, or to which the elements
 * themselves are added, and lows, to which axpy adds what rounding took from totals. */
typedef void (*falcon_norm_fn)(ptrdiff_t lines, ptrdiff_t len, const void *mat, ptrdiff_t s, const void *units,
                               double *sums, double *odd, double *totals, double *lows);
enum { FALCON_NORM_LINES = 1024, FALCON_NORM_RUN = 2048, FALCON_TOTAL_RUN = 64 };

enum { FALCON_MODULO_RUN = 512, FALCON_MOST_NUMBERS = 40, FALCON_FLOATS = 8 };
/* A matrix of integers: their type by its place in this list, floats from FALCON_FLOATS on; strides in bytes. */
#define FALCON_NUMBERS(X)                                                                                              \
    X(int8_t) X(uint8_t) X(int16_t) X(uint16_t) X(int32_t) X(uint32_t) X(int64_t) X(uint64_t) X(float) X(double)
typedef struct {
    char *start;
    int number, bytes; /* of a number */
    ptrdiff_t line_stride, stride;
    int64_t weights[3];     /* the weight, and it times 2^21 and 2^42, for the digits of numbers of 64 bits */
    double modulus, factor; /* of residues; or 0 */
} falcon_numbers;
/* x = the sum of the first `terms` of some matrices times their weights, modulo p <= 2^62, is written to the `parts`
 * matrices behind them.  Of a term with a modulus m, which is no integer of 64 bits, the residue r of least magnitude,
 * after it was multiplied by the factor, is weighted; the sum of all r / m, rounded, times `carry` is subtracted.  A
 * part with a modulus m < 2^28 receives x, of least magnitude, modulo m, of least magnitude too; one without x from 0
 * to p - 1, perhaps over a term.  0 <= weights < p; floats are less than 2^53 - 2^32 and 2^51 m in magnitude.
 * p == 0: x is the only term. */
typedef struct {
    int64_t p, carry;
    ptrdiff_t lines, len;
    int terms, parts;
    int is_unsigned; /* x, where p is 0 */
    falcon_numbers numbers[FALCON_MOST_NUMBERS];
} falcon_modulo;
/* n numbers of a line, from the `first` on; at most FALCON_MODULO_RUN, which stay in L1. */
typedef void (*falcon_modulo_fn)(const falcon_modulo *m, ptrdiff_t line, ptrdiff_t first, ptrdiff_t n);

enum { FALCON_BYTE_LINES = 512, FALCON_LARGEST_BYTE = 127, FALCON_BYTE_STEPS = 1 << 17 };
/* Floats as 8-bit integers: y = line i times FALCON_LARGEST_BYTE / peak, its largest magnitude, rounded.  found: of all
 * lines the peak, the sum of the squares of the integers, that of what rounding took times y, and of what it took; of a
 * line there are fewer than FALCON_BYTE_STEPS.  Strides in elements; where k_stride is 1 the integers lie by lines,
 * else by steps, and line_stride is 1. */
typedef struct {
    const void *x;
    int is_double;
    ptrdiff_t lines, len, line_stride, k_stride;
    int8_t *to;
    double *found;
} falcon_bytes;
typedef void (*falcon_quantise_fn)(const falcon_bytes *q, ptrdiff_t line, ptrdiff_t n);
/* C = of_rows[i] x(i, j) of_columns[j] + beta C(i, j); x by rows. */
typedef struct {
    const int32_t *x;
    const double *of_rows, *of_columns;
    double beta;
    void *c;
    int is_double;
    ptrdiff_t rows, columns, row_stride, column_stride;
} falcon_products;
typedef void (*falcon_from_bytes_fn)(const falcon_products *q, ptrdiff_t row, ptrdiff_t n);
/* The largest magnitudes of rows of C, whose columns are multiplied by `by`, of C's type, first. */
typedef struct {
    const void *c, *by;
    int is_double;
    ptrdiff_t rows, columns, row_stride;
    double *peaks;
} falcon_peaks;
typedef void (*falcon_peaks_fn)(const falcon_peaks *q, ptrdiff_t row, ptrdiff_t n);

/* ---- The descriptor ------------------------------------------------------- */

typedef struct falcon_kernel {
    const char *name; /* isa_dtype_ukr_MRxNR */
    int isa, dtype;
    int a_dtype, b_dtype;      /* the types of A's and B's elements; dtype unless that stands for two */
    int elem, sum, panel, acc; /* bytes of an element in each of its forms */
    int acc_dtype;             /* the type of accumulators */
    int split;                 /* a scheme's sums are split when they are written: room for a step of each */
    int exact;                 /* integers: arithmetic wraps and never rounds */
    int mr, nr, vlen;          /* vlen: columns of a vector; narrow tiles use fewer than nr has */
    int kr;                    /* steps of K in a group; panels hold whole groups */
    int pf_lines;              /* see falcon_ukr_fn */
    int k_grain;               /* slices and chunks of K are multiples of it, so that they begin on cache lines */
    int kc;                    /* longest slice of K */
    int rows_in_place;         /* rows of A up to which a copy of B would cost more than it saves; 0: the micro-kernel
                                * cannot read B's rows where they are (where it can, panels hold elements as they are, and
                                * kr is 1) */
    int streams_rows;          /* packing B's rows between micro-kernels was faster for few rows of A than a BLAS */
    int keeps;                 /* see falcon_how */
    int b_kept; /* with several slices of K, keep B's panels in L1 while A's stream, not the other way round */
    struct {
        int a_panels, b_panels;                      /* most panels of a C tile */
        int a_share, b_share;                        /* percent of L2 that a tile's slice of A and of B may take */
    } tile[2];                                       /* [0]: A's panels are kept in L1, [1]: B's */
    const falcon_ukr_fn *ukr;                        /* [mr][nr / vlen] */
    const falcon_direct_fn *direct;                  /* the same, or NULL */
    falcon_pack_fn pack_a, pack_b, load_a, load_b;   /* widths mr and nr */
    falcon_load_parts_fn load_parts_a, load_parts_b; /* NULL, as write_parts, where no complex type has such parts */
    falcon_combine_fn interpret_a, interpret_b;
    const falcon_code_fn *codes; /* of the programs of falcon_codes.h; or NULL */
    falcon_scatter_fn scatter;
    falcon_weigh_fn weigh; /* NULL unless panels hold elements as they are, a step of K at a time */
    falcon_units_fn units_a, units_b;
    falcon_level_fn level_a, level_b;
    falcon_sums_fn sums_a, sums_b; /* NULL where a strip does not hold accumulators, one step after the other */
    falcon_unscale_fn unscale;
    falcon_outer_fn scatter_outer;
    falcon_write_fn write[FALCON_N_C_FORM]; /* of elements: NULL for two types */
    falcon_write_parts_fn write_parts;
    falcon_gemv_fn dot, axpy;
    falcon_norm_fn norm_dot, norm_axpy; /* NULL where arithmetic is exact */
    double least_square;                /* squares of elements of a line with a smaller sum may have underflowed */
    falcon_modulo_fn modulo;            /* the same for all types, as the next three */
    falcon_quantise_fn quantise;
    falcon_from_bytes_fn from_bytes;
    falcon_peaks_fn peaks;
    /* c = beta*c on n elements of stride s (beta == 0 never reads them). */
    void (*scale[FALCON_N_C_FORM])(void *c, ptrdiff_t s, ptrdiff_t n, falcon_scalar beta);
    int (*tripped)(const void *watch); /* whether anything not finite was written, see falcon_write_fn */
    void (*fence)(void);               /* orders non-temporal stores before what follows */
    void (*begin)(void), (*end)(void); /* around every use of the micro-kernel by a thread (tile registers); or NULL */
    const struct falcon_kernel *transposed; /* for B'A': itself, or for two types the one for them in the other order,
                                             * which differs in its functions alone */
} falcon_kernel;

/* The kernel (enum falcon_isa, enum falcon_dtype) if it is built in and this CPU and OS can run it, else NULL. */
const falcon_kernel *falcon_kernel_get(int isa, int dtype);
/* The best kernel for a type that runs here, on no better an instruction set than `most`. */
const falcon_kernel *falcon_kernel_best(int most, int dtype);
/* For tests: use this kernel for an instruction set and type, whatever the CPU; NULL: the built-in one. */
void falcon_kernel_put(int isa, int dtype, const falcon_kernel *kern);
/* NULL, or why an instruction set that is built in and that the CPU has is not used. */
const char *falcon_isa_refused(int isa);
/* Whether the instruction set runs here and has a kernel for some type. */
int falcon_isa_supported(int isa);
/* The best instruction set that runs here. */
int falcon_isa_best(void);
const char *falcon_isa_name(int isa);
const char *falcon_dtype_name(int dtype);

#endif
