/* team.h - the threads of a call.
 *
 * A call is a sequence of stages, a stage is a number of units that any thread may do in any order.  Threads claim
 * units; the one that finishes the last unit of a stage opens the next stage.  So no thread waits for one that has
 * claimed nothing, and a late thread joins the stage that is open.
 */
#ifndef FALCON_TEAM_H
#define FALCON_TEAM_H

#include <stddef.h>

typedef struct {
    /* Opens the next stage and returns its number of units, 0 if there is no further stage; *grab: how many
     * neighbouring units are claimed at a time.  Called when all units of the previous stage are done. */
    ptrdiff_t (*open)(void *job, ptrdiff_t *grab);
    /* Does units first..end-1 of the open stage.  seat: the calling thread's, 0 <= seat < threads, for buffers of its
     * own.  When it returns, what it wrote must be visible to other threads, and nothing may be left to do: the job may
     * be gone. */
    void (*units)(void *job, int seat, ptrdiff_t first, ptrdiff_t end);
} fl_stages;

/* The number of threads to use, at most `threads`, for work that pays for `worth` of them. */
int fl_team_size(double worth, int threads);

/* Runs all stages on the calling thread and up to threads - 1 others. */
void fl_team_run(const fl_stages *stages, void *job, int threads);

/* The same with one stage of `count` units, which need no seat. */
typedef void (*fl_units)(void *job, ptrdiff_t first, ptrdiff_t end);
void fl_team_each(fl_units units, void *job, ptrdiff_t count, ptrdiff_t grab, int threads);

/* Runs run(about, job) for every job 0 <= job < jobs, all at the same time, each on a thread of its own, the first one
 * on the calling thread: they may wait for one another.  One gang at a time has helpers; other callers wait, and a job
 * that calls for another gang gets new threads for it.  0: there is no team of our own, and nothing was run. */
int fl_team_gang(void (*run)(void *about, int job), void *about, int jobs);

/* Starts the helpers of the CPUs that the caller may use, up to `wanted`; returns how many there are. */
int fl_team_helpers(int wanted);

#endif
