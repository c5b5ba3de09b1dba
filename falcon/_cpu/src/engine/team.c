/* team.c - who works on a call: the one file that starts, joins and waits for threads, and knows of fork(). */
#include "team.h"
#include "../falcon_cpu.h"
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* libgomp's pool does not survive fork(): a child that enters a parallel
 * region waits for ever.  The flag is set once, in the child. */
static atomic_int forked;
static void on_fork_child(void) {
    atomic_store(&forked, 1);
}
__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, on_fork_child);
}
int falcon_in_forked_child(void) {
    return atomic_load(&forked);
}

int fl_team_size(double worth, int threads) {
    return falcon_in_forked_child() || worth < 2 || threads < 2 ? 1 : worth < threads ? (int)worth : threads;
}

/* `next` tells the open stage and its first unclaimed unit in one word, so that a claim (compare and exchange) fails
 * where the stage has changed meanwhile.  While a stage is being opened its first unit is CLOSED. */
typedef struct {
    const fl_stages *stages;
    void *job;
    _Atomic uint64_t next;
    _Atomic ptrdiff_t units, grab, done;
    atomic_int seats, left;
} fl_board;

enum { UNIT_BITS = 40 };
#define UNIT_MASK (((uint64_t)1 << UNIT_BITS) - 1)
#define CLOSED UNIT_MASK
#define OVER UINT64_MAX

/* Opens the stage after `stage`; only one thread may be in here. */
static void open_stage(fl_board *b, uint64_t stage) {
    const uint64_t tag = (stage + 1) << UNIT_BITS;
    ptrdiff_t grab = 1;
    atomic_store(&b->next, tag | CLOSED);
    const ptrdiff_t units = b->stages->open(b->job, &grab);
    atomic_store(&b->done, 0);
    atomic_store(&b->units, units);
    atomic_store(&b->grab, grab);
    atomic_store(&b->next, units > 0 ? tag : OVER);
}

/* Some microseconds of spinning, then the CPU is left to others: a thread that the kernel woke on the very CPU where
 * another one waits would otherwise not run until its time slice came. */
static void wait_a_little(int *spins) {
    enum { SPINS = 2000 };
    if (*spins < SPINS)
        ++*spins;
    else
        sched_yield();
}

/* One member: claims and does units until all stages are over. Returns whether it did any. */
static int member(fl_board *b) {
    int seat = -1, spins = 0;
    for (;;) {
        uint64_t next = atomic_load(&b->next);
        if (next == OVER)
            return seat >= 0;
        const ptrdiff_t units = atomic_load(&b->units), grab = atomic_load(&b->grab);
        const ptrdiff_t first = (ptrdiff_t)(next & UNIT_MASK);
        if (first >= units) { /* or CLOSED */
            wait_a_little(&spins);
            continue;
        }
        const ptrdiff_t some = grab < units - first ? grab : units - first;
        if (!atomic_compare_exchange_strong(&b->next, &next, next + (uint64_t)some))
            continue;
        if (seat < 0)
            seat = atomic_fetch_add(&b->seats, 1);
        b->stages->units(b->job, seat, first, first + some);
        if (atomic_fetch_add(&b->done, some) + some == units)
            open_stage(b, next >> UNIT_BITS);
        spins = 0;
    }
}

int fl_team_run(const fl_stages *stages, void *job, int threads) {
    fl_board b = {.stages = stages, .job = job};
    open_stage(&b, 0);
    if (threads < 2) {
        member(&b);
        return atomic_load(&b.seats);
    }
#pragma omp parallel num_threads(threads)
    {
        member(&b);
        /* libgomp's own barrier spins for milliseconds: it shall find everybody there */
        const int all = omp_get_num_threads();
        atomic_fetch_add(&b.left, 1);
        for (int spins = 0; atomic_load(&b.left) < all;)
            wait_a_little(&spins);
    }
    return atomic_load(&b.seats);
}
