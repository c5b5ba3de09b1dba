/* team.h - the threads of a call.
 *
 * A call is a sequence of stages, a stage a number of units that anybody may do in any order.  Members of the team
 * claim units; a stage is over when all its units are done, and whoever ends the last one opens the next stage.  So
 * nobody waits for a member that has claimed nothing, and one that comes late joins the stage that is open.
 */
#ifndef FALCON_TEAM_H
#define FALCON_TEAM_H

#include <stddef.h>

typedef struct {
    /* Opens the next stage: its number of units, and in *grab how many neighbouring ones are claimed at a time; 0
     * where there is none.  Called once per stage, when all units of the one before are done. */
    ptrdiff_t (*open)(void *job, ptrdiff_t *grab);
    /* Does units first..end-1 of the open stage.  seat: of the member, 0 <= seat < threads, for buffers of its own.
     * When it returns, what it wrote must be visible to whoever runs after it, and nothing may be left to do: the job
     * may be gone. */
    void (*units)(void *job, int seat, ptrdiff_t first, ptrdiff_t end);
} fl_stages;

/* Threads worth starting, of at most `threads`, for work that pays for `worth` of them. */
int fl_team_size(double worth, int threads);

/* Runs all stages on the calling thread and up to threads - 1 others. */
void fl_team_run(const fl_stages *stages, void *job, int threads);

#endif
