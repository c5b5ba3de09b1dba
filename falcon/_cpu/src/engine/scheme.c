/* scheme.c - the classical algorithm as a scheme, the check of all others, and which programs there is code for. */
#include "engine.h"
#include "falcon_codes.h"

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
    if (p->n_in != n_in || p->n_out != n_out || p->n_temp < 0 || p->n_ops < 0)
        return "a program's numbers of inputs and outputs must be the scheme's";
    const int regs = p->n_in + p->n_temp;
    for (const falcon_op *o = p->ops, *end = o + p->n_ops; o < end; o++) {
        const int two = o->op == FALCON_OP_ADD || o->op == FALCON_OP_SUB, is_store = o->op == FALCON_OP_STORE;
        if (o->op < 0 || o->op >= FALCON_N_OPCODE)
            return "unknown operation code";
        if (o->a < FALCON_ACC || o->a >= regs || (two && (o->b < FALCON_ACC || o->b >= regs)))
            return "a program reads a register that does not exist";
        if (is_store && (o->dst < 0 || o->dst >= n_out))
            return "a program stores to an output that does not exist";
        if (!is_store && o->dst != FALCON_ACC && (o->dst < n_in || o->dst >= regs))
            return "a program writes to a register that is not a temporary";
    }
    return NULL;
}

const char *falcon_scheme_check(const falcon_scheme *s) {
    const int blocks = fl_blocks_of_c(s);
    if (s->n_slots < blocks)
        return "there must be a slot for every block of C";
    for (const falcon_step *w = s->w, *end = w + s->w_start[s->R]; w < end; w++) {
        if (w->slot < 0 || w->slot >= s->n_slots)
            return "a step names a slot that does not exist";
        if (w->source != FALCON_PRODUCT && (w->source < blocks || w->source >= s->n_slots))
            return "a step reads a sum that does not exist";
    }
    const char *why = check_program(&s->u, s->parts * s->m * s->k, s->R);
    return why ? why : check_program(&s->v, s->parts * s->k * s->n, s->R);
}

/* Whether two programs do the same. */
static int are_equal(const falcon_program *x, const falcon_program *y) {
    if (x->n_in != y->n_in || x->n_out != y->n_out || x->n_temp != y->n_temp || x->n_ops != y->n_ops)
        return 0;
    for (int i = 0; i < x->n_ops; i++) {
        const falcon_op *o = &x->ops[i], *p = &y->ops[i];
        if (o->op != p->op || o->dst != p->dst || o->a != p->a || o->b != p->b || o->coef != p->coef)
            return 0;
    }
    return 1;
}

int falcon_code_of(const falcon_program *program) {
    for (size_t n = 0; n < sizeof coded / sizeof *coded; n++)
        if (are_equal(program, &coded[n]))
            return coded[n].code;
    return 0;
}
