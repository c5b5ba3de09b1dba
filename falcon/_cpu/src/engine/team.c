/* team.c - the only file that starts, places and wakes threads, and that handles fork().
 *
 * falcon's own team (Linux): a helper thread for every CPU that a caller may use, pinned to it, so that a helper that
 * is woken never lands on the caller's own CPU; the caller and its affinity are never touched.  A call fills a board,
 * invites the helpers of other CPUs and starts to work; helpers that come before the job is over join it.  Idle helpers
 * spin for a short while, because the next call often comes soon, and then sleep.
 *
 * OpenMP's team (elsewhere, or on request): the same boards in a parallel region, which ends when all of its threads
 * have arrived; after a pause libgomp's threads may take milliseconds to do so (docs/cpu.md).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../falcon_cpu.h"
#include "board.h"
#include <omp.h>
#include <pthread.h>
#include <string.h>

#if defined(__linux__) && !defined(FALCON_OPENMP_ONLY)
#define OWN_TEAM
#endif

/* libgomp's pool does not survive fork(): a child that enters a parallel region waits for ever. */
static atomic_int forked;

int falcon_in_forked_child(void) {
    return atomic_load(&forked) && falcon_threading(-1) == FALCON_OPENMP;
}

int fl_team_size(double worth, int threads) {
    return falcon_in_forked_child() || worth < 2 || threads < 2 ? 1 : worth < threads ? (int)worth : threads;
}

static void run_alone(const fl_stages *stages, void *job) {
    fl_board board = {0};
    fl_board_work(&board, fl_board_begin(&board, stages, job, 1), 0);
}

static void run_openmp(const fl_stages *stages, void *job, int threads) {
    fl_board board = {0};
    atomic_int left = 0;
    const uint64_t first = fl_board_begin(&board, stages, job, threads);
#pragma omp parallel num_threads(threads)
    {
        uint64_t joined = first;
        const int seat = omp_get_thread_num() ? fl_board_join(&board, &joined) : 0;
        if (seat >= 0)
            fl_board_work(&board, joined, seat);
        /* wait here until all threads are done: libgomp's own barrier spins for milliseconds */
        const int all = omp_get_num_threads();
        atomic_fetch_add(&left, 1);
        for (int spins = 0; atomic_load(&left) < all;)
            fl_wait(&spins);
    }
}

#ifdef OWN_TEAM
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Calls that can use helpers at the same time; further ones run on their caller's thread alone. */
enum { BOARDS = 32, MOST_CPUS = CPU_SETSIZE, STACK = 1 << 20 };
/* How long an idle helper spins: longer than the Python code between two calls takes, too short to disturb others. */
static const double idle_seconds = 100e-6;

static struct {
    fl_board board;
    atomic_int taken;
} boards[BOARDS];

typedef struct {
    _Atomic uint32_t invited; /* a bit for each board; also its futex */
    atomic_int asleep, started;
    int cpu;
} fl_helper;
static fl_helper helpers[MOST_CPUS];
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;

static void serve(uint32_t invited) {
    for (int i = 0; i < BOARDS; i++) {
        uint64_t job;
        const int seat = invited >> i & 1 ? fl_board_join(&boards[i].board, &job) : -1;
        if (seat >= 0)
            fl_board_work(&boards[i].board, job, seat);
    }
}

static void *help(void *helper) {
    fl_helper *h = helper;
    double idle_since = fl_now();
    for (unsigned turn = 0;; turn++) {
        const uint32_t invited = atomic_exchange(&h->invited, 0);
        if (invited) {
            serve(invited);
            idle_since = fl_now();
            continue;
        }
        int spins = 0;
        fl_wait(&spins);
        if (turn % 16 || fl_now() - idle_since < idle_seconds)
            continue;
        atomic_store(&h->asleep, 1);
        syscall(SYS_futex, &h->invited, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0); /* returns if invited meanwhile */
        atomic_store(&h->asleep, 0);
        idle_since = fl_now();
    }
    return NULL;
}

/* Starts the helper of a CPU with all signals blocked; 0 where the system allows no more threads. */
static int start(fl_helper *h, int cpu) {
    pthread_mutex_lock(&starting);
    if (!atomic_load(&h->started)) {
        pthread_t thread;
        pthread_attr_t attributes;
        cpu_set_t only;
        sigset_t all, before;
        CPU_ZERO(&only);
        CPU_SET(cpu, &only);
        sigfillset(&all);
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attributes, STACK);
        pthread_attr_setaffinity_np(&attributes, sizeof only, &only);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        if (!pthread_create(&thread, &attributes, help, h)) {
            pthread_setname_np(thread, "falcon");
            atomic_store(&h->started, 1);
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
    }
    pthread_mutex_unlock(&starting);
    return atomic_load(&h->started);
}

static void invite(fl_helper *h, int board) {
    if (!atomic_fetch_or(&h->invited, (uint32_t)1 << board) && atomic_load(&h->asleep))
        syscall(SYS_futex, &h->invited, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Invites up to `wanted` helpers of the CPUs that the caller may use, its own last. */
static void invite_some(int board, int wanted) {
    cpu_set_t usable;
    const int here = sched_getcpu();
    if (here < 0 || sched_getaffinity(0, sizeof usable, &usable))
        return;
    for (int step = 1; step <= MOST_CPUS && wanted; step++) {
        const int cpu = (here + step) % MOST_CPUS;
        if (CPU_ISSET(cpu, &usable) && (atomic_load(&helpers[cpu].started) || start(helpers + cpu, cpu)))
            invite(helpers + cpu, board), wanted--;
    }
}

static void run_own(const fl_stages *stages, void *job, int threads) {
    int i = 0, free_one = 0;
    while (i < BOARDS && !atomic_compare_exchange_strong(&boards[i].taken, &free_one, 1))
        i++, free_one = 0;
    if (i == BOARDS) {
        run_alone(stages, job);
        return;
    }
    const uint64_t number = fl_board_begin(&boards[i].board, stages, job, threads);
    invite_some(i, threads - 1);
    fl_board_work(&boards[i].board, number, 0);
    atomic_store(&boards[i].taken, 0);
}

/* A child has none of its parent's threads: it starts its own, when it needs them. */
static void forget_helpers(void) {
    memset(boards, 0, sizeof boards);
    memset(helpers, 0, sizeof helpers);
    pthread_mutex_init(&starting, NULL);
}
static atomic_int threading = FALCON_OWN_TEAM;
#else
static void run_own(const fl_stages *stages, void *job, int threads) {
    run_openmp(stages, job, threads);
}
static void forget_helpers(void) {}
static atomic_int threading = FALCON_OPENMP;
#endif

static void on_fork_child(void) {
    atomic_store(&forked, 1);
    forget_helpers();
}
__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, on_fork_child);
}

int falcon_threading(int wanted) {
#ifdef OWN_TEAM
    if (wanted == FALCON_OWN_TEAM || wanted == FALCON_OPENMP)
        atomic_store(&threading, wanted);
#else
    (void)wanted;
#endif
    return atomic_load(&threading);
}

void fl_team_run(const fl_stages *stages, void *job, int threads) {
    if (threads < 2)
        run_alone(stages, job);
    else if (falcon_threading(-1) == FALCON_OPENMP)
        run_openmp(stages, job, threads);
    else
        run_own(stages, job, threads);
}
