/* triangle.c - products of which only one triangle is wanted, and copies of it to the other triangle.
 *
 * C = A A' is symmetric: one triangle takes half of the work, and every tile is copied, transposed, to the other one by
 * the thread that computed it, while it is still in its cache.
 */
#include "engine.h"

void fl_wanted(const fl_pass *p, fl_entries e, ptrdiff_t i, ptrdiff_t *first, ptrdiff_t *end) {
    const ptrdiff_t on = p->diagonal + e.row + i - e.col; /* the column that is on the diagonal */
    *first = p->triangle == FALCON_UPPER ? FL_MAX(0, on) : 0;
    *end = p->triangle == FALCON_LOWER ? FL_MIN(e.cols, on + 1) : e.cols;
}

/* A square is read by rows into L1 and written by columns from there: rows of C, often a power of two apart, share few
 * sets of the cache. */
enum { SQUARE = 16 };

#define TRANSPOSE(type)                                                                                                \
    static void transpose_##type(const char *from, ptrdiff_t rs, ptrdiff_t cs, char *to, ptrdiff_t to_rs,              \
                                 ptrdiff_t to_cs, ptrdiff_t rows, ptrdiff_t cols) {                                    \
        type square[SQUARE][SQUARE + 1];                                                                               \
        const type *src = (const type *)from;                                                                          \
        type *dst = (type *)to;                                                                                        \
        for (ptrdiff_t i = 0; i < rows; i++)                                                                           \
            for (ptrdiff_t j = 0; j < cols; j++)                                                                       \
                square[i][j] = src[i * rs + j * cs];                                                                   \
        for (ptrdiff_t j = 0; j < cols; j++)                                                                           \
            for (ptrdiff_t i = 0; i < rows; i++)                                                                       \
                dst[i * to_rs + j * to_cs] = square[i][j];                                                             \
    }
TRANSPOSE(uint8_t)
TRANSPOSE(uint16_t)
TRANSPOSE(uint32_t)
TRANSPOSE(uint64_t)
typedef struct {
    uint64_t parts[2];
} complex128;
TRANSPOSE(complex128)

typedef void (*transpose_fn)(const char *from, ptrdiff_t rs, ptrdiff_t cs, char *to, ptrdiff_t to_rs, ptrdiff_t to_cs,
                             ptrdiff_t rows, ptrdiff_t cols);

static void mirror_square(const fl_pass *p, fl_entries e, transpose_fn transpose) {
    const char *from = p->c + (e.row * p->c_rs + e.col * p->c_cs) * p->c_elem;
    char *to = p->mirror + (e.row * p->mirror_rs + e.col * p->mirror_cs) * p->c_elem;
    if (fl_inside(p, e)) {
        transpose(from, p->c_rs, p->c_cs, to, p->mirror_rs, p->mirror_cs, e.rows, e.cols);
        return;
    }
    for (ptrdiff_t i = 0; i < e.rows; i++) {
        ptrdiff_t first, end;
        fl_wanted(p, e, i, &first, &end);
        if (first < end)
            transpose(from + (i * p->c_rs + first * p->c_cs) * p->c_elem, p->c_rs, p->c_cs,
                      to + (i * p->mirror_rs + first * p->mirror_cs) * p->c_elem, p->mirror_rs, p->mirror_cs, 1,
                      end - first);
    }
}

void fl_mirror(const fl_pass *p, fl_entries e) {
    const transpose_fn transpose = p->c_elem == 1   ? transpose_uint8_t
                                   : p->c_elem == 2 ? transpose_uint16_t
                                   : p->c_elem == 4 ? transpose_uint32_t
                                   : p->c_elem == 8 ? transpose_uint64_t
                                                    : transpose_complex128;
    for (ptrdiff_t i = 0; i < e.rows; i += SQUARE)
        for (ptrdiff_t j = 0; j < e.cols; j += SQUARE) {
            const fl_entries square = {e.row + i, FL_MIN(SQUARE, e.rows - i), e.col + j, FL_MIN(SQUARE, e.cols - j)};
            if (!fl_outside(p, square))
                mirror_square(p, square, transpose);
        }
}
