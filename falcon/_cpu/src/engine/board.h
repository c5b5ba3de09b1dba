/* board.h - the open stage of a call and who has a seat at it; what teams of any kind share.
 *
 * A board outlives its jobs: a thread that looks at it late finds another job, never freed memory.  It touches a job
 * only between a claim that succeeded and the moment when it says that those units are done.
 */
#ifndef FALCON_BOARD_H
#define FALCON_BOARD_H
#include "team.h"
#include <stdatomic.h>
#include <stdint.h>

typedef struct {
    _Atomic uint64_t seats; /* number of the job << SEAT_BITS | seats taken; the number is odd while a job runs */
    _Atomic uint64_t next;  /* number of the stage << UNIT_BITS | its first unclaimed unit, or CLOSED */
    _Atomic ptrdiff_t units, grab, done;
    atomic_int threads;
    const fl_stages *stages;
    void *job;
} fl_board;

/* Begins a job on a board that is free and opens its first stage; the caller has seat 0.  Returns its number. */
uint64_t fl_board_begin(fl_board *b, const fl_stages *stages, void *job, int threads);
/* Takes a seat at the job that runs; its number is in *job.  Negative: nothing runs, or all seats are taken. */
int fl_board_join(fl_board *b, uint64_t *job);
/* Claims and does units until that job is over. */
void fl_board_work(fl_board *b, uint64_t job, int seat);

/* One turn of waiting: some microseconds of spinning, then the CPU is left to others, because a thread that was woken
 * on the very CPU where another one waits would otherwise not run until its time slice came. */
void fl_wait(int *spins);

#endif
