/* residues.c - the passes before and after a product modulo p: residues of A and B, and the reduction of sums to C.
 *
 * Both are bound by memory.  Threads claim stretches of lines, each of which is one call of the kernel.
 */
#include "engine.h"
#include "team.h"

/* Elements that pay for a further thread, of a stretch of a line, and at least of what is claimed at a time. */
static const double elements_per_thread = 1 << 15;
enum { STRETCH = 1 << 13 };

typedef struct {
    const falcon_kernel *kern;
    const falcon_modulus *m;
    falcon_numbers x, to, c;
    ptrdiff_t lines, len, a_step, b_step; /* a_step: of residues, from part to part */
    int opened;
} fl_residue_job;

static ptrdiff_t open_lines(void *job, ptrdiff_t *grab) {
    fl_residue_job *j = job;
    *grab = FL_MAX(1, STRETCH / j->len);
    return j->opened++ ? 0 : j->lines * fl_div_up(j->len, STRETCH);
}

static char *at(const falcon_numbers *x, ptrdiff_t line, ptrdiff_t i) {
    return (char *)x->start + (line * x->line_stride + i * x->stride) * FALCON_NUMBER_BYTES(x->number);
}

static void do_lines(void *job, int seat, ptrdiff_t first, ptrdiff_t end) {
    (void)seat;
    const fl_residue_job *j = job;
    const ptrdiff_t stretches = fl_div_up(j->len, STRETCH);
    for (ptrdiff_t u = first; u < end; u++) {
        const ptrdiff_t line = u / stretches, i = u % stretches * STRETCH, n = FL_MIN(STRETCH, j->len - i);
        if (j->b_step < 0)
            j->kern->residues(j->m, at(&j->x, line, i), j->x.number, j->x.stride, n, at(&j->to, line, i), j->to.number,
                              j->a_step);
        else
            j->kern->reduce(j->m, at(&j->x, line, i), j->x.number, j->a_step, j->b_step, n,
                            j->c.start ? at(&j->c, line, i) : NULL, j->c.number, j->c.stride, at(&j->to, line, i),
                            j->to.number, j->to.stride);
    }
}

static void run(fl_residue_job *j, int threads) {
    static const fl_stages stages = {open_lines, do_lines};
    if (j->lines > 0 && j->len > 0)
        fl_team_run(&stages, j, fl_team_size((double)j->lines * (double)j->len / elements_per_thread, threads));
}

void falcon_residues(const falcon_kernel *kern, const falcon_modulus *m, falcon_numbers x, ptrdiff_t lines,
                     ptrdiff_t len, falcon_numbers to, ptrdiff_t part_stride, int threads) {
    fl_residue_job j = {kern, m, x, to, {0}, lines, len, part_stride, -1, 0};
    run(&j, threads);
}

void falcon_reduce(const falcon_kernel *kern, const falcon_modulus *m, falcon_numbers sums, ptrdiff_t M, ptrdiff_t N,
                   falcon_numbers c, falcon_numbers out, int threads) {
    sums.line_stride = m->parts[1] * N;
    sums.stride = 1;
    fl_residue_job j = {kern, m, sums, out, c, M, N, M * m->parts[1] * N, N, 0};
    run(&j, threads);
}
