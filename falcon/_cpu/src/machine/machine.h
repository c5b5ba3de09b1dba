/* machine.h - what the engine asks of the machine: instruction sets, caches, the clock. */
#ifndef FALCON_MACHINE_H
#define FALCON_MACHINE_H

#include <stddef.h>

/* Whether CPU and operating system run this instruction set (enum falcon_isa). */
int fl_cpu_runs(int isa);
/* Whether it is slower here than those before it, though it runs: it is used by name only. */
int fl_cpu_slow(int isa);
/* Why the operating system does not run one that the CPU has; NULL: it does, or the CPU does not have it. */
const char *fl_cpu_refused(int isa);
/* Ask the operating system, once, to let this process use AMX's tile registers: NULL, or why it refuses. */
const char *fl_ask_for_tiles(void);

typedef struct {
    ptrdiff_t l1d, l2, l3; /* bytes; l1d and l2 per core, l3 as shared by a core; guesses where unknown */
    int l3_sharers;        /* logical CPUs that share it, 1 if unknown */
} falcon_caches;
void falcon_cache_sizes(falcon_caches *out);

/* Seconds of a clock that never goes back. */
double fl_now(void);

#endif
