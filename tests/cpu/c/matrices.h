/* matrices.h - matrices of all kinds of strides in guarded memory, and random numbers, for the C test driver. */
#ifndef FALCON_TEST_MATRICES_H
#define FALCON_TEST_MATRICES_H
#include "elements.h"
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t seed = 88172645463325252ull;
static int rnd(int n) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (int)((seed >> 11) % (uint64_t)n);
}

/* Memory whose end (or start) touches an unreadable page. */
typedef struct {
    char *map, *at;
    size_t map_bytes, bytes;
} guarded;

static guarded guarded_new(size_t bytes, int at_end) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (bytes + page - 1) / page * page;
    guarded g = {.map_bytes = inside + 2 * page, .bytes = bytes};
    g.map = mmap(NULL, g.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(g.map + page, inside, PROT_READ | PROT_WRITE);
    g.at = g.map + page + (at_end ? inside - bytes : 0);
    memset(g.map + page, 0xff, inside); /* NaN in float32 and float64 */
    return g;
}

static void guarded_free(guarded g) {
    munmap(g.map, g.map_bytes);
}

/* A matrix with some kind of strides inside guarded memory. */
typedef struct {
    guarded mem;
    char *p;
    ptrdiff_t rows, cols, rs, cs;
    int dtype;
} matrix;

static matrix matrix_new(int dtype, ptrdiff_t rows, ptrdiff_t cols, int kind) {
    matrix x = {.rows = rows, .cols = cols, .dtype = dtype};
    const ptrdiff_t e = bytes_of(dtype);
    const ptrdiff_t pad = 1 + rnd(40);
    switch (kind) {
    case 0:
        x.rs = cols, x.cs = 1;
        break;
    case 1:
        x.rs = 1, x.cs = rows;
        break;
    case 2:
        x.rs = cols + pad, x.cs = 1;
        break;
    case 3:
        x.rs = 2 * cols + pad, x.cs = 2;
        break;
    case 4:
        x.rs = -cols, x.cs = -1;
        break;
    case 5:
        x.rs = 1, x.cs = -(rows + pad);
        break;
    case 6:
        x.rs = (cols + 63) / 16 * 16, x.cs = 1;
        break; /* rows on whole cache lines: non-temporal stores */
    default:
        x.rs = 0, x.cs = 1;
        break; /* broadcast */
    }
    const ptrdiff_t lo = (x.rs < 0 ? x.rs * (rows - 1) : 0) + (x.cs < 0 ? x.cs * (cols - 1) : 0);
    const ptrdiff_t hi = (x.rs > 0 ? x.rs * (rows - 1) : 0) + (x.cs > 0 ? x.cs * (cols - 1) : 0);
    x.mem = guarded_new((size_t)((hi - lo + 1) * e), kind == 6 ? 0 : rnd(2));
    x.p = x.mem.at - lo * e;
    return x;
}

static double get(const matrix *x, ptrdiff_t i, ptrdiff_t j) {
    return element_get(x->dtype, x->p + (i * x->rs + j * x->cs) * bytes_of(x->dtype));
}

static void put(const matrix *x, ptrdiff_t i, ptrdiff_t j, double v) {
    element_put(x->dtype, x->p + (i * x->rs + j * x->cs) * bytes_of(x->dtype), v);
}

/* Small integers, or (real) any values: large integers, whose sums wrap, or fractions. */
static void fill(const matrix *x, int real) {
    const int whole = is_exact(x->dtype), least = x->dtype == FALCON_U8 ? 0 : -3;
    for (ptrdiff_t i = 0; i < x->rows; i++)
        for (ptrdiff_t j = 0; j < x->cols; j++)
            put(x, i, j, !real ? rnd(7) + least : whole ? rnd(1 << 30) : rnd(20001) / 9973.0 - 1);
}

/* Bytes of x's memory that no element owns must still be 0xff. */
static int gaps_intact(const matrix *x) {
    const ptrdiff_t e = bytes_of(x->dtype);
    char *own = calloc(1, x->mem.bytes);
    for (ptrdiff_t i = 0; i < x->rows; i++)
        for (ptrdiff_t j = 0; j < x->cols; j++)
            memset(own + (x->p + (i * x->rs + j * x->cs) * e - x->mem.at), 1, (size_t)e);
    int ok = 1;
    for (size_t i = 0; i < x->mem.bytes; i++)
        ok &= own[i] || x->mem.at[i] == (char)0xff;
    free(own);
    return ok;
}

#endif
