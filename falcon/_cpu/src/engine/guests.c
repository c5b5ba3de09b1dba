/* guests.c - a call on the threads of an OpenMP that another library uses, torch's, while these spin.
 *
 * After a parallel region the threads of an OpenMP spin for milliseconds, on the CPUs that falcon's helpers need.  A
 * call that comes meanwhile runs in a region of that OpenMP, so that they work instead.  Once they sleep it does not:
 * the system may wake them on the CPU of the thread that waits for them.  A region belongs to the thread that begins
 * it, so each thread gets to know one of its own (falcon_meet), whose clock says whether it runs.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "guests.h"
#include "../falcon_cpu.h"
#include "board.h"
#include <pthread.h>

#if defined(__linux__)
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic(falcon_parallel) parallel;
static atomic_int forked; /* a child has none of its parent's threads, and an OpenMP may wait for them for ever */
/* Of the calling thread: the system's number of one of its threads, 0: none is known; and how many they are. */
static _Thread_local int guest, guests;

typedef struct {
    fl_board *board;
    uint64_t job;
    pthread_t caller;
    atomic_int guest, count;
} fl_region;

static void in_region(void *region) {
    fl_region *r = region;
    atomic_fetch_add(&r->count, 1);
    if (pthread_equal(pthread_self(), r->caller)) {
        if (r->board)
            fl_board_work(r->board, r->job, 0, NULL, 0);
        return;
    }
    atomic_store(&r->guest, (int)syscall(SYS_gettid));
    uint64_t job;
    const int seat = r->board ? fl_board_join(r->board, &job) : -1;
    if (seat >= 0) {
        fenv_t own;
        fegetenv(&own);
        fl_board_work(r->board, job, seat, NULL, 0);
        fesetenv(&own);
    }
}

static void run_region(falcon_parallel begin, fl_region *r) {
    r->caller = pthread_self();
    begin(in_region, r, 0, 0);
    guest = atomic_load(&r->guest), guests = atomic_load(&r->count);
}

/* Whether the one that is known runs on a CPU now: its clock goes on.  It may have ended: none is known then. */
static int spins(void) {
    const clockid_t clock = (clockid_t)(~(unsigned)guest << 3 | 6); /* as of pthread_getcpuclockid */
    struct timespec first, then;
    if (clock_gettime(clock, &first) || clock_gettime(clock, &then)) {
        guest = guests = 0;
        return 0;
    }
    return first.tv_nsec != then.tv_nsec || first.tv_sec != then.tv_sec;
}

int fl_guests_run(const fl_stages *stages, void *job, int threads) {
    const falcon_parallel begin = atomic_load(&parallel);
    if (!begin || !guest || threads > guests || 2 * threads <= guests || !spins())
        return 0;
    fl_board board = {0};
    fl_region r = {.board = &board};
    r.job = fl_board_begin(&board, stages, job, threads);
    run_region(begin, &r);
    return 1;
}

int falcon_meet(falcon_parallel begin) {
    guest = guests = 0;
    if (atomic_load(&forked))
        return 0;
    if (begin) {
        fl_region r = {0};
        atomic_store(&parallel, begin);
        run_region(begin, &r);
    }
    return guests;
}

int falcon_guests(void) {
    return guests;
}

static void forget(void) {
    atomic_store(&parallel, NULL);
    atomic_store(&forked, 1);
}
__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, forget);
}
#else
int fl_guests_run(const fl_stages *stages, void *job, int threads) {
    (void)stages, (void)job, (void)threads;
    return 0;
}
int falcon_meet(falcon_parallel begin) {
    (void)begin;
    return 0;
}
int falcon_guests(void) {
    return 0;
}
#endif
