/* batch_case.h - how a team shares a batch: 16 workers on any number of CPUs, whose units take equally long. */
#ifndef FALCON_TEST_BATCH_CASE_H
#define FALCON_TEST_BATCH_CASE_H
#include "engine/board.h"
#include "engine/engine.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORKERS = 16, CLAIM_MICROSECONDS = 30000 };
typedef struct {
    fl_claims claims;
    int opened;
    ptrdiff_t done[WORKERS];
} shared_batch;
static fl_board shared_board;

static ptrdiff_t shared_open(void *job, ptrdiff_t *grab) {
    shared_batch *j = job;
    *grab = j->claims.grab;
    return j->opened++ ? 0 : j->claims.units;
}

/* Sleeps instead of working, so that all workers advance at the same time on a machine with fewer CPUs. */
static void shared_units(void *job, int seat, ptrdiff_t first, ptrdiff_t end) {
    shared_batch *j = job;
    j->done[seat] += end - first;
    usleep((unsigned)((end - first) * CLAIM_MICROSECONDS / j->claims.grab));
}

static void *shared_worker(void *unused) {
    uint64_t job;
    const int seat = fl_board_join(&shared_board, &job);
    if (seat >= 0)
        fl_board_work(&shared_board, job, seat, NULL, 0);
    return unused;
}

/* Whether every worker did its share to within one claim. */
static int is_shared(ptrdiff_t size, ptrdiff_t count, ptrdiff_t b_cs) {
    static const fl_stages stages = {shared_open, shared_units};
    const falcon_problem q = {.M = size, .N = size, .K = size, .b_cs = b_cs};
    shared_batch j = {.claims = fl_claims_of(&q, count, WORKERS, 1 + size / 12)};
    pthread_t workers[WORKERS];
    ptrdiff_t all = 0;
    const uint64_t number = fl_board_begin(&shared_board, &stages, &j, WORKERS);
    for (int i = 1; i < WORKERS; i++)
        pthread_create(workers + i, NULL, shared_worker, NULL);
    fl_board_work(&shared_board, number, 0, NULL, 0);
    for (int i = 1; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    int shared = 1;
    for (int i = 0; i < WORKERS; all += j.done[i++])
        shared &= labs(j.done[i] * WORKERS - j.claims.units) <= j.claims.grab * WORKERS;
    return shared && all == j.claims.units;
}

/* Small and large matrices, and few that are cut into parts, of which each may pack B; tried again, because a machine
 * may be busy. */
static int batch_case(void) {
    static const ptrdiff_t cases[][3] = {{8, 20000, 1}, {64, 600, 1}, {200, 100, 1}, {256, 8, 1}, {256, 8, 2}};
    int failed = 0;
    for (int i = 0; i < 5; i++) {
        int tries = 10;
        while (tries && !is_shared(cases[i][0], cases[i][1], cases[i][2]))
            tries--;
        if (!tries)
            printf("FAIL batch: %td matrices of size %td were not shared evenly\n", cases[i][1], cases[i][0]);
        failed |= !tries;
    }
    return failed;
}

#endif
