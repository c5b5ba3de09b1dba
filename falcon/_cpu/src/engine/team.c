/* team.c - the only file that starts, places and wakes threads, and that handles fork().
 *
 * falcon's own team: a helper thread for every CPU that a caller may use, on Linux pinned to it, so that a helper that
 * is woken never lands on the caller's own CPU; the caller and its affinity are never touched.  A call fills a board,
 * invites the helpers of other CPUs and starts to work; helpers that come before the job is over join it.  Idle helpers
 * spin for a short while, because the next call often comes soon, and then sleep.
 *
 * A gang is a set of jobs that run at the same time, because they wait for one another (lend.c: those of OpenBLAS). The
 * helpers that are called to it leave their board after the unit that they are at, so that nobody waits for long.
 *
 * OpenMP's team (on request, in builds with OpenMP): the same boards in a parallel region, which ends when all of its
 * threads have arrived; after a pause libgomp's threads may take milliseconds to do so (docs/cpu.md).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../falcon_cpu.h"
#include "board.h"
#include "guests.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static atomic_int threading = FALCON_OWN_TEAM;

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
    fl_board_work(&board, fl_board_begin(&board, stages, job, 1), 0, NULL, 0);
}

#ifdef _OPENMP
#include <omp.h>

static void run_openmp(const fl_stages *stages, void *job, int threads) {
    fl_board board = {0};
    atomic_int left = 0;
    const uint64_t first = fl_board_begin(&board, stages, job, threads);
#pragma omp parallel num_threads(threads)
    {
        uint64_t joined = first;
        fenv_t own; /* the thread may be that of other programs too */
        const int seat = omp_get_thread_num() ? fl_board_join(&board, &joined) : 0;
        fegetenv(&own);
        if (seat >= 0)
            fl_board_work(&board, joined, seat, NULL, 0);
        fesetenv(&own);
        /* wait here until all threads are done: libgomp's own barrier spins for milliseconds */
        const int all = omp_get_num_threads();
        atomic_fetch_add(&left, 1);
        for (int spins = 0; atomic_load(&left) < all;)
            fl_wait(&spins);
    }
}
#endif

/* ---- What differs between systems: sleeping until a word is not 0, and the CPUs that threads may use ---- */

#if defined(__linux__) && !defined(FALCON_PORTABLE_TEAM)
#include <linux/futex.h>
#include <sys/syscall.h>

typedef cpu_set_t fl_cpus;
enum { MOST_CPUS = CPU_SETSIZE };
typedef struct {
    _Atomic uint32_t word;
} fl_alarm;

static void prepare(fl_alarm *a) {
    (void)a;
}
static void sleep_until_rung(fl_alarm *a) {
    syscall(SYS_futex, &a->word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0); /* returns if the word changed meanwhile */
}
static void ring(fl_alarm *a) {
    syscall(SYS_futex, &a->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
/* The CPUs that the caller may use; returns its own, negative where that is unknown. */
static int here_among(fl_cpus *usable) {
    const int here = sched_getcpu();
    return sched_getaffinity(0, sizeof *usable, usable) ? -1 : here;
}
static int may_use(int cpu, const fl_cpus *usable) {
    return CPU_ISSET(cpu, usable);
}
static void pin_me_to(int cpu) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    sched_setaffinity(0, sizeof only, &only);
}
#else
typedef char fl_cpus;
enum { MOST_CPUS = 1024 };
typedef struct {
    _Atomic uint32_t word;
    pthread_mutex_t lock;
    pthread_cond_t rung;
} fl_alarm;

static void prepare(fl_alarm *a) {
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->rung, NULL);
}
static void sleep_until_rung(fl_alarm *a) {
    pthread_mutex_lock(&a->lock);
    while (!atomic_load(&a->word))
        pthread_cond_wait(&a->rung, &a->lock);
    pthread_mutex_unlock(&a->lock);
}
static void ring(fl_alarm *a) {
    pthread_mutex_lock(&a->lock);
    pthread_cond_signal(&a->rung);
    pthread_mutex_unlock(&a->lock);
}
static int here_among(fl_cpus *usable) {
    (void)usable;
    return 0;
}
static int may_use(int cpu, const fl_cpus *usable) {
    (void)cpu, (void)usable;
    return 1;
}
static void pin_me_to(int cpu) {
    (void)cpu;
}
#endif

/* Calls that can use helpers at the same time; further ones run on their caller's thread alone. */
enum { BOARDS = 31, GANG = BOARDS, MOST_JOBS = 256, STACK = 1 << 20 };
static const uint32_t gang_bit = (uint32_t)1 << GANG;
/* How long an idle helper spins: longer than the Python code between two calls takes, too short to disturb others. */
static const double idle_seconds = 100e-6, idle_after_gang = 300e-6;

static struct {
    fl_board board;
    atomic_int taken;
} boards[BOARDS];

typedef struct {
    fl_alarm invited; /* a bit for each board, and one for the gang */
    atomic_int asleep, started;
} fl_helper;
static fl_helper helpers[MOST_CPUS];
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;

typedef void (*fl_run)(void *about, int job);

/* The gang that runs; `claims`: its number << 32 | its jobs for helpers << 16 | the next one, from 1. */
static struct {
    _Atomic uint64_t claims;
    atomic_int left;
    fl_run run;
    void *about;
    fenv_t modes; /* as of a board */
} gang;
static pthread_mutex_t gang_is_free = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int in_gang;

static void run_job(fl_run run, void *about, int job) {
    in_gang++;
    run(about, job);
    in_gang--;
}

/* Runs one job of the gang, if one is left: each of them needs a thread. */
static void join_gang(void) {
    uint64_t claims = atomic_load(&gang.claims);
    for (;;) {
        const int next = (int)(claims & 0xffff);
        if (next > (int)(claims >> 16 & 0xffff))
            return;
        if (atomic_compare_exchange_weak(&gang.claims, &claims, claims + 1)) {
            fesetenv(&gang.modes);
            run_job(gang.run, gang.about, next);
            atomic_fetch_sub(&gang.left, 1);
            return;
        }
    }
}

static void serve(fl_helper *h, uint32_t invited) {
    if (invited & gang_bit)
        join_gang();
    for (int i = 0; i < BOARDS; i++) {
        uint64_t job;
        const int seat = invited >> i & 1 ? fl_board_join(&boards[i].board, &job) : -1;
        if (seat >= 0)
            fl_board_work(&boards[i].board, job, seat, &h->invited.word, gang_bit);
    }
}

static void *help(void *helper) {
    fl_helper *h = helper;
    pin_me_to((int)(h - helpers));
    double idle_since = fl_now(), idle = idle_seconds;
    for (unsigned turn = 0;; turn++) {
        const uint32_t invited = atomic_exchange(&h->invited.word, 0);
        if (invited) {
            serve(h, invited);
            idle_since = fl_now();
            idle = invited & gang_bit ? idle_after_gang : idle_seconds;
            continue;
        }
        int spins = 0;
        fl_wait(&spins);
        if (turn % 16 || fl_now() - idle_since < idle)
            continue;
        atomic_store(&h->asleep, 1);
        sleep_until_rung(&h->invited);
        atomic_store(&h->asleep, 0);
        idle_since = fl_now();
    }
    return NULL;
}

/* Starts a thread with all signals blocked but its own faults; 0: the system allows no more. */
static int start_thread(void *(*body)(void *), void *about) {
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV), sigdelset(&all, SIGBUS), sigdelset(&all, SIGILL), sigdelset(&all, SIGFPE);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int started = !pthread_create(&thread, &attributes, body, about);
#ifdef __linux__
    if (started)
        pthread_setname_np(thread, "falcon");
#endif
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

/* Starts the helper of a CPU; 0 where the system allows no more threads. */
static int start(fl_helper *h) {
    pthread_mutex_lock(&starting);
    if (!atomic_load(&h->started)) {
        prepare(&h->invited);
        atomic_store(&h->started, start_thread(help, h));
    }
    pthread_mutex_unlock(&starting);
    return atomic_load(&h->started);
}

static void invite(fl_helper *h, int board) {
    if (!atomic_fetch_or(&h->invited.word, (uint32_t)1 << board) && atomic_load(&h->asleep))
        ring(&h->invited);
}

/* CPUs have numbers below this. */
static int count_cpus(void) {
    static atomic_int known;
    int count = atomic_load(&known);
    if (count == 0) {
        const long configured = sysconf(_SC_NPROCESSORS_CONF);
        count = configured > 0 && configured < MOST_CPUS ? (int)configured : MOST_CPUS;
        atomic_store(&known, count);
    }
    return count;
}

/* The `wanted` helpers of CPUs that the caller may use, its own last; or as many as there are: returns their number. */
static int find_helpers(fl_helper **found, int wanted) {
    fl_cpus usable;
    const int here = here_among(&usable), cpus = count_cpus();
    int count = 0;
    if (here < 0)
        return 0;
    for (int step = 1; step <= cpus && count < wanted; step++) {
        const int cpu = (here + step) % cpus;
        if (may_use(cpu, &usable) && (atomic_load(&helpers[cpu].started) || start(helpers + cpu)))
            found[count++] = helpers + cpu;
    }
    return count;
}

/* A call on helpers.  Waking one that sleeps costs microseconds (1 to 10 were measured): so each thread wakes a few
 * before a claim of its own, those that come wake the next ones, and nobody is woken for work that is done. */
typedef struct {
    const fl_stages *stages;
    void *job;
    fl_helper *found[MOST_CPUS];
    int count, board;
    atomic_int invited;
} fl_call;
enum { WOKEN_PER_CLAIM = 4 };

static ptrdiff_t open_stage_of_call(void *call, ptrdiff_t *grab) {
    const fl_call *c = call;
    return c->stages->open(c->job, grab);
}

static void units_of_call(void *call, int seat, ptrdiff_t first, ptrdiff_t end) {
    fl_call *c = call;
    if (atomic_load(&c->invited) < c->count) {
        const int from = atomic_fetch_add(&c->invited, WOKEN_PER_CLAIM);
        for (int at = from; at < from + WOKEN_PER_CLAIM && at < c->count; at++)
            invite(c->found[at], c->board);
    }
    c->stages->units(c->job, seat, first, end);
}

static void run_own(const fl_stages *stages, void *job, int threads) {
    static const fl_stages of_call = {open_stage_of_call, units_of_call};
    int i = 0, free_one = 0;
    while (i < BOARDS && !atomic_compare_exchange_strong(&boards[i].taken, &free_one, 1))
        i++, free_one = 0;
    if (i == BOARDS) {
        run_alone(stages, job);
        return;
    }
    fl_call call;
    call.stages = stages, call.job = job, call.board = i;
    atomic_init(&call.invited, 0);
    call.count = find_helpers(call.found, threads - 1 < MOST_CPUS ? threads - 1 : MOST_CPUS);
    const uint64_t number = fl_board_begin(&boards[i].board, &of_call, &call, threads);
    fl_board_work(&boards[i].board, number, 0, NULL, 0);
    atomic_store(&boards[i].taken, 0);
}

/* A job of a gang for which there is no helper. */
typedef struct {
    fl_run run;
    void *about;
    atomic_int *left;
    int job;
} fl_extra;

static void *run_extra(void *extra) {
    fl_extra x = *(fl_extra *)extra;
    run_job(x.run, x.about, x.job);
    atomic_fetch_sub(x.left, 1);
    return NULL;
}

/* Runs jobs first..jobs-1 on new threads, job 0 here, and waits until none is left. */
static void run_gang(fl_run run, void *about, int first, int jobs, atomic_int *left) {
    fl_extra extra[MOST_JOBS];
    for (int job = first; job < jobs; job++) {
        extra[job] = (fl_extra){run, about, left, job};
        while (!start_thread(run_extra, extra + job)) /* the system allows no more threads now */
            usleep(1000);
    }
    run_job(run, about, 0);
    for (int spins = 0; atomic_load(left);)
        fl_wait(&spins);
}

int fl_team_helpers(int wanted) {
    fl_helper *found[MOST_JOBS];
    return find_helpers(found, wanted < MOST_JOBS ? wanted : MOST_JOBS);
}

int fl_team_gang(fl_run run, void *about, int jobs) {
    atomic_int left = jobs - 1;
    if (jobs > MOST_JOBS)
        return 0;
    if (jobs < 2 || in_gang) {
        run_gang(run, about, 1, jobs, &left);
        return 1;
    }
    pthread_mutex_lock(&gang_is_free);
    fl_helper *found[MOST_JOBS];
    const uint64_t number = (atomic_load(&gang.claims) >> 32) + 1;
    const int count = find_helpers(found, jobs - 1);
    gang.run = run, gang.about = about;
    fegetenv(&gang.modes);
    atomic_store(&gang.left, jobs - 1);
    atomic_store(&gang.claims, number << 32 | (uint64_t)count << 16 | 1);
    for (int at = 0; at < count; at++)
        invite(found[at], GANG);
    run_gang(run, about, count + 1, jobs, &gang.left);
    pthread_mutex_unlock(&gang_is_free);
    return 1;
}

/* A child has none of its parent's threads: it starts its own, when it needs them. */
static void forget_helpers(void) {
    memset(boards, 0, sizeof boards);
    memset(helpers, 0, sizeof helpers);
    memset(&gang, 0, sizeof gang);
    in_gang = 0;
    pthread_mutex_init(&starting, NULL);
    pthread_mutex_init(&gang_is_free, NULL);
}

static void on_fork_child(void) {
    atomic_store(&forked, 1);
    forget_helpers();
}
__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, on_fork_child);
}

int falcon_threading(int wanted) {
#ifdef _OPENMP
    const int best = FALCON_OPENMP;
#else
    const int best = FALCON_OWN_TEAM;
#endif
    if (wanted == FALCON_OWN_TEAM || wanted == best)
        atomic_store(&threading, wanted);
    return atomic_load(&threading);
}

void fl_team_run(const fl_stages *stages, void *job, int threads) {
    if (threads < 2)
        run_alone(stages, job);
#ifdef _OPENMP
    else if (falcon_threading(-1) == FALCON_OPENMP)
        run_openmp(stages, job, threads);
#endif
    else if (!fl_guests_run(stages, job, threads))
        run_own(stages, job, threads);
}

typedef struct {
    fl_units units;
    void *job;
    ptrdiff_t count, grab;
    int opened;
} fl_each;

static ptrdiff_t open_each(void *each, ptrdiff_t *grab) {
    fl_each *e = each;
    *grab = e->grab;
    return e->opened++ ? 0 : e->count;
}

static void units_of_each(void *each, int seat, ptrdiff_t first, ptrdiff_t end) {
    const fl_each *e = each;
    (void)seat;
    e->units(e->job, first, end);
}

void fl_team_each(fl_units units, void *job, ptrdiff_t count, ptrdiff_t grab, int threads) {
    static const fl_stages stages = {open_each, units_of_each};
    fl_each e = {units, job, count, grab, 0};
    fl_team_run(&stages, &e, threads);
}
