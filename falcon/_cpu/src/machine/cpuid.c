/* cpuid.c - which instruction sets can run here, and how large the caches are.
 *
 * An instruction set counts only if the CPU has it and the operating system
 * saves its registers (XGETBV; tiles also need permission, see amx.c).  registry.c
 * knows which kernels are built in.  Compiled with baseline flags: nothing in this
 * object may need an instruction set that it looks for.
 *
 * The answers are found once per process: CPUID traps in a virtual machine and
 * costs some 15 microseconds there, more than a whole small product.
 */
#include "../kernels/kernel.h"
#include "machine.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#define FALCON_X86 1

static uint64_t xgetbv0(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static int x86_supports(int isa) {
    unsigned a, b, c, d;
    if (isa == FALCON_GENERIC)
        return 1;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return 0;
    const unsigned fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
    if ((c & (fma | osxsave | avx | f16c)) != (fma | osxsave | avx | f16c))
        return 0;
    const uint64_t xcr0 = xgetbv0();
    if ((xcr0 & 0x6) != 0x6) /* XMM and YMM state */
        return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return 0;
    if (isa == FALCON_AVX2)
        return (b >> 5) & 1;
    if (isa == FALCON_AVX_VNNI)
        return (b >> 5 & 1) && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
    const unsigned need = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31 | 1u << 5; /* F DQ BW VL, AVX2 */
    if ((b & need) != need || (xcr0 & 0xe0) != 0xe0)                           /* opmask, ZMM state */
        return 0;
    if (isa == FALCON_AVX512_VNNI)
        return (c >> 11) & 1;
    if (isa == FALCON_AVX512_BF16)
        return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
    return isa == FALCON_AVX512;
}

/* Whether VDPBF16PS takes as long as four multiply-adds of as many float32: on Intel's from Sapphire Rapids on, where
 * AMX is for bfloat16 (2048^3 without it: 99 ms, by multiply-adds 55). */
static int x86_halves_bf16(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_INTEL_ebx)
        return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 23 & 1); /* AVX512_FP16 */
}

/* AMX and the vector instructions that its kernels use.  *refused: why not, if only the operating system prevents it.
 */
static int x86_tiles(int isa, const char **refused) {
    unsigned a, b, c, d;
    const int is_bf16 = isa == FALCON_AMX_BF16;
    if (!x86_supports(is_bf16 ? FALCON_AVX512_BF16 : FALCON_AVX512_VNNI) || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return 0;
    const unsigned need = 1u << 24 | 1u << (is_bf16 ? 22 : 25); /* AMX_TILE; AMX_BF16, AMX_INT8 */
    if ((d & need) != need)
        return 0;
    if ((xgetbv0() & 0x60000) != 0x60000) /* tile configuration and data */
        *refused = "the operating system does not save tile registers (Linux does from 5.16 on)";
    else
        *refused = fl_ask_for_tiles();
    return *refused == NULL;
}

/* Deterministic cache parameters: leaf 4 (Intel) or 0x8000001D (AMD). */
static void x86_caches(falcon_caches *out) {
    unsigned a, b, c, d;
    for (unsigned leaf = 4; leaf; leaf = leaf == 4 ? 0x8000001Du : 0) {
        if (leaf == 0x8000001Du &&
            (!__get_cpuid(0x80000001u, &a, &b, &c, &d) || !(c >> 22 & 1))) /* topology extensions */
            continue;
        for (unsigned i = 0; i < 8; i++) {
            if (!__get_cpuid_count(leaf, i, &a, &b, &c, &d) || (a & 31) == 0)
                break;
            if ((a & 31) == 2) /* instruction cache */
                continue;
            const ptrdiff_t bytes =
                (ptrdiff_t)((b >> 22) + 1) * ((b >> 12 & 0x3ff) + 1) * ((b & 0xfff) + 1) * ((ptrdiff_t)c + 1);
            const unsigned level = a >> 5 & 7;
            if (level == 1)
                out->l1d = bytes;
            else if (level == 2)
                out->l2 = bytes;
            else if (level == 3) {
                out->l3 = bytes;
                out->l3_sharers = (int)(a >> 14 & 0xfff) + 1;
            }
        }
        if (out->l1d && out->l2)
            return;
    }
}
#endif

#if defined(__aarch64__)
/* aarch64 always has NEON; Linux reports the rest (on other systems: only NEON). */
static int arm_supports(int isa) {
#ifdef __linux__
    enum { DOT_PRODUCTS = 1 << 20 };             /* of HWCAP */
    enum { I8MM = 1 << 13, BFLOAT16 = 1 << 14 }; /* of HWCAP2 */
    if (isa == FALCON_NEON_DOT)
        return (getauxval(AT_HWCAP) & DOT_PRODUCTS) != 0;
    if (isa == FALCON_NEON_I8MM)
        return (getauxval(AT_HWCAP2) & I8MM) != 0;
    if (isa == FALCON_NEON_BF16)
        return (getauxval(AT_HWCAP2) & BFLOAT16) != 0;
#endif
    return isa == FALCON_GENERIC || isa == FALCON_NEON;
}
#endif

static int detect_isa(int isa, const char **refused) {
    (void)refused;
#if defined(FALCON_X86)
    return isa == FALCON_AMX_INT8 || isa == FALCON_AMX_BF16 ? x86_tiles(isa, refused) : x86_supports(isa);
#elif defined(__aarch64__)
    return arm_supports(isa);
#else
    return isa == FALCON_GENERIC;
#endif
}

/* "512K" or "32768K" or "32M" in a sysfs file; 0 if it can't be read. */
static ptrdiff_t sysfs_bytes(int index, const char *what, char *text, size_t text_size) {
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, what);
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    long v = 0;
    char unit = 0;
    if (!fgets(text, (int)text_size, f))
        text[0] = 0;
    fclose(f);
    if (sscanf(text, "%ld%c", &v, &unit) < 1)
        return 0;
    return (ptrdiff_t)v * (unit == 'K' ? 1024 : unit == 'M' ? 1024 * 1024 : 1);
}

static void sysfs_caches(falcon_caches *out) {
    char text[64];
    for (int i = 0; i < 8; i++) {
        const ptrdiff_t level = sysfs_bytes(i, "level", text, sizeof text);
        const ptrdiff_t bytes = sysfs_bytes(i, "size", text, sizeof text);
        sysfs_bytes(i, "type", text, sizeof text);
        if (!level || !strncmp(text, "Instruction", 11))
            continue;
        ptrdiff_t *slot = level == 1 ? &out->l1d : level == 2 ? &out->l2 : level == 3 ? &out->l3 : NULL;
        if (slot && !*slot)
            *slot = bytes;
    }
}

static void detect_caches(falcon_caches *out) {
    memset(out, 0, sizeof *out);
#ifdef FALCON_X86
    x86_caches(out);
#endif
    if (!out->l1d || !out->l2)
        sysfs_caches(out);
    if (out->l1d <= 0)
        out->l1d = 32 << 10;
    if (out->l2 <= 0)
        out->l2 = 512 << 10;
    if (out->l3 <= 0)
        out->l3 = 8 << 20;
    if (out->l3_sharers <= 0)
        out->l3_sharers = 1;
}

/* Written once, before it is first read. */
static pthread_once_t found_once = PTHREAD_ONCE_INIT;
static struct {
    int isa[FALCON_N_ISA];
    const char *refused[FALCON_N_ISA];
    int slow[FALCON_N_ISA];
    falcon_caches caches;
} found;

static void detect(void) {
    for (int isa = 0; isa < FALCON_N_ISA; isa++)
        found.isa[isa] = detect_isa(isa, &found.refused[isa]);
#ifdef FALCON_X86
    found.slow[FALCON_AVX512_BF16] = found.isa[FALCON_AVX512_BF16] && x86_halves_bf16();
#endif
    detect_caches(&found.caches);
}

int fl_cpu_slow(int isa) {
    pthread_once(&found_once, detect);
    return found.slow[isa];
}

int fl_cpu_runs(int isa) {
    pthread_once(&found_once, detect);
    return found.isa[isa];
}

const char *fl_cpu_refused(int isa) {
    pthread_once(&found_once, detect);
    return found.refused[isa];
}

void falcon_cache_sizes(falcon_caches *out) {
    pthread_once(&found_once, detect);
    *out = found.caches;
}
