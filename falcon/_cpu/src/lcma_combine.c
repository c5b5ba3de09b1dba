/* lcma_combine.c - Group Combine: source blocks straight into packed panels.
 *
 * One unit of work is one micro-panel strip (MR or NR lines) of one K slice, of
 * all blocks at once.  Chunk by chunk the source strips are packed into an
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

ptrdiff_t fl_combine_units(const fl_pass *p, const fl_operand *o) {
    return o->mode == FALCON_PACKED && o->src ? o->panels * p->slices : 0;
}

void fl_combine_unit(const fl_pass *p, const fl_operand *o, ptrdiff_t unit, char *scratch) {
    const falcon_kernel *kern = p->kern;
    const ptrdiff_t elem = kern->elem, width = o->width;
    /* neighbouring units read neighbouring memory: next slice of the same lines
     * where K is contiguous, else the next lines of the same slice */
    const int k_fast = o->k_stride == 1;
    const ptrdiff_t s = k_fast ? unit % p->slices : unit / o->panels;
    const ptrdiff_t panel = k_fast ? unit / p->slices : unit % o->panels;
    const ptrdiff_t len = fl_slice_len(p, s), stride = fl_panel_stride(kern, width, len);
    const int R = p->scheme->R;
    char *dst = o->packed + (s * R * o->panels * fl_panel_stride(kern, width, p->kc) + panel * stride) * elem;
    const ptrdiff_t line0 = panel * width, k0 = s * p->kc;
    const ptrdiff_t block_lines_left = FL_MIN(width, o->block_lines - line0);
    const ptrdiff_t pad = (stride - len * width) * elem;

    if (!o->program) {
        const ptrdiff_t vi = FL_MIN(block_lines_left, o->lines - line0);
        o->pack(o->src + (line0 * o->line_stride + k0 * o->k_stride) * elem, o->line_stride, o->k_stride, vi,
                FL_MIN(len, o->K - k0), dst, len);
        memset(dst + len * width * elem, 0, (size_t)pad);
        return;
    }
    const int n_in = o->n_line_blocks * o->n_k_blocks;
    const ptrdiff_t chunk = fl_chunk(kern, (int)width, n_in), sstride = scratch_stride(kern, (int)width, chunk);
    char *temps = scratch + n_in * sstride * elem;
    const falcon_combine_fn combine = o->program->generated ? o->program->generated : kern->interpret;
    for (ptrdiff_t at = 0; at < len; at += chunk) {
        const ptrdiff_t steps = FL_MIN(chunk, len - at), vecs = fl_up(steps * width, 64 / elem);
        for (int q = 0; q < n_in; q++) {
            const int f = o->k_major ? q % o->n_line_blocks : q / o->n_k_blocks;
            const int l = o->k_major ? q / o->n_line_blocks : q % o->n_k_blocks;
            const ptrdiff_t line = f * o->block_lines + line0, k = l * o->block_k + k0 + at;
            char *to = scratch + q * sstride * elem;
            const ptrdiff_t vi = FL_MIN(block_lines_left, o->lines - line), vp = FL_MIN(steps, o->K - k);
            const char *from = vi > 0 && vp > 0 ? o->src + (line * o->line_stride + k * o->k_stride) * elem : NULL;
            o->pack(from, o->line_stride, o->k_stride, vi, vp, to, steps);
            memset(to + steps * width * elem, 0, (size_t)((vecs - steps * width) * elem));
        }
        combine(scratch, sstride, dst + at * width * elem, o->panels * stride, vecs, p->stream_pack, o->program, temps);
    }
}
