/* board.h - the state of a running job that its threads share: seats (one per thread), the open stage, its units.
 *
 * A board outlives its jobs: a thread that looks at it late finds another job, never freed memory.  A thread uses a job
 * only between a successful claim and reporting those units as done.
 */
#ifndef FALCON_BOARD_H
#define FALCON_BOARD_H
#include "team.h"
#include <fenv.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct {
    _Atomic uint64_t seats; /* number of the job << SEAT_BITS | seats taken; the number is odd while a job runs */
    _Atomic uint64_t next;  /* number of the stage << UNIT_BITS | its first unclaimed unit, or CLOSED */
    _Atomic ptrdiff_t units, grab, done;
    atomic_int threads;
    const fl_stages *stages;
    void *job;
    fenv_t modes; /* of the caller: rounding, subnormals flushed to 0; units are done in them */
} fl_board;

/* Begins a job on a free board and opens its first stage; the caller has seat 0.  Returns the job's number. */
uint64_t fl_board_begin(fl_board *b, const fl_stages *stages, void *job, int threads);
/* Takes a seat in the running job, whose number goes to *job.  Negative: no job runs, or all seats are taken. */
int fl_board_join(fl_board *b, uint64_t *job);
/* Claims and does units until that job is over, or until *called (if not NULL) has one of the bits of `mask`.  The
 * thread of another seat than 0 keeps the job's modes. */
void fl_board_work(fl_board *b, uint64_t job, int seat, const _Atomic uint32_t *called, uint32_t mask);

/* One step of a waiting loop: a pause, after some microseconds of them a yield of the CPU, because a thread that was
 * woken on the CPU where another one spins would otherwise not run until its next time slice. */
void fl_wait(int *spins);

#endif
