/* batch.c - many products of one shape.
 *
 * Those that fit into the caches, and small ones, are claimed by the team; larger ones are multiplied one after the
 * other by all threads.  Which it is does not depend on the number of threads, so that results do not either.
 */
#include "engine.h"
#include "team.h"

/* Multiply-adds of the batch that pay for a further thread. */
static const double macs_per_thread = 5e5;

typedef struct {
    const falcon_kernel *kern;
    const falcon_problem *prob;
    const falcon_batch *batch;
    ptrdiff_t first;
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

static void do_matrices(void *job, ptrdiff_t first, ptrdiff_t end) {
    const fl_batch_job *j = job;
    fl_place x = fl_nth(j->batch, j->first + first);
    for (; first < end; first++, fl_advance(j->batch, &x)) {
        const falcon_problem p = problem_at(j->prob, &x);
        falcon_gemm_small(j->kern, &p, 1);
    }
    j->kern->fence();
}

void falcon_gemm_batch(const falcon_kernel *kern, const falcon_problem *prob, const falcon_batch *batch,
                       ptrdiff_t first, ptrdiff_t count, int threads, const falcon_blocking *blk, void *workspace) {
    const int is_gemv = fl_is_gemv(NULL, prob), swap = !is_gemv && fl_wants_transpose(prob);
    const falcon_problem q = swap ? fl_transposed_problem(prob) : *prob;
    const double macs = (double)q.M * (double)q.N * (double)q.K + 500; /* with what a matrix costs besides */
    const int team = fl_team_size((double)count * macs / macs_per_thread, threads);
    if (!is_gemv && q.alpha.real != 0 && fl_is_direct(swap ? kern->transposed : kern, &q)) {
        falcon_batch steps = *batch;
        if (swap)
            steps.step[0] = batch->step[1], steps.step[1] = batch->step[0];
        fl_direct_batch(swap ? kern->transposed : kern, &q, &steps, first, count, team, 0);
    } else if (falcon_is_small(kern, prob)) {
        fl_batch_job j = {kern, prob, batch, first};
        fl_team_each(do_matrices, &j, count, fl_claims_of(prob, count, team, 1).grab, team);
    } else {
        fl_place x = fl_nth(batch, first);
        for (; count > 0; count--, fl_advance(batch, &x)) {
            const falcon_problem p = problem_at(prob, &x);
            falcon_gemm(kern, NULL, &p, threads, blk, workspace, NULL);
        }
    }
}
