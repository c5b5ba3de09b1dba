/* lend.c - falcon's threads run the jobs of an OpenBLAS, so that its own pool sleeps and leaves the CPUs to falcon.
 *
 * OpenBLAS (from 0.3.28) hands the jobs of a call to a callback, if there is one.  A job is given the number of a
 * thread, which stands for a buffer: no two jobs that run at the same time may have the same one.  OpenBLAS's own
 * workers, which some of LAPACK still uses, have the low numbers; the jobs here take the highest free ones.
 */
#include "../falcon_cpu.h"
#include "board.h"
#include "team.h"
#include <pthread.h>
#include <stddef.h>

typedef void (*fl_dojob)(int thread, void *data, int index);
typedef struct {
    fl_dojob dojob;
    char *data;
    size_t size;
    int index;
} fl_lent;

/* As many as the largest gang has jobs, because they wait for one another. */
enum { NUMBERS = 256, WORDS = NUMBERS / 64 };
static atomic_int highest;           /* thread numbers are highest, highest - 1, ... 0 */
static _Atomic uint64_t used[WORDS]; /* a bit for each of them */

static int take_number(void) {
    for (int spins = 0;; fl_wait(&spins))
        for (int word = 0; word < WORDS; word++) {
            uint64_t now = atomic_load(used + word);
            const int bit = ~now ? __builtin_ctzll(~now) : 64, found = 64 * word + bit;
            if (bit < 64 && found <= atomic_load(&highest) &&
                atomic_compare_exchange_strong(used + word, &now, now | (uint64_t)1 << bit))
                return found;
        }
}

static void run(void *about, int job) {
    const fl_lent *x = about;
    const int taken = take_number();
    x->dojob(atomic_load(&highest) - taken, x->data + x->size * (size_t)job, x->index);
    atomic_fetch_and(used + taken / 64, ~((uint64_t)1 << taken % 64));
}

/* OpenBLAS's callback; every call waits for its jobs, which is what `sync` asks for. */
static void lend(int sync, fl_dojob dojob, int jobs, size_t size, void *data, int index) {
    fl_lent x = {dojob, data, size, index};
    (void)sync;
    if (!fl_team_gang(run, &x, jobs))
        for (int i = 0; i < jobs; i++) /* not reached: there is no callback without a team */
            run(&x, i);
}

static void forget(void) {
    for (int word = 0; word < WORDS; word++)
        atomic_store(used + word, 0);
}
__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, forget);
}

falcon_lend_callback falcon_lend(int most, int threads) {
    if (falcon_threading(-1) != FALCON_OWN_TEAM || most < 2 || most > NUMBERS ||
        fl_team_helpers(threads - 1) < threads - 1)
        return NULL;
    if (atomic_load(&highest) == 0 || most - 1 < atomic_load(&highest))
        atomic_store(&highest, most - 1);
    return lend;
}
