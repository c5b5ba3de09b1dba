/* amx.c - permission to use AMX's tile registers.
 *
 * Linux gives a process their 8 KiB of state only on request (else the first use ends it by SIGILL); threads and forked
 * children inherit it, an exec takes it back.  cpuid.c asks when falcon first looks for instruction sets that run, not
 * when it is imported.
 */
#define _GNU_SOURCE
#include "machine.h"

#if defined(__linux__) && defined(__x86_64__)
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not in all headers: <asm/prctl.h>, and the number of tile data among the parts of the extended state. */
enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18 };

static pthread_once_t asked_once = PTHREAD_ONCE_INIT;
static char why[160]; /* "": granted */

static void ask(void) {
    if (syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0)
        return;
    const int error = errno;
    snprintf(why, sizeof why, "Linux refuses the use of tile registers: %s (arch_prctl)%s", strerror(error),
             error == ENOSPC ? "; the alternate signal stack of some thread is too small for them" : "");
}

const char *fl_ask_for_tiles(void) {
    pthread_once(&asked_once, ask);
    return *why ? why : NULL;
}
#else
const char *fl_ask_for_tiles(void) {
    return "falcon knows how to ask for tile registers on Linux only";
}
#endif
