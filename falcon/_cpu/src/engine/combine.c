/* combine.c - Group Combine: source blocks straight into packed panels.
 *
 * One unit of work is one micro-panel strip (MR or NR lines) of one K slice, or
 * a few neighbouring ones (fl_group), of all blocks at once.  Chunk by chunk the
 * source strips are packed into an L1-sized scratch, where every later step sees
 * contiguous vectors, and one call of the combination program writes the strip
 * of all R outputs.  So each
 * source element is read once and each output written once.  Classical
 * packing is the case of one block and no program.
 */
#include "engine.h"
#include <string.h>

/* Where lines are neighbours in memory, a strip is one short piece of every step's row, and rows are far apart: so
 * up to GROUP strips are packed together, GROUP_STEPS steps at a time, while the next steps are prefetched.  Fewer
 * where threads would be left without work. */
enum { GROUP = 4, GROUP_STEPS = 64 };

ptrdiff_t fl_group(const fl_operand *o, ptrdiff_t slices, int threads) {
    return o->line_stride == 1 ? FL_MAX(1, FL_MIN(GROUP, o->panels * slices / (4 * threads))) : 1;
}

ptrdiff_t fl_combine_units(const fl_pass *p, const fl_operand *o) {
    return o->mode == FALCON_PACKED && o->src ? fl_div_up(o->panels, o->group) * p->slices : 0;
}

/* A chunk of the strips of one panel, in all blocks: whole groups of steps. */
typedef struct {
    ptrdiff_t panel, k, steps; /* k: first step, in its block */
} fl_strip;

/* Input q of the operand's program: its line block and its K block. */
static void block_of(const fl_operand *o, int q, ptrdiff_t *line, ptrdiff_t *k) {
    q /= o->parts;
    *line = (o->k_major ? q % o->n_line_blocks : q / o->n_k_blocks) * o->block_lines;
    *k = (o->k_major ? q / o->n_line_blocks : q % o->n_k_blocks) * o->block_k;
}

/* Where the strip of input q is in the matrix, and how much of it; block: its K block. */
typedef struct {
    ptrdiff_t line, k, lines, steps, block;
    int is_empty;
} fl_span;

static fl_span span_of(const fl_operand *o, fl_strip x, int q) {
    fl_span s;
    block_of(o, q, &s.line, &s.k);
    s.block = s.k / o->block_k;
    s.line += x.panel * o->width, s.k += x.k;
    s.lines = FL_MIN(FL_MIN(o->width, o->block_lines - x.panel * o->width), o->lines - s.line);
    s.steps = FL_MIN(FL_MIN(x.steps, o->block_k - x.k), o->K - s.k);
    s.is_empty = s.lines <= 0 || s.steps <= 0;
    return s;
}

/* Pack the strip of input q, zeros beyond the matrix; the imaginary parts are input q + 1, to im. */
static void pack_strip(const fl_pass *p, const fl_operand *o, fl_strip x, int q, char *to, char *im) {
    const fl_span s = span_of(o, x, q);
    const char *from = s.is_empty ? NULL : o->src + (s.line * o->line_stride + s.k * o->k_stride) * o->elem;
    if (o->parts == 2)
        o->load_parts(from, o->line_stride, o->k_stride, s.lines, s.steps, to, im, x.steps, o->conj);
    else if (o->program)
        o->load(from, o->line_stride, o->k_stride, s.lines, s.steps, to, x.steps);
    else
        fl_pack(p->kern, o, from, s.lines, s.steps, s.k, to, x.steps);
}

/* Multiply the steps of a strip of input q by their units. */
static void units_strip(const fl_pass *p, const fl_operand *o, fl_strip x, int q, char *strip) {
    const fl_span s = span_of(o, x, q);
    if (!s.is_empty)
        o->times_units(strip, s.steps, o->units + s.k * p->kern->acc);
}

/* Subtract means from a strip of input q, and scale its lines. */
static void level_strip(const fl_pass *p, const fl_operand *o, fl_strip x, int q, char *strip) {
    const fl_span s = span_of(o, x, q);
    const ptrdiff_t together = fl_segment_slices(p->kc);
    const ptrdiff_t segment = s.block * fl_div_up(p->slices, together) + x.k / p->kc / together;
    const ptrdiff_t at = segment * o->means_step + q % o->parts * o->means_lines + s.line;
    if (!s.is_empty)
        o->level(strip, s.steps, o->means ? o->means + at * p->kern->acc : NULL, o->scale ? o->scale + s.line : NULL,
                 s.lines);
}

/* Add up the lines of a strip of input q, whose steps are `step` elements apart, from the first of a slice on. */
static void sum_strip(const fl_pass *p, const fl_operand *o, fl_strip x, int q, const char *strip, ptrdiff_t step) {
    const fl_span s = span_of(o, x, q);
    double *squares = o->sums + (s.block * p->slices + x.k / p->kc) * o->lines + s.line;
    double *totals = squares + o->n_k_blocks * p->slices * o->lines;
    for (ptrdiff_t i = 0; x.k % p->kc == 0 && i < s.lines; i++)
        squares[i] = totals[i] = 0;
    if (!s.is_empty)
        o->add_up(strip, step, s.steps, squares, totals, s.lines);
}

/* Prefetch the source lines of `panels` neighbouring strips (line_stride 1). */
static void strips_ahead(const fl_operand *o, fl_strip x, ptrdiff_t panels) {
    const ptrdiff_t elem = o->elem;
    for (int q = 0; q < fl_inputs(o); q += o->parts) {
        ptrdiff_t line, k;
        block_of(o, q, &line, &k);
        line += x.panel * o->width, k += x.k;
        const ptrdiff_t bytes = FL_MIN(panels * o->width, o->lines - line) * elem, steps = FL_MIN(x.steps, o->K - k);
        for (ptrdiff_t i = 0; i < steps; i++)
            for (ptrdiff_t at = 0; at < bytes; at += 64)
                __builtin_prefetch(o->src + (line + (k + i) * o->k_stride) * elem + at, 0, 2);
    }
}

/* Form strip x of all outputs, the first at `to`. */
static void combine_strip(const fl_pass *p, const fl_operand *o, fl_strip x, ptrdiff_t out_stride, char *to,
                          char *scratch) {
    const falcon_kernel *kern = p->kern;
    const int n_in = (int)fl_inputs(o);
    const ptrdiff_t elems = x.steps * o->width, line = FL_LINE / FL_MIN(kern->sum, kern->panel);
    const ptrdiff_t vecs = fl_up(elems, line);
    if (!o->program) {
        pack_strip(p, o, x, 0, to, NULL);
        memset(to + elems * kern->panel, 0, (size_t)((vecs - elems) * kern->panel));
        return;
    }
    const ptrdiff_t stride = fl_scratch_stride(kern, o->width, fl_chunk(kern, o->width, n_in));
    for (int q = 0; q < n_in; q++) {
        char *in = scratch + q * stride * kern->sum;
        if (q % o->parts == 0)
            pack_strip(p, o, x, q, in, in + stride * kern->sum);
        memset(in + elems * kern->sum, 0, (size_t)((vecs - elems) * kern->sum));
        if (o->units)
            units_strip(p, o, x, q, in);
        if (o->sums)
            sum_strip(p, o, x, q, in, o->width);
    }
    /* not in the same loop: arithmetic would leave the processor fewer loads to overlap */
    for (int q = 0; (o->scale || o->means) && q < n_in; q++)
        level_strip(p, o, x, q, scratch + q * stride * kern->sum);
    if (!o->code) {
        o->interpret(scratch, stride, to, out_stride / kern->panel, vecs, p->stream_pack, o->program,
                     scratch + n_in * stride * kern->sum);
        return;
    }
    const char *src[n_in];
    for (int q = 0; q < n_in; q++)
        src[q] = scratch + q * stride * kern->sum;
    const falcon_rows rows = {.src = src,
                              .dst = to,
                              .steps = vecs * kern->panel / FL_LINE,
                              .panels = 1,
                              .bytes = FL_LINE,
                              .src_step = FL_LINE,
                              .dst_stride = out_stride,
                              .outputs = o->program->n_out,
                              .stream = p->stream_pack};
    o->code(&rows);
}

/* Form a chunk of `panels` strips by the program's code, which reads rows where they are, while those of chunk `next`
 * are prefetched; 0 if a strip has an edge. */
static int combine_rows(const fl_pass *p, const fl_operand *o, fl_strip x, ptrdiff_t panels, fl_strip next,
                        falcon_rows rows) {
    const int n_in = (int)fl_inputs(o);
    const char *src[n_in], *ahead[n_in];
    int is_last = 0;
    const fl_strip last = {x.panel + panels - 1, x.k, x.steps};
    for (int q = 0; q < n_in; q++) {
        const fl_span at = span_of(o, x, q), end = span_of(o, last, q), then = span_of(o, next, q);
        if (end.lines < o->width || end.steps < x.steps)
            return 0;
        src[q] = o->src + (at.line + at.k * o->k_stride) * o->elem;
        ahead[q] = o->src + (then.line + then.k * o->k_stride) * o->elem;
        is_last |= then.is_empty;
    }
    for (int q = 0; o->sums && q < n_in; q++)
        for (ptrdiff_t i = 0; i < panels; i++)
            sum_strip(p, o, (fl_strip){x.panel + i, x.k, x.steps}, q, src[q] + i * rows.bytes, o->k_stride);
    rows.src = src, rows.ahead = is_last ? NULL : ahead;
    rows.src_step = o->k_stride * o->elem, rows.steps = x.steps, rows.panels = panels, rows.stream = p->stream_pack,
    rows.outputs = o->program->n_out;
    o->code(&rows);
    return 1;
}

void fl_combine_unit(const fl_pass *p, const fl_operand *o, ptrdiff_t unit, char *scratch) {
    const falcon_kernel *kern = p->kern;
    const ptrdiff_t width = o->width;
    /* neighbouring units read neighbouring memory: next slice of the same lines
     * where K is contiguous, else the next lines of the same slice */
    const ptrdiff_t group = o->group, groups = fl_div_up(o->panels, group);
    const int k_fast = o->k_stride == 1 && group == 1;
    const ptrdiff_t s = k_fast ? unit % p->slices : unit / groups;
    const ptrdiff_t panel0 = (k_fast ? unit / p->slices : unit % groups) * group;
    const ptrdiff_t panels = FL_MIN(group, o->panels - panel0);
    const ptrdiff_t len = fl_slice_len(p, s), stride = fl_panel_bytes(kern, width, len);
    char *dst = o->packed + s * p->scheme->R * o->panels * fl_panel_bytes(kern, width, p->kc);

    const int n_in = (int)fl_inputs(o);
    const ptrdiff_t most = fl_chunk(kern, (int)width, n_in);
    const ptrdiff_t chunk = group > 1 ? FL_MIN(fl_up(GROUP_STEPS, kern->k_grain), most) : most;
    for (ptrdiff_t at = 0; at < len; at += chunk) {
        fl_strip x = {panel0, s * p->kc + at, FL_MIN(chunk, len - at)};
        if (group > 1) {
            const int more = at + chunk < len;
            const fl_strip y = {more ? panel0 : panel0 + group, more ? x.k + chunk : s * p->kc, chunk};
            const falcon_rows rows = {.dst = dst + panel0 * stride + at * width * kern->panel,
                                      .bytes = width * kern->panel,
                                      .dst_stride = o->panels * stride,
                                      .dst_panel = stride};
            if (o->by_rows && combine_rows(p, o, x, panels, y, rows))
                continue;
            strips_ahead(o, y, FL_MIN(group, o->panels - y.panel));
        }
        for (; x.panel < panel0 + panels; x.panel++)
            combine_strip(p, o, x, o->panels * stride, dst + x.panel * stride + at * width * kern->panel, scratch);
    }
}
