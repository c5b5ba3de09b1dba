/* batch.c - many products of one shape.
 *
 * The team claims runs of matrices, each of which is multiplied by one thread; where there are too few of them, also by
 * parts, runs of strips of rows.  Matrices that are too large for that are multiplied one after the other by all
 * threads.  A result is the same whatever the number of threads.
 */
#include "engine.h"
#include "team.h"

/* Multiply-adds of a claim, about 10 microseconds of work; and those that pay for a further thread. */
static const double macs_per_claim = 5e5, macs_per_thread = 5e5;
/* What a matrix costs besides, in multiply-adds. */
enum { OVERHEAD = 500, CLAIMS_PER_THREAD = 8 };

/* Where a matrix of the batch is. */
typedef struct {
    ptrdiff_t at[FALCON_BATCH_AXES], offset[3];
} fl_place;

static fl_place nth(const falcon_batch *b, ptrdiff_t n) {
    fl_place x = {.offset = {0}};
    for (int axis = b->axes - 1; axis >= 0; axis--) {
        x.at[axis] = n % b->extent[axis];
        n /= b->extent[axis];
        for (int i = 0; i < 3; i++)
            x.offset[i] += x.at[axis] * b->step[i][axis];
    }
    return x;
}

static void advance(const falcon_batch *b, fl_place *x) {
    for (int axis = b->axes - 1; axis >= 0; axis--) {
        x->at[axis]++;
        for (int i = 0; i < 3; i++)
            x->offset[i] += b->step[i][axis];
        if (x->at[axis] < b->extent[axis])
            return;
        for (int i = 0; i < 3; i++)
            x->offset[i] -= b->extent[axis] * b->step[i][axis];
        x->at[axis] = 0;
    }
}

typedef struct {
    const falcon_kernel *kern;
    const falcon_problem *prob;
    const falcon_batch *batch;
    ptrdiff_t first, count, parts, grab;
    int team, is_direct, opened;
    fl_direct direct;
} fl_batch_job;

/* The problem of a matrix: C's mirror lies as C does. */
static falcon_problem problem_at(const falcon_problem *first, const fl_place *x) {
    falcon_problem p = *first;
    p.a = (const char *)p.a + x->offset[0];
    p.b = (const char *)p.b + x->offset[1];
    p.c = (char *)p.c + x->offset[2];
    if (p.mirror)
        p.mirror = (char *)p.mirror + x->offset[2];
    return p;
}

static ptrdiff_t open_batch(void *job, ptrdiff_t *grab) {
    fl_batch_job *j = job;
    *grab = j->grab;
    return j->opened++ ? 0 : j->count * j->parts;
}

static fl_matrices matrices_at(const falcon_problem *p, const fl_place *x) {
    return (fl_matrices){(const char *)p->a + x->offset[0], (const char *)p->b + x->offset[1],
                         (char *)p->c + x->offset[2]};
}

/* The matrix after the last one of a claim that its thread is likely to do: other threads claim as many meanwhile. */
static fl_matrices likely(const fl_batch_job *j, ptrdiff_t end) {
    const ptrdiff_t unit = end + (j->team - 1) * j->grab;
    const fl_place x = nth(j->batch, j->first + FL_MIN(unit / j->parts, j->count - 1));
    return matrices_at(j->prob, &x);
}

static void multiply(fl_batch_job *j, ptrdiff_t first, ptrdiff_t end) {
    const char *packed = NULL;
    fl_place x = nth(j->batch, j->first + first / j->parts);
    fl_matrices at = matrices_at(j->prob, &x), next = at;
    const ptrdiff_t strips = j->direct.strips;
    for (ptrdiff_t u = first, part = first % j->parts; u < end; u++) {
        const ptrdiff_t begin = part * strips / j->parts;
        if (++part == j->parts)
            advance(j->batch, &x), part = 0;
        next = u + 1 < end ? matrices_at(j->prob, &x) : likely(j, end);
        fl_direct_strips(&j->direct, at, &next, begin, part ? part * strips / j->parts : strips, &packed);
        at = next;
    }
}

static void do_matrices(void *job, int seat, ptrdiff_t first, ptrdiff_t end) {
    (void)seat;
    fl_batch_job *j = job;
    if (j->is_direct) {
        multiply(j, first, end);
    } else {
        fl_place x = nth(j->batch, j->first + first);
        for (; first < end; first++, advance(j->batch, &x)) {
            const falcon_problem p = problem_at(j->prob, &x);
            falcon_gemm_small(j->kern, &p);
        }
    }
    j->kern->fence();
}

void falcon_gemm_batch(const falcon_kernel *kern, const falcon_problem *prob, const falcon_batch *batch,
                       ptrdiff_t first, ptrdiff_t count, int threads, const falcon_blocking *blk, void *workspace) {
    static const fl_stages stages = {open_batch, do_matrices};
    const int swap = fl_wants_transpose(prob) && !fl_is_gemv(NULL, prob);
    const falcon_problem q = swap ? fl_transposed_problem(prob) : *prob;
    falcon_batch steps = *batch;
    fl_batch_job j = {.kern = swap ? kern->transposed : kern, .prob = &q, .batch = &steps, .first = first,
                      .count = count, .parts = 1};
    if (swap)
        steps.step[0] = batch->step[1], steps.step[1] = batch->step[0];
    j.is_direct = !fl_is_gemv(NULL, &q) && fl_is_direct(j.kern, &q);
    if (!j.is_direct && !falcon_is_small(prob)) {
        fl_place x = nth(batch, first);
        for (; count > 0; count--, advance(batch, &x)) {
            const falcon_problem p = problem_at(prob, &x);
            falcon_gemm(kern, NULL, &p, threads, blk, workspace, NULL);
        }
        return;
    }
    const double macs = (double)q.M * (double)q.N * (double)q.K + OVERHEAD;
    const int team = j.team = fl_team_size((double)count * macs / macs_per_thread, threads);
    if (j.is_direct) {
        j.direct = fl_direct_of(j.kern, &q, NULL);
        if (team > 1 && count < team * CLAIMS_PER_THREAD) /* the parts that pay for claims, of two strips at least */
            j.parts = FL_MAX(1, FL_MIN(FL_MIN(j.direct.strips / 2, (ptrdiff_t)(macs / macs_per_claim)),
                                       fl_div_up(team * CLAIMS_PER_THREAD, count)));
    }
    j.grab = (ptrdiff_t)FL_MAX(
        1, FL_MIN(macs_per_claim / macs * (double)j.parts, (double)(count * j.parts) / (team * CLAIMS_PER_THREAD)));
    fl_team_run(&stages, &j, team);
}
