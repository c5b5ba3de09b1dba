/* amx.c - permission to use AMX's tile registers.
 *
 * Linux gives a process their 8 KiB of state only on request (without it, the first use raises SIGILL); threads and
 * forked children inherit the permission, exec drops it.  cpuid.c asks for it when falcon first looks for instruction
 * sets, not at import.
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

/* ARCH_REQ_XCOMP_PERM and XFEATURE_XTILE_DATA, which not all headers have. */
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
