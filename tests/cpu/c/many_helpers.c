/* many_helpers.c - a team of more helpers than this machine has CPUs: the portable one, told of MANY. */
#define _GNU_SOURCE
#include <unistd.h>
enum { MANY = 40 };
#define sysconf(name) ((void)(name), (long)MANY)
#define FALCON_PORTABLE_TEAM
#include "engine/team.c"
#include <stdio.h>
#include <stdlib.h>

/* One stage.  met: units that run; where `meets`, each waits until all run, so that each needs a thread. */
typedef struct {
    ptrdiff_t units, grab;
    int opened, meets;
    atomic_int met, wrong;
    atomic_int done[1000];
} counted;

static ptrdiff_t open_once(void *job, ptrdiff_t *grab) {
    counted *j = job;
    *grab = j->grab;
    return j->opened++ ? 0 : j->units;
}

static void count(void *job, int seat, ptrdiff_t first, ptrdiff_t end) {
    counted *j = job;
    const ptrdiff_t fair = (j->units - first) / (2 * (MANY - 1)); /* see fl_board_work */
    if (seat < 0 || seat >= MANY || end - first > j->grab || end - first > (fair > 1 ? fair : 1))
        atomic_store(&j->wrong, 1);
    for (; first < end; first++)
        atomic_fetch_add(j->done + first, 1);
    atomic_fetch_add(&j->met, 1);
    const double start = fl_now();
    for (int spins = 0; j->meets && atomic_load(&j->met) < MANY; fl_wait(&spins))
        if (fl_now() - start > 60) {
            printf("%d of %d threads came\n", atomic_load(&j->met), MANY);
            exit(1);
        }
}

static int run_counted(ptrdiff_t units, ptrdiff_t grab, int meets) {
    static const fl_stages stages = {open_once, count};
    static counted j;
    memset(&j, 0, sizeof j);
    j.units = units, j.grab = grab, j.meets = meets;
    fl_team_run(&stages, &j, MANY);
    int wrong = atomic_load(&j.wrong);
    for (ptrdiff_t u = 0; u < units; u++)
        wrong |= atomic_load(j.done + u) != 1;
    return wrong;
}

int main(void) {
    int wrong = 0;
    for (int round = 0; round < 3; round++) {
        wrong |= run_counted(MANY, 1, 1); /* all are woken, by one another */
        for (int n = 1; n < 60; n++)
            wrong |= run_counted(n * 16, 1 + n % 9, 0);
        usleep(2000); /* they sleep again */
    }
    puts(wrong ? "FAIL: a unit was left out or done twice, or a claim was too large" : "all passed");
    return wrong;
}
