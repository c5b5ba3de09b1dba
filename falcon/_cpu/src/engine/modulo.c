/* modulo.c - the passes before and after a product modulo p: residues of A and B, and the reduction of sums to C.
 *
 * They are bound by memory.  Threads claim stretches of lines, each of which is one call of the kernel.
 */
#include "engine.h"
#include "team.h"
#include <fenv.h>

/* Numbers, read or written, that pay for a further thread: 20 microseconds of work. */
static const double numbers_per_thread = 1 << 15;

typedef struct {
    const falcon_kernel *kern;
    const falcon_modulo *m;
    ptrdiff_t stretches; /* of a line */
} fl_modulo_job;

static void do_lines(void *job, ptrdiff_t first, ptrdiff_t end) {
    const fl_modulo_job *j = job;
    for (ptrdiff_t u = first; u < end; u++) {
        const ptrdiff_t i = u % j->stretches * FALCON_MODULO_RUN;
        j->kern->modulo(j->m, u / j->stretches, i, FL_MIN(FALCON_MODULO_RUN, j->m->len - i));
    }
}

void falcon_reduce(const falcon_kernel *kern, falcon_modulo *m, int threads) {
    int is_one_line = 1;
    for (const falcon_numbers *x = m->numbers; x < m->numbers + m->terms + m->parts; x++)
        is_one_line &= x->line_stride == m->len * x->stride;
    if (is_one_line)
        m->len *= m->lines, m->lines = 1;
    const int mode = fegetround(); /* kernels round to the nearest integer by additions */
    fesetround(FE_TONEAREST);
    fl_modulo_job j = {kern, m, fl_div_up(m->len, FALCON_MODULO_RUN)};
    if (m->lines > 0 && m->len > 0)
        fl_team_each(
            do_lines, &j, m->lines * j.stretches, 16 * FALCON_MODULO_RUN / FL_MIN(FALCON_MODULO_RUN, m->len),
            fl_team_size((double)m->lines * (double)m->len * (m->terms + m->parts) / numbers_per_thread, threads));
    fesetround(mode);
}
