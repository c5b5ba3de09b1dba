/* scratch.c - some memory for each thread, where a call has no workspace.
 *
 * Not on the stack: a Python thread may have 64 KiB of it (threading.stack_size), those of musl have 128.
 */
#include "engine.h"

char *fl_scratch(void) {
    static _Thread_local char memory[FL_SCRATCH] __attribute__((aligned(64)));
    return memory;
}
