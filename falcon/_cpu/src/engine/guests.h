/* guests.h - the threads of another library's OpenMP. */
#ifndef FALCON_GUESTS_H
#define FALCON_GUESTS_H
#include "team.h"

/* As fl_team_run, on these threads if there are as many and they spin; 0: nothing was run. */
int fl_guests_run(const fl_stages *stages, void *job, int threads);

#endif
