/* norms.c - squared 2-norms of the rows of A or the columns of B: they tell, before an LCMA runs,
 * whether it would add lines of very different scale; and sums of their elements, for means; and how many roundings
 * sums of a line's products have, for an error that is named.
 *
 * One pass over the matrix, bound by memory.  Threads claim strips of lines; a line's
 * sum is formed by one thread in one order, so that it never depends on their number.
 */
#include "engine.h"
#include "team.h"
#include <string.h>

/* Elements that pay for a further thread. */
static const double elements_per_thread = 1 << 17;
/* STRIP: elements of a strip of lines that are contiguous along K.  STEPS, MOST_LINES: what is copied at a time where
 * neither lines nor steps are contiguous.  LARGEST: bytes of the largest element. */
enum { STRIP = 1 << 15, STEPS = 128, MOST_LINES = 32, LARGEST = 8 };

typedef struct {
    const falcon_kernel *kern;
    const char *x;
    ptrdiff_t lines, len, line_stride, k_stride, strip;
    double *sums, *odd, *totals;
    const char *units;
    const ptrdiff_t *cuts;
    int segments;
    ptrdiff_t slice;
    int parts;
} fl_norm_job;

/* Neither lines nor steps are neighbours in memory: copied a few at a time. */
static void strided(const fl_norm_job *j, const char *x, ptrdiff_t lines, ptrdiff_t len, const char *units,
                    double *sums, double *totals, double *lows) {
    char *copy = fl_scratch();
    _Static_assert(STEPS * MOST_LINES * LARGEST <= FL_SCRATCH, "what is copied at a time");
    const ptrdiff_t width = FL_MIN(MOST_LINES, j->kern->mr), elem = j->kern->elem;
    for (ptrdiff_t i = 0; i < lines; i += width)
        for (ptrdiff_t k = 0; k < len; k += STEPS) {
            const ptrdiff_t some = FL_MIN(width, lines - i), steps = FL_MIN(STEPS, len - k);
            const char *from = x + (i * j->line_stride + k * j->k_stride) * elem;
            fl_gather(from, j->line_stride, j->k_stride, some, steps, elem, copy, width);
            j->kern->norm_axpy(some, steps, copy, width, units ? units + k * j->kern->acc : NULL, sums + i, NULL,
                               totals ? totals + i : NULL, lows ? lows + i : NULL);
        }
}

/* Adds up steps k to k + len of the lines from i on. */
static void add_steps(const fl_norm_job *j, ptrdiff_t i, ptrdiff_t lines, ptrdiff_t k, ptrdiff_t len, double *sums,
                      double *odd, double *totals, double *lows) {
    const char *units = j->units ? j->units + k * j->kern->acc : NULL;
    const char *x = j->x + (i * j->line_stride + k * j->k_stride) * j->kern->elem;
    if (j->k_stride == 1)
        j->kern->norm_dot(lines, len, x, j->line_stride, units, sums, odd, totals, lows);
    else if (j->line_stride == 1)
        j->kern->norm_axpy(lines, len, x, j->k_stride, units, sums, NULL, totals, lows);
    else
        strided(j, x, lines, len, units, sums, totals, lows);
}

/* The lines from i on, in segment s. */
static void do_segment(const fl_norm_job *j, ptrdiff_t i, ptrdiff_t lines, int s) {
    double *totals = j->totals ? j->totals + s * j->lines + i : NULL;
    double *lows = totals ? totals + j->segments * j->lines : NULL;
    add_steps(j, i, lines, j->cuts[s], j->cuts[s + 1] - j->cuts[s], j->sums + i, j->odd ? j->odd + i : NULL, totals,
              lows);
}

/* See falcon_roundings: `sums` holds squares, roundings, and the squares of a run and of a slice so far. */
static void do_roundings(void *job, ptrdiff_t first, ptrdiff_t end) {
    const fl_norm_job *j = job;
    const ptrdiff_t i = first * j->strip, lines = FL_MIN(end * j->strip, j->lines) - i;
    double *squares = j->sums + i, *found = squares + j->lines, *run = found + j->lines, *so_far = run + j->lines;
    for (double *x = squares; x <= so_far; x += j->lines)
        memset(x, 0, (size_t)lines * sizeof *x);
    const ptrdiff_t some = j->k_stride == 1 ? 1 : lines;
    for (ptrdiff_t l = 0; l < lines; l += some)
        for (ptrdiff_t k = 0, steps; k < j->len; k += steps) {
            const ptrdiff_t left = FL_MIN(j->slice - k % j->slice, j->len - k);
            steps = FL_MIN(FALCON_TOTAL_RUN, left);
            const double sums = (double)steps / j->parts;
            const int ends = steps == left;
            memset(run + l, 0, (size_t)some * sizeof *run);
            add_steps(j, i + l, some, k, steps, run + l, NULL, NULL, NULL);
            for (ptrdiff_t m = l; m < l + some; m++) {
                const double before = so_far[m], after = before + run[m];
                found[m] += 0.5 * ((sums - 1) * before * before + (sums + 1) * after * after);
                so_far[m] = ends ? 0 : after;
                squares[m] += ends ? after : 0;
                found[m] += ends ? squares[m] * squares[m] : 0;
            }
        }
    for (ptrdiff_t l = 0; l < lines; l++)
        found[l] = squares[l] < j->kern->least_square ? 0 : found[l] / (squares[l] * squares[l]);
}

static void do_strip(void *job, ptrdiff_t first, ptrdiff_t end) {
    const fl_norm_job *j = job;
    const ptrdiff_t i = first * j->strip, lines = FL_MIN(end * j->strip, j->lines) - i;
    double *sums = j->sums + i;
    double *odd = j->odd ? j->odd + i : NULL;
    memset(sums, 0, (size_t)lines * sizeof *sums);
    if (odd)
        memset(odd, 0, (size_t)lines * sizeof *odd);
    for (int s = 0; j->totals && s < 2 * j->segments; s++)
        memset(j->totals + s * j->lines + i, 0, (size_t)lines * sizeof *sums);
    const ptrdiff_t some = j->k_stride == 1 ? 1 : lines; /* of a line, all segments are read in turn */
    for (ptrdiff_t l = 0; l < lines; l += some)
        for (int s = 0; s < j->segments; s++)
            do_segment(j, i + l, some, s);
    for (ptrdiff_t l = 0; l < lines; l++)
        sums[l] = sums[l] < j->kern->least_square ? 0 : sums[l];
    for (ptrdiff_t l = 0; odd && l < lines; l++)
        odd[l] = odd[l] < j->kern->least_square ? 0 : odd[l];
}

/* However lines are cut into strips, a line has the same place in a vector, hence the same bits. */
static void each_strip(fl_norm_job *j, void (*task)(void *, ptrdiff_t, ptrdiff_t), int threads) {
    const int team = fl_team_size((double)j->lines * (double)j->len / elements_per_thread, threads);
    const ptrdiff_t least = fl_div_up(FL_MAX(j->lines, 1), FALCON_NORM_LINES); /* strips of neighbouring lines */
    if (j->k_stride == 1)
        j->strip = FL_MAX(1, STRIP / FL_MAX(j->len, 1));
    else if (j->line_stride == 1)
        j->strip = fl_up(fl_div_up(FL_MAX(j->lines, 1), fl_up(least, team)), 64);
    else
        j->strip = 16 * FL_MIN(MOST_LINES, j->kern->mr);
    fl_team_each(task, j, fl_div_up(j->lines, j->strip), 1, team);
}

void falcon_norms(const falcon_kernel *kern, const void *x, ptrdiff_t lines, ptrdiff_t len, ptrdiff_t line_stride,
                  ptrdiff_t k_stride, int threads, const void *units, double *sums, double *odd, const ptrdiff_t *cuts,
                  int segments, double *totals) {
    const ptrdiff_t whole[] = {0, len};
    fl_norm_job j = {.kern = kern,
                     .x = x,
                     .lines = lines,
                     .len = len,
                     .line_stride = line_stride,
                     .k_stride = k_stride,
                     .units = units,
                     .sums = sums,
                     .totals = totals,
                     .cuts = totals ? cuts : whole,
                     .segments = totals ? segments : 1,
                     .odd = k_stride == 1 ? odd : NULL};
    each_strip(&j, do_strip, threads);
}

void falcon_roundings(const falcon_kernel *kern, const void *x, ptrdiff_t lines, ptrdiff_t len, ptrdiff_t line_stride,
                      ptrdiff_t k_stride, int threads, ptrdiff_t slice, int parts, double *found) {
    fl_norm_job j = {.kern = kern,
                     .x = x,
                     .lines = lines,
                     .len = len,
                     .line_stride = line_stride,
                     .k_stride = k_stride,
                     .sums = found,
                     .parts = parts,
                     .slice = FL_MAX(slice, 1)};
    each_strip(&j, do_roundings, threads);
}
