/* gemv.c - matrix times vector: M == 1 or N == 1.
 *
 * Bound by memory: the matrix is read once, in place.  Threads claim blocks of lines; a line's sum is formed by one
 * thread in one order.
 */
#include "engine.h"
#include "team.h"
#include <stdatomic.h>
#include <string.h>

/* Multiply-adds that pay for a further thread. */
static const double macs_per_thread = 2.5e5;
/* The most lines of a unit, and steps of K at a time: x of one chunk (GEMV_CHUNK) or a strip of the matrix (GEMV_STRIP
 * steps of nr lines, at most STRIP_BYTES each) stay in L1 and L2.  LARGEST: bytes of the largest element. */
enum { GEMV_LINES = 2048, GEMV_CHUNK = 8192, GEMV_STRIP = 256, STRIP_BYTES = 256, LARGEST = 8 };

/* Lines i0 .. i1 of y = alpha * mat * x + beta * y, at most GEMV_LINES; i0 is a multiple of 64.  mat(i, k) is at
 * i*is + k*ks.  Sums run over fixed chunks of K, so they don't depend on i0 and i1. */
static void gemv_lines(const falcon_kernel *kern, const falcon_problem *p, ptrdiff_t i0, ptrdiff_t i1, char *watch) {
    enum { Y_BYTES = (GEMV_LINES + 64) * LARGEST };
    /* y; a copy of x if it is strided; before that, a strip of mat if it is strided, too */
    char *y = fl_scratch(), *room = y + Y_BYTES;
    _Static_assert(Y_BYTES + GEMV_CHUNK * LARGEST <= FL_SCRATCH, "x of one chunk");
    _Static_assert(Y_BYTES + GEMV_STRIP * (STRIP_BYTES + LARGEST) <= FL_SCRATCH, "a strip, and x");
    const ptrdiff_t elem = kern->elem, acc = kern->acc, lines = i1 - i0, K = p->K, nr = kern->nr;
    const int by_rows = p->N == 1; /* else y is a row, and mat is B transposed */
    const ptrdiff_t is = by_rows ? p->a_rs : p->b_cs, ks = by_rows ? p->a_cs : p->b_rs;
    const ptrdiff_t xs = by_rows ? p->b_rs : p->a_cs, cs = by_rows ? p->c_rs : p->c_cs;
    const char *x = by_rows ? p->b : p->a, *mat = (const char *)(by_rows ? p->a : p->b) + i0 * is * elem;
    const int axpy = is == 1 && (ks != 1 || K == 1), dot = !axpy && ks == 1;
    const ptrdiff_t step = axpy || dot ? GEMV_CHUNK : GEMV_STRIP;
    char *strip = room, *part = axpy || dot ? room : room + GEMV_STRIP * STRIP_BYTES;
    memset(y, 0, (size_t)(fl_up(lines, nr) * kern->acc));
    for (ptrdiff_t k = 0; k < K; k += step) {
        const ptrdiff_t len = FL_MIN(step, K - k);
        const char *from = x + k * xs * elem, *at = mat + k * ks * elem;
        if (xs != 1) {
            fl_gather(from, 0, xs, 1, len, elem, part, 1);
            from = part;
        }
        if (axpy)
            kern->axpy(lines, len, at, ks, from, y);
        else if (dot)
            kern->dot(lines, len, at, is, from, y);
        else
            for (ptrdiff_t i = 0; i < lines; i += nr) {
                fl_gather(at + i * is * elem, is, ks, FL_MIN(nr, lines - i), len, elem, strip, nr);
                kern->axpy(nr, len, strip, nr, from, y + i * acc);
            }
    }
    const ptrdiff_t c_elem = fl_c_elem(kern, p);
    char *c = (char *)p->c + i0 * cs * c_elem;
    for (ptrdiff_t i = 0; i < lines; i += nr)
        kern->write[p->c_form](NULL, y + i * acc, 1.0, p->alpha, p->beta, c + i * cs * c_elem, 0, cs, 1,
                               FL_MIN(nr, lines - i), 0, watch);
}

typedef struct {
    const falcon_kernel *kern;
    const falcon_problem *prob;
    ptrdiff_t lines, block;
    atomic_int bad;
} fl_gemv_job;

static void do_blocks(void *job, ptrdiff_t first, ptrdiff_t end) {
    fl_gemv_job *j = job;
    char watch[FALCON_WATCH] __attribute__((aligned(64))) = {0};
    for (ptrdiff_t i = first * j->block; i < FL_MIN(end * j->block, j->lines); i += j->block)
        gemv_lines(j->kern, j->prob, i, FL_MIN(j->lines, i + j->block), watch);
    if (j->kern->tripped(watch))
        atomic_store(&j->bad, 1);
}

int fl_gemv(const falcon_kernel *kern, const falcon_problem *prob, int threads) {
    const ptrdiff_t lines = prob->N == 1 ? prob->M : prob->N;
    const int team = fl_team_size((double)lines * (double)prob->K / macs_per_thread, threads);
    fl_gemv_job j = {.kern = prob->N == 1 ? kern : kern->transposed, .prob = prob, .lines = lines};
    j.block = FL_MIN(GEMV_LINES, fl_up(fl_div_up(lines, team), 64));
    fl_team_each(do_blocks, &j, fl_div_up(lines, j.block), 1, team);
    return atomic_load(&j.bad);
}

int fl_is_small_gemv(const falcon_problem *p) {
    return fl_is_gemv(NULL, p) && (double)p->M * (double)p->N * (double)p->K <= 2 * macs_per_thread;
}
