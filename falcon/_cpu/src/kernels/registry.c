/* registry.c - the one table (instruction set, type) -> kernel.
 *
 * ../../sources.py lists the kernels of each instruction set; the header that it
 * writes names those that are linked.  Compiled with baseline flags.
 */
#include "../machine/machine.h"
#include "kernel.h"

#define DECLARE(ISA, DTYPE, isa, dtype) extern const falcon_kernel falcon_kernel_##isa##_##dtype;
FALCON_KERNELS(DECLARE)

#define ENTER(ISA, DTYPE, isa, dtype) [FALCON_##ISA][FALCON_##DTYPE] = &falcon_kernel_##isa##_##dtype,
static const falcon_kernel *const kernels[FALCON_N_ISA][FALCON_N_DTYPE] = {FALCON_KERNELS(ENTER)};

/* What falcon_kernel_put has put in their place. */
static const falcon_kernel *for_test[FALCON_N_ISA][FALCON_N_DTYPE];

static const char *const isa_names[FALCON_N_ISA] = FALCON_ISA_NAMES;
static const char *const dtype_names[FALCON_N_DTYPE] = FALCON_DTYPE_NAMES;

const char *falcon_isa_name(int isa) {
    return isa_names[isa];
}

const char *falcon_dtype_name(int dtype) {
    return dtype_names[dtype];
}

const falcon_kernel *falcon_kernel_get(int isa, int dtype) {
    return for_test[isa][dtype] ? for_test[isa][dtype] : fl_cpu_runs(isa) ? kernels[isa][dtype] : NULL;
}

void falcon_kernel_put(int isa, int dtype, const falcon_kernel *kern) {
    for_test[isa][dtype] = kern;
}

const char *falcon_isa_refused(int isa) {
    for (int dtype = 0; dtype < FALCON_N_DTYPE; dtype++)
        if (kernels[isa][dtype])
            return fl_cpu_refused(isa);
    return NULL;
}

const falcon_kernel *falcon_kernel_best(int most, int dtype) {
    const falcon_kernel *found = NULL;
    for (int isa = most; isa >= 0 && !found; isa--)
        if (isa == most || !fl_cpu_slow(isa))
            found = falcon_kernel_get(isa, dtype);
    return found;
}

int falcon_isa_supported(int isa) {
    for (int dtype = 0; dtype < FALCON_N_DTYPE; dtype++)
        if (falcon_kernel_get(isa, dtype))
            return 1;
    return 0;
}

int falcon_isa_best(void) {
    int isa = FALCON_N_ISA - 1;
    while (!falcon_isa_supported(isa) || fl_cpu_slow(isa))
        isa--; /* the portable kernels are always there */
    return isa;
}
