/* plain.c - whether operands are plain: a scheme adds their lines as they are, without units, means and scales.
 *
 * A sample of lines is looked at before panels are formed, and after that the sums that combining them has measured:
 * see falcon_plain.  Where either says no, other operands would have to be added, or other norms measured, which is
 * for the caller to find out.
 */
#include "engine.h"
#include <math.h>
#include <string.h>

/* Lines that are sampled at either end of an operand, steps that are loaded at a time. */
enum { LINES = 4, STEPS = 64 };

typedef struct {
    double norms[2 * LINES], sums[2 * LINES];
    int lines;
} fl_sample;

/* Read the sample: squared norms and sums of its lines, or, where sizes is not NULL, add each step's shares of them. */
static void read_sample(const falcon_kernel *kern, const fl_operand *o, char *strip, fl_sample *x, double *sizes) {
    const ptrdiff_t before = FL_MIN(LINES, o->lines), firsts[] = {0, FL_MAX(before, o->lines - LINES)};
    for (int end = 0, at = 0; end < 2; end++) {
        const ptrdiff_t line = firsts[end], n = end ? o->lines - line : before;
        for (ptrdiff_t k0 = 0; k0 < o->K; k0 += STEPS) {
            const ptrdiff_t steps = FL_MIN(STEPS, o->K - k0);
            o->load(o->src + (line * o->line_stride + k0 * o->k_stride) * o->elem, o->line_stride, o->k_stride, n,
                    steps, strip, steps);
            if (o->units)
                o->times_units(strip, steps, o->units + k0 * kern->acc);
            for (ptrdiff_t k = 0; k < steps; k++)
                for (ptrdiff_t i = 0; i < n; i++) {
                    const ptrdiff_t e = k * o->width + i;
                    const double y = kern->sum == sizeof(double) ? ((double *)strip)[e] : ((float *)strip)[e];
                    if (sizes)
                        sizes[k0 + k] += y * y / x->norms[at + i];
                    else
                        x->norms[at + i] += y * y, x->sums[at + i] += y;
                }
        }
        at += (int)n, x->lines = at;
    }
}

/* Whether lines have no mean in common, and like norms. */
static int are_alike(const falcon_plain *q, const fl_sample *x, ptrdiff_t K) {
    double least = INFINITY, most = 0, all = 0, means = 0;
    for (int i = 0; i < x->lines; i++) {
        least = FL_MIN(least, x->norms[i]), most = FL_MAX(most, x->norms[i]);
        all += x->norms[i], means += x->sums[i] * x->sums[i];
    }
    return least > 0 && most < q->sampled_spread * least && means < q->sampled_mean * (double)K * all;
}

/* Whether the terms that a scheme adds are as large as steps of these sizes say, but for q->loss: as they are where
 * each is added to those at its position in other blocks, and where one has all of K (falcon/_core/units.py). */
static int are_even(const falcon_plain *q, const double *a, const double *b, ptrdiff_t K, int parts) {
    const ptrdiff_t block = fl_div_up(K, parts);
    double of_groups = 0, together = 0, all_a = 0, all_b = 0;
    for (ptrdiff_t i = 0; i < block; i++) {
        double sum_a = 0, sum_b = 0;
        for (ptrdiff_t k = i; k < K; k += block) {
            if (a[k] == 0 || b[k] == 0)
                return 0;
            sum_a += a[k], sum_b += b[k], together += a[k] * b[k];
        }
        of_groups += sum_a * sum_b, all_a += sum_a, all_b += sum_b;
    }
    return FL_MAX(of_groups / parts, all_a * all_b / (double)K) <= q->loss * together;
}

int fl_sample_is_plain(const fl_pass *p, const falcon_plain *q, double *room) {
    const fl_operand *operands[] = {&p->a, &p->b};
    double *sizes[] = {room, room + p->a.K};
    for (int i = 0; i < 2; i++) {
        const fl_operand *o = operands[i];
        fl_sample x = {.lines = 0};
        read_sample(p->kern, o, fl_scratch(), &x, NULL);
        if (!are_alike(q, &x, o->K))
            return 0;
        if (q->loss < INFINITY) {
            memset(sizes[i], 0, (size_t)o->K * sizeof *room);
            read_sample(p->kern, o, fl_scratch(), &x, sizes[i]);
        }
    }
    return !(q->loss < INFINITY) || are_even(q, sizes[0], sizes[1], p->a.K, p->scheme->k);
}

/* What is known of the lines at the same positions of all blocks, RUN positions at a time. */
enum { RUN = 64 };
typedef struct {
    double least[RUN], most[RUN], sum[RUN];
} fl_groups;

/* Whether w neighbouring lines have no means; their squared norms go to `norms`. */
static int add_lines(const fl_pass *p, const falcon_plain *q, const fl_operand *o, ptrdiff_t line, ptrdiff_t w,
                     double *norms) {
    const ptrdiff_t rows = o->n_k_blocks * p->slices, together = fl_segment_slices(p->kc), n = o->lines;
    const double *squares = o->sums + line, *totals = squares + rows * n;
    double whole[RUN] = {0}, part[RUN];
    int has_mean = 0;
    memset(norms, 0, (size_t)w * sizeof *norms);
    for (ptrdiff_t r = 0; r < rows; r++)
        for (ptrdiff_t i = 0; i < w; i++)
            norms[i] += squares[r * n + i];
    for (ptrdiff_t block = 0; block < o->n_k_blocks; block++)
        for (ptrdiff_t s = 0; s < p->slices; s += together) {
            const ptrdiff_t stop = FL_MIN(s + together, p->slices), end = FL_MIN(stop * p->kc, o->block_k);
            const double len = (double)(FL_MIN(end, o->K - block * o->block_k) - s * p->kc);
            const double share = FL_MAX(q->mean * sqrt(len), q->noise), least = share * share * len / (double)o->K;
            memset(part, 0, sizeof part);
            for (ptrdiff_t r = block * p->slices + s; r < block * p->slices + stop; r++)
                for (ptrdiff_t i = 0; i < w; i++)
                    part[i] += totals[r * n + i];
            for (ptrdiff_t i = 0; len > 0 && i < w; i++) {
                has_mean |= part[i] * part[i] >= least * norms[i];
                whole[i] += part[i];
            }
        }
    for (ptrdiff_t i = 0; i < w; i++)
        has_mean |= whole[i] * whole[i] >= q->mean * q->mean * (double)o->K * norms[i];
    return !has_mean;
}

/* Whether lines have no means, norms that can be measured, and none that is much larger than others.  `spread` grows to
 * the largest ratio of mean to least squared norm within a group, `uneven` if powers of two may even out one. */
static int lines_are_plain(const fl_pass *p, const falcon_plain *q, const fl_operand *o, double *spread, int *uneven) {
    double least = INFINITY, most = 0, worst = 1;
    for (ptrdiff_t i0 = 0; i0 < o->block_lines; i0 += RUN) {
        fl_groups g;
        for (int i = 0; i < RUN; i++)
            g.least[i] = INFINITY, g.most[i] = g.sum[i] = 0;
        int blocks[RUN] = {0};
        for (ptrdiff_t line = i0; line < o->lines; line += o->block_lines) {
            const ptrdiff_t w = FL_MIN(FL_MIN(RUN, o->block_lines - i0), o->lines - line);
            double norms[RUN];
            if (!add_lines(p, q, o, line, w, norms))
                return 0;
            for (ptrdiff_t i = 0; i < w; i++) {
                if (!(norms[i] >= p->kern->least_square && norms[i] < INFINITY))
                    return 0;
                g.least[i] = FL_MIN(g.least[i], norms[i]), g.most[i] = FL_MAX(g.most[i], norms[i]);
                g.sum[i] += norms[i], blocks[i]++;
            }
        }
        for (int i = 0; i < RUN && blocks[i]; i++) {
            least = FL_MIN(least, g.least[i]), most = FL_MAX(most, g.most[i]);
            worst = FL_MAX(worst, g.sum[i] / (blocks[i] * g.least[i]));
            *uneven |= g.most[i] >= q->even * g.least[i];
        }
    }
    *spread *= worst;
    return most < q->wide * least;
}

int fl_sums_are_plain(const fl_pass *p, const falcon_plain *q) {
    double spread = 1;
    int uneven = 0;
    return lines_are_plain(p, q, &p->a, &spread, &uneven) && lines_are_plain(p, q, &p->b, &spread, &uneven) &&
           (!uneven || spread <= q->spread);
}

size_t falcon_plain_bytes(const falcon_kernel *kern, const falcon_scheme *scheme, const falcon_problem *prob,
                          const falcon_blocking *blk) {
    if (!scheme || scheme->parts > 1 || !kern->sums_a || prob->packed_b || blk->mb < prob->M || blk->nb < prob->N ||
        blk->kb < prob->K || prob->K <= 0)
        return 0;
    const ptrdiff_t block = fl_div_up(prob->K, scheme->k), slices = fl_div_up(block, fl_slice(kern, blk->kc, block));
    return (size_t)FL_MAX(prob->K, scheme->k * slices * (prob->M + prob->N)) * 2 * sizeof(double);
}
