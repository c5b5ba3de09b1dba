/* emulated_case.h - emulated kernels against the real ones, where these run: every variant of the micro-kernel, on
 * panels of random bits. */
#ifndef FALCON_TEST_EMULATED_CASE_H
#define FALCON_TEST_EMULATED_CASE_H
#include "elements.h"
#include "kernels/kernel.h"
#include "matrices.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Random bits; of bfloat16 with any exponent, or with those around a few, so that sums are rounded, or nearly
 * subnormal. */
static guarded random_panel(ptrdiff_t bytes, int dtype, int exponents) {
    static const int first[] = {0, 122, 60};
    const guarded to = guarded_new((size_t)bytes, 1);
    uint8_t *const byte = (uint8_t *)to.at;
    uint16_t *const element = (uint16_t *)to.at;
    for (ptrdiff_t i = 0; i < bytes; i++)
        byte[i] = (uint8_t)rnd(256);
    for (ptrdiff_t i = 0; dtype == FALCON_BF16 && exponents && i < bytes / 2; i++)
        element[i] = (uint16_t)((element[i] & 0x807f) | (first[exponents] + rnd(10)) << 7);
    return to;
}

/* The same bits; of floating-point accumulators any NaN for a NaN. */
static int same_accumulators(const void *x, const void *y, ptrdiff_t n, int exact) {
    const float *const v = x, *const w = y;
    for (ptrdiff_t i = 0; i < n; i++)
        if (memcmp(v + i, w + i, 4) && (exact || !isnan(v[i]) || !isnan(w[i])))
            return 0;
    return 1;
}

static void run_variant(const falcon_kernel *k, int variant, ptrdiff_t kc, guarded a, guarded b, guarded h) {
    if (k->begin)
        k->begin();
    k->ukr[variant](kc, a.at, b.at, (ptrdiff_t)k->nr * k->kr, h.at, variant & 1, a.at, 0);
    if (k->end)
        k->end();
}

static int emulated_case(const falcon_kernel *real, const falcon_kernel *emulated, int rounds) {
    const uint64_t seed0 = seed;
    const ptrdiff_t entries = (ptrdiff_t)real->mr * real->nr;
    int bad = real->mr != emulated->mr || real->nr != emulated->nr || real->kr != emulated->kr || real->acc != 4;
    for (int n = 0; n < 3 * rounds && !bad; n++) {
        const ptrdiff_t kc = (ptrdiff_t)real->kr * (2 + rnd(6));
        const guarded a = random_panel(kc * real->mr * real->panel, real->dtype, n % 3);
        const guarded b = random_panel(kc * real->nr * real->panel, real->dtype, n % 3);
        const guarded found = random_panel(4 * entries, FALCON_I8, 0), want = guarded_new(4 * (size_t)entries, 1);
        memcpy(want.at, found.at, 4 * (size_t)entries);
        for (int variant = 0; variant < entries / real->vlen && !bad; variant++) {
            run_variant(real, variant, kc, a, b, found);
            run_variant(emulated, variant, kc, a, b, want);
            bad = !same_accumulators(found.at, want.at, entries, real->exact);
        }
        guarded_free(a), guarded_free(b), guarded_free(found), guarded_free(want);
    }
    printf("%s%s %s the bits of %s seed=%llu\n", bad ? "FAIL " : "", emulated->name, bad ? "lacks" : "has", real->name,
           (unsigned long long)seed0);
    return bad;
}

#endif
