/* team_case.h - a test of the team alone: units counted, gangs, several host threads at once, a forked child, and the
 * threads of an OpenMP. */
#ifndef FALCON_TEST_TEAM_CASE_H
#define FALCON_TEST_TEAM_CASE_H
#include "engine/board.h"
#include "engine/team.h"
#include "falcon_cpu.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A job of a few short stages: every unit is done once, in its own stage, on a seat of its own. */
enum { STAGES = 5, MOST_UNITS = 40, TEAM = 3 };
typedef struct {
    int stage, wrong;
    ptrdiff_t units;      /* of the open stage */
    int done[MOST_UNITS]; /* how often, in this stage */
    atomic_int seated[TEAM];
} counted;

static ptrdiff_t counted_open(void *job, ptrdiff_t *grab) {
    counted *j = job;
    for (ptrdiff_t u = 0; u < MOST_UNITS; u++)
        j->wrong |= j->done[u] != (u < j->units);
    memset(j->done, 0, sizeof j->done);
    *grab = 1 + j->stage % 3;
    j->units = j->stage == STAGES ? 0 : 1 + (j->stage * 7) % MOST_UNITS;
    j->stage++;
    return j->units;
}

static void counted_units(void *job, int seat, ptrdiff_t first, ptrdiff_t end) {
    counted *j = job;
    if (seat < 0 || seat >= TEAM || atomic_fetch_add(&j->seated[seat], 1))
        abort();
    for (; first < end; first++)
        j->done[first]++;
    atomic_fetch_sub(&j->seated[seat], 1);
}

/* A gang as OpenBLAS has it: jobs that wait for one another, with thread numbers of their own; the last one of an outer
 * gang makes a call of its own. */
typedef struct {
    int jobs, index, inner;
    atomic_int met;
    _Atomic uint64_t numbers;
} meeting;
typedef struct {
    meeting *of;
    int job, done;
} member;
static const char *meet(int jobs, int inner);

static void come(int thread, void *data, int index) {
    member *m = data;
    meeting *g = m->of;
    const uint64_t bit = (uint64_t)1 << (thread & 63);
    if (thread < 32 || thread > 63 || index != g->index || atomic_fetch_or(&g->numbers, bit) & bit)
        abort();
    atomic_fetch_add(&g->met, 1);
    for (int spins = 0; atomic_load(&g->met) < g->jobs;)
        fl_wait(&spins);
    if (g->inner && m->job == g->jobs - 1 && meet(g->inner, 0))
        abort();
    m->done++;
}

static const char *meet(int jobs, int inner) {
    enum { MOST_MEMBERS = 8 };
    member members[MOST_MEMBERS];
    meeting g = {.jobs = jobs, .index = 7, .inner = inner};
    for (int i = 0; i < jobs; i++)
        members[i] = (member){&g, i, 0};
    falcon_lend(64, 2)(1, come, jobs, sizeof *members, members, g.index);
    for (int i = 0; i < jobs; i++)
        if (members[i].done != 1)
            return "a job of a gang was left out or done twice";
    return NULL;
}

static void *count_all(void *rounds) {
    static const fl_stages stages = {counted_open, counted_units};
    for (int n = 0; n < *(int *)rounds; n++) {
        const char *why = n % 4 ? NULL : meet(1 + n / 4 % 4, n % 16 ? 0 : 2);
        if (why)
            return (void *)why;
        counted job = {0};
        fl_team_run(&stages, &job, TEAM);
        if (job.wrong || job.stage != STAGES + 1)
            return "a unit was left out, done twice or done in another stage";
    }
    return NULL;
}

/* An OpenMP of three threads, two of which spin between its regions. */
static struct {
    void (*body)(void *);
    void *about;
    atomic_int regions, left;
} openmp;
enum { LAST = -1 };

static void *openmp_thread(void *unused) {
    for (int seen = 0; (void)unused, 1; seen++) {
        while (atomic_load(&openmp.regions) == seen)
            ;
        if (atomic_load(&openmp.regions) == LAST)
            return NULL;
        openmp.body(openmp.about);
        atomic_fetch_sub(&openmp.left, 1);
    }
}

static void openmp_region(void (*body)(void *), void *about, unsigned threads, unsigned flags) {
    (void)threads, (void)flags;
    openmp.body = body, openmp.about = about;
    atomic_store(&openmp.left, TEAM - 1);
    atomic_fetch_add(&openmp.regions, 1);
    body(about);
    while (atomic_load(&openmp.left))
        ;
}

/* Calls run on its threads, as soon as the machine lets these run; then a forked child, which has none of them. */
static const char *guests_case(int rounds) {
    pthread_t own[TEAM - 1];
    const char *why = NULL;
    for (int i = 0; i < TEAM - 1; i++)
        pthread_create(own + i, NULL, openmp_thread, NULL);
    const int met = falcon_meet(openmp_region), regions = atomic_load(&openmp.regions);
    const double begun = fl_now();
    do
        why = count_all(&rounds);
    while (!why && met && atomic_load(&openmp.regions) == regions && fl_now() - begun < 60);
    if (met && (met != TEAM || atomic_load(&openmp.regions) == regions))
        why = "no call ran on the threads of an OpenMP that spin";
    const pid_t child = fork();
    if (child == 0)
        _exit(count_all(&rounds) != NULL);
    int status;
    waitpid(child, &status, 0);
    why = status ? "a forked child waits for threads of an OpenMP" : why;
    if (falcon_meet(NULL))
        why = "an OpenMP that is none has threads";
    atomic_store(&openmp.regions, LAST);
    for (int i = 0; i < TEAM - 1; i++)
        pthread_join(own[i], NULL);
    return why;
}

/* Several host threads at once, then a forked child, then an OpenMP. */
static int team_case(int rounds) {
    enum { HOSTS = 4 };
    pthread_t hosts[HOSTS];
    const char *why = NULL;
    for (int i = 0; i < HOSTS; i++)
        pthread_create(hosts + i, NULL, count_all, &rounds);
    for (int i = 0; i < HOSTS; i++) {
        void *found;
        pthread_join(hosts[i], &found);
        why = found ? found : why;
    }
    const pid_t child = fork();
    if (child == 0)
        _exit(count_all(&rounds) != NULL);
    int status;
    waitpid(child, &status, 0);
    if (!why && status)
        why = "wrong in a forked child";
    if (!why)
        why = guests_case(rounds);
    if (why)
        printf("FAIL team: %s\n", why);
    return why != NULL;
}

#endif
