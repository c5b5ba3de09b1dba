/* lcma_combine.c - Group Combine: source blocks straight into packed panels.
 *
 * One unit of work is one micro-panel strip (MR or NR lines) of one K slice, or
 * a few neighbouring ones (fl_group), of all blocks at once.  Chunk by chunk the source strips are packed into an
 * L1-sized scratch, where every later step sees contiguous vectors, and one
 * call of the combination program writes the strip of all R outputs.  So each
 * source element is read once and each output written once.  Classical
 * packing is the case of one block and no program.
 */
#include "engine.h"
#include <string.h>

/* The rows of scratch that fit about 24 KiB (L1 less room for the outputs'
 * lines), as a multiple of 16 steps so that chunks start on whole lines. */
ptrdiff_t fl_chunk(const falcon_kernel *kern, int width, int n_in) {
    const ptrdiff_t per_step = (ptrdiff_t)width * n_in * kern->elem;
    return FL_MAX(16, (24 << 10) / per_step / 16 * 16);
}

static ptrdiff_t scratch_stride(const falcon_kernel *kern, int width, ptrdiff_t chunk) {
    /* one line more than the data: sources must not share L1 sets */
    return fl_up(chunk * width, 64 / kern->elem) + 64 / kern->elem;
}

size_t fl_scratch_bytes(const falcon_kernel *kern, const falcon_scheme *s) {
    if (s->R == 1 && s->m * s->k * s->n == 1)
        return 0;
    const int in_a = s->m * s->k, in_b = s->k * s->n;
    size_t most = 0;
    for (int w = 0; w < 4; w++) { /* either matrix may be packed with either width */
        const int width = w & 1 ? kern->mr : kern->nr, n_in = w & 2 ? in_a : in_b;
        const falcon_program *prog = w & 2 ? &s->u : &s->v;
        const size_t bytes = (size_t)(n_in * scratch_stride(kern, width, fl_chunk(kern, width, n_in)) * kern->elem) +
                             (size_t)prog->n_temp * FALCON_BLOCK;
        most = FL_MAX(most, bytes);
    }
    return most;
}

/* Where lines are neighbours in memory, a strip is one short piece of every step's row, and rows are far apart: so
 * up to GROUP strips are made together, some steps at a time, while the next steps are called for.  Fewer where
 * threads would be left without work. */
enum { GROUP = 4, GROUP_STEPS = 64 };

ptrdiff_t fl_group(const fl_operand *o, ptrdiff_t slices, int threads) {
    return o->line_stride == 1 ? FL_MAX(1, FL_MIN(GROUP, o->panels * slices / (4 * threads))) : 1;
}

ptrdiff_t fl_combine_units(const fl_pass *p, const fl_operand *o) {
    return o->mode == FALCON_PACKED && o->src ? fl_div_up(o->panels, o->group) * p->slices : 0;
}

/* Some steps of the strips of one panel, in all blocks. */
typedef struct {
    ptrdiff_t panel, k, steps; /* k: first step, in its block */
} fl_strip;

/* Block q of the operand: its line block and its K block. */
static void block_of(const fl_operand *o, int q, ptrdiff_t *line, ptrdiff_t *k) {
    *line = (o->k_major ? q % o->n_line_blocks : q / o->n_k_blocks) * o->block_lines;
    *k = (o->k_major ? q / o->n_line_blocks : q % o->n_k_blocks) * o->block_k;
}

/* Pack the strip of block q, zeros beyond the matrix. */
static void pack_strip(const fl_pass *p, const fl_operand *o, fl_strip x, int q, char *to) {
    ptrdiff_t line, k;
    block_of(o, q, &line, &k);
    const ptrdiff_t in_block = x.panel * o->width;
    line += in_block, k += x.k;
    const ptrdiff_t lines = FL_MIN(FL_MIN(o->width, o->block_lines - in_block), o->lines - line);
    const ptrdiff_t steps = FL_MIN(x.steps, o->K - k);
    const char *from =
        lines > 0 && steps > 0 ? o->src + (line * o->line_stride + k * o->k_stride) * p->kern->elem : NULL;
    o->pack(from, o->line_stride, o->k_stride, lines, steps, to, x.steps);
}

/* Call for the source lines of `panels` neighbouring strips (line_stride 1). */
static void strips_ahead(const fl_pass *p, const fl_operand *o, fl_strip x, ptrdiff_t panels, int n_in) {
    const ptrdiff_t elem = p->kern->elem;
    for (int q = 0; q < n_in; q++) {
        ptrdiff_t line, k;
        block_of(o, q, &line, &k);
        line += x.panel * o->width, k += x.k;
        const ptrdiff_t bytes = FL_MIN(panels * o->width, o->lines - line) * elem, steps = FL_MIN(x.steps, o->K - k);
        for (ptrdiff_t i = 0; i < steps; i++)
            for (ptrdiff_t at = 0; at < bytes; at += 64)
                __builtin_prefetch(o->src + (line + (k + i) * o->k_stride) * elem + at, 0, 2);
    }
}

void fl_combine_unit(const fl_pass *p, const fl_operand *o, ptrdiff_t unit, char *scratch) {
    const falcon_kernel *kern = p->kern;
    const ptrdiff_t elem = kern->elem, width = o->width;
    /* neighbouring units read neighbouring memory: next slice of the same lines
     * where K is contiguous, else the next lines of the same slice */
    const ptrdiff_t group = o->group, groups = fl_div_up(o->panels, group);
    const int k_fast = o->k_stride == 1 && group == 1;
    const ptrdiff_t s = k_fast ? unit % p->slices : unit / groups;
    const ptrdiff_t panel0 = (k_fast ? unit / p->slices : unit % groups) * group;
    const ptrdiff_t panels = FL_MIN(group, o->panels - panel0);
    const ptrdiff_t len = fl_slice_len(p, s), stride = fl_panel_stride(kern, width, len);
    char *dst = o->packed + s * p->scheme->R * o->panels * fl_panel_stride(kern, width, p->kc) * elem;

    const int n_in = o->n_line_blocks * o->n_k_blocks;
    const ptrdiff_t most = fl_chunk(kern, (int)width, n_in), chunk = group > 1 ? FL_MIN(GROUP_STEPS, most) : most;
    const ptrdiff_t sstride = scratch_stride(kern, (int)width, most);
    char *temps = scratch + n_in * sstride * elem;
    for (ptrdiff_t at = 0; at < len; at += chunk) {
        fl_strip x = {panel0, s * p->kc + at, FL_MIN(chunk, len - at)};
        const ptrdiff_t vecs = fl_up(x.steps * width, 64 / elem), pad = (vecs - x.steps * width) * elem;
        if (group > 1) {
            const int more = at + chunk < len;
            const fl_strip y = {more ? panel0 : panel0 + group, more ? x.k + chunk : s * p->kc, chunk};
            strips_ahead(p, o, y, FL_MIN(group, o->panels - y.panel), n_in);
        }
        for (; x.panel < panel0 + panels; x.panel++) {
            char *to = dst + (x.panel * stride + at * width) * elem;
            if (!o->program) {
                pack_strip(p, o, x, 0, to);
                memset(to + x.steps * width * elem, 0, (size_t)pad);
                continue;
            }
            for (int q = 0; q < n_in; q++) {
                char *in = scratch + q * sstride * elem;
                pack_strip(p, o, x, q, in);
                memset(in + x.steps * width * elem, 0, (size_t)pad);
            }
            const falcon_combine_fn combine = o->program->generated ? o->program->generated : kern->interpret;
            combine(scratch, sstride, to, o->panels * stride, vecs, p->stream_pack, o->program, temps);
        }
    }
}
