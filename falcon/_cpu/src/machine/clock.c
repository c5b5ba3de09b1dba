/* clock.c - the clock that stages are timed by. */
#include "machine.h"
#include <time.h>

double fl_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
