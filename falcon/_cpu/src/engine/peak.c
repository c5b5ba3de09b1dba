/* peak.c - the rate of a micro-kernel alone, on panels that lie in L1: the ceiling of classical products by it. */
#include "engine.h"
#include "team.h"
#include <string.h>

enum {
    PANELS = 24 << 10 /* bytes: half of an L1, or three quarters of a small one */,
    BURSTS = 4 /* of each thread */
};
/* Seconds of all bursts together from which starting the threads counts for little. */
static const double LONG_ENOUGH = 4e-3;

typedef struct {
    const falcon_kernel *kern;
    ptrdiff_t len, calls; /* steps of K; calls of the micro-kernel in a burst */
} job;

static void do_bursts(void *j_, ptrdiff_t first, ptrdiff_t end) {
    const job *j = j_;
    const falcon_kernel *k = j->kern;
    const falcon_ukr_fn ukr = k->ukr[k->mr * (k->nr / k->vlen) - 1];
    char *a = fl_scratch(), *b = a + fl_panel_bytes(k, k->mr, j->len), *h = b + fl_panel_bytes(k, k->nr, j->len);
    memset(a, 0x3c, (size_t)(h - a)); /* of every type a number whose products are finite and normal */
    if (k->begin)
        k->begin();
    for (ptrdiff_t i = (end - first) * j->calls; i > 0; i--)
        ukr(j->len, a, b, (ptrdiff_t)k->nr * k->kr, h, 0, a, 0);
    if (k->end)
        k->end();
}

double falcon_peak(const falcon_kernel *kern, int threads, double seconds) {
    const ptrdiff_t fits = PANELS / ((kern->mr + kern->nr) * kern->panel) / kern->k_grain * kern->k_grain;
    job j = {.kern = kern, .len = FL_MIN(FL_MAX(fits, kern->k_grain), kern->kc), .calls = 64};
    const double flops = 2.0 * BURSTS * kern->mr * kern->nr * j.len, end = fl_now() + seconds;
    double best = 0, from, took;
    do {
        const int team = fl_team_size(threads, threads);
        from = fl_now();
        fl_team_each(do_bursts, &j, BURSTS * team, 1, team);
        took = fl_now() - from;
        best = FL_MAX(best, flops * j.calls * team / took);
        if (took < LONG_ENOUGH)
            j.calls *= 2;
    } while (from + took < end);
    return best;
}
