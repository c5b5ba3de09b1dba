/* scheme.c - the classical algorithm as a scheme, and the soundness check of all others. */
#include "engine.h"
#include <string.h>

/* The scheme <1,1,1;1>.  Its programs are never run: packing is plain. */
static const int32_t one_start[] = {0, 1};
static const falcon_step one_step[] = {{0, FALCON_PRODUCT, FALCON_FIRST | FALCON_LAST, 1.0}};
const falcon_scheme fl_classical_scheme = {.m = 1,
                                           .k = 1,
                                           .n = 1,
                                           .R = 1,
                                           .n_slots = 1,
                                           .parts = 1,
                                           .u = {.n_in = 1, .n_out = 1},
                                           .v = {.n_in = 1, .n_out = 1},
                                           .w_start = one_start,
                                           .w = one_step};

static const char *check_program(const falcon_program *p, int n_in, int n_out) {
    if (p->n_in != n_in || p->n_out != n_out || p->n_temp < 0 || p->n_ops < 0 || !p->ops)
        return "a program's numbers of inputs and outputs must be the scheme's";
    const int regs = p->n_in + p->n_temp;
    ptrdiff_t stores = 0;
    for (int i = 0; i < p->n_ops; i++) {
        const falcon_op *o = p->ops + i;
        const int two = o->op == FALCON_OP_ADD || o->op == FALCON_OP_SUB;
        if (o->op < 0 || o->op >= FALCON_N_OPCODE)
            return "unknown operation code";
        if (o->a < FALCON_ACC || o->a >= regs || (two && (o->b < FALCON_ACC || o->b >= regs)))
            return "a program reads a register that does not exist";
        if (o->op == FALCON_OP_STORE) {
            stores++;
            if (o->dst < 0 || o->dst >= n_out)
                return "a program stores to an output that does not exist";
            for (int e = 0; e < i; e++)
                if (p->ops[e].op == FALCON_OP_STORE && p->ops[e].dst == o->dst)
                    return "a program stores an output twice";
        } else if (o->dst != FALCON_ACC && (o->dst < n_in || o->dst >= regs))
            return "a program writes to a register that is not a temporary";
    }
    return stores == n_out ? NULL : "a program does not store every output";
}

enum { BEGUN = 1, COMPLETE = 2 };

/* state[slot]: BEGUN, COMPLETE (a block of C), -1 - r (a sum that product r completed) or 0. */
static const char *check_step(const falcon_scheme *s, int r, const falcon_step *w, int32_t *state) {
    const int blocks = fl_blocks_of_c(s);
    if (w->slot < 0 || w->slot >= s->n_slots)
        return "a step names a slot that does not exist";
    if (w->source != FALCON_PRODUCT && (w->source < blocks || w->source >= s->n_slots || state[w->source] != -1 - r))
        return "a step reads a sum that its product has not completed";
    if (state[w->slot] == COMPLETE)
        return "a step adds to a block of C that is complete";
    if (!(w->flags & FALCON_FIRST) != (state[w->slot] == BEGUN))
        return "a slot must be begun, once, before it is added to";
    const int completes = w->flags & FALCON_LAST && w->slot < blocks;
    if (!(w->flags & FALCON_WAITS) != !(completes && s->parts == 2 && state[w->slot ^ 1] != COMPLETE))
        return "the first part of a block of C that is complete waits for the other one";
    state[w->slot] = !(w->flags & FALCON_LAST) ? BEGUN : w->slot < blocks ? COMPLETE : -1 - r;
    return NULL;
}

static const char *check_steps(const falcon_scheme *s, int32_t *state) {
    if (s->n_slots < fl_blocks_of_c(s))
        return "there must be a slot for every block of C";
    memset(state, 0, (size_t)s->n_slots * sizeof *state);
    if (s->w_start[0] != 0)
        return "w_start must begin with 0";
    for (int r = 0; r < s->R; r++) {
        if (s->w_start[r + 1] < s->w_start[r])
            return "w_start must not decrease";
        for (int e = s->w_start[r]; e < s->w_start[r + 1]; e++) {
            const char *why = check_step(s, r, s->w + e, state);
            if (why)
                return why;
        }
    }
    for (int c = 0; c < fl_blocks_of_c(s); c++)
        if (state[c] != COMPLETE)
            return "a block of C is not completed";
    return NULL;
}

const char *falcon_scheme_check(const falcon_scheme *s, int32_t *scratch) {
    if (s->m < 1 || s->k < 1 || s->n < 1 || s->R < 1 || s->parts < 1 || s->parts > 2)
        return "m, k, n and R must be positive, parts 1 or 2";
    const char *why = check_steps(s, scratch);
    why = why ? why : check_program(&s->u, s->parts * s->m * s->k, s->R);
    return why ? why : check_program(&s->v, s->parts * s->k * s->n, s->R);
}
