/* board.c - claiming units and ending stages, without locks and without waiting for threads that claimed nothing.
 *
 * `next` holds the stage and its first unclaimed unit in one word, so that a claim (compare and exchange) fails if
 * the stage has changed since the thread read it.  While a stage is being opened its unit is CLOSED.
 */
#include "board.h"
#include <sched.h>

enum { SEAT_BITS = 16, UNIT_BITS = 40, SPINS = 400 };
#define UNIT_MASK (((uint64_t)1 << UNIT_BITS) - 1)
#define CLOSED UNIT_MASK

void fl_wait(int *spins) {
    if (++*spins > SPINS) {
        sched_yield();
        return;
    }
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Opens the stage after that of `next`, or ends the job; one thread at a time is in here. */
static void open_stage(fl_board *b, uint64_t next) {
    const uint64_t tag = ((next >> UNIT_BITS) + 1) << UNIT_BITS;
    ptrdiff_t grab = 1;
    atomic_store(&b->next, tag | CLOSED);
    const ptrdiff_t units = b->stages->open(b->job, &grab);
    atomic_store(&b->done, 0);
    atomic_store(&b->units, units);
    atomic_store(&b->grab, grab);
    if (units > 0)
        atomic_store(&b->next, tag);
    else
        atomic_fetch_add(&b->seats, (uint64_t)1 << SEAT_BITS); /* from now on the job may be gone */
}

uint64_t fl_board_begin(fl_board *b, const fl_stages *stages, void *job, int threads) {
    const uint64_t number = (atomic_load(&b->seats) >> SEAT_BITS) + 1;
    b->stages = stages, b->job = job;
    if (threads > 1)
        fegetenv(&b->modes);
    atomic_store(&b->threads, threads);
    atomic_store(&b->seats, number << SEAT_BITS | 1);
    open_stage(b, atomic_load(&b->next));
    return number;
}

int fl_board_join(fl_board *b, uint64_t *job) {
    uint64_t seats = atomic_load(&b->seats);
    for (;;) {
        const int taken = (int)(seats & ((1 << SEAT_BITS) - 1));
        *job = seats >> SEAT_BITS;
        if (*job % 2 == 0 || taken >= atomic_load(&b->threads))
            return -1;
        if (atomic_compare_exchange_weak(&b->seats, &seats, seats + 1))
            return taken;
    }
}

void fl_board_work(fl_board *b, uint64_t job, int seat, const _Atomic uint32_t *called, uint32_t mask) {
    int spins = 0;
    while (called == NULL || !(atomic_load(called) & mask)) {
        uint64_t next = atomic_load(&b->next);
        if (atomic_load(&b->seats) >> SEAT_BITS != job) /* read after `next`, which is of this job or older */
            return;
        const ptrdiff_t units = atomic_load(&b->units), grab = atomic_load(&b->grab);
        const ptrdiff_t first = (ptrdiff_t)(next & UNIT_MASK);
        if (first >= units) { /* or CLOSED */
            fl_wait(&spins);
            continue;
        }
        /* towards the end less at a time, so that all threads finish together: the others' claims are half done */
        const ptrdiff_t others = atomic_load(&b->threads) - 1;
        const ptrdiff_t fair = others > 0 ? (units - first) / (2 * others) : units - first;
        const ptrdiff_t some = fair < 1 ? 1 : fair < grab ? fair : grab;
        if (!atomic_compare_exchange_strong(&b->next, &next, next + (uint64_t)some))
            continue;
        if (seat > 0)
            fesetenv(&b->modes);
        b->stages->units(b->job, seat, first, first + some);
        if (atomic_fetch_add(&b->done, some) + some == units)
            open_stage(b, next);
        spins = 0;
    }
}
