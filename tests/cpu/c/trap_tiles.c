/* trap_tiles.c - AMX's instructions in a process that may not use them: each traps, is decoded and emulated by tiles.h.
 *
 * Linked with the objects of kernels/amx_*.c as they are built, so that a machine with AVX-512 runs the real kernels:
 * encodings, order of operands, configuration and strides, at some microseconds a tile instruction.  Another
 * instruction that traps is named, and ends the process.
 *
 * On a CPU with AMX, Linux lets tile data trap in a process that has not asked for it, but not the configuration: the
 * CPU itself then keeps that, and its order is not checked here.
 */
#define _GNU_SOURCE
#include "tiles.h"
#include <dlfcn.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

/* A VEX-coded instruction with the opcode map 0F38, as far as AMX goes. */
typedef struct {
    int prefix; /* 0: none, 1: 66, 2: F3, 3: F2 */
    int opcode, in_memory, reg, rm, vvvv;
    const uint8_t *address;
    ptrdiff_t stride;
    const uint8_t *next;
} instruction;

static uint64_t value_of(const ucontext_t *at, int reg) {
    static const int names[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return (uint64_t)at->uc_mcontext.gregs[names[reg]];
}

/* The memory operand after the ModRM byte at p: base + displacement, and a register that holds the stride. */
static const uint8_t *memory_operand(const ucontext_t *at, const uint8_t *p, int not_x, int not_b, instruction *x) {
    const int mod = p[0] >> 6, has_sib = (p[0] & 7) == 4;
    int base = p[0] & 7, index = 4;
    const uint8_t *next = p + 1;
    if (has_sib)
        base = *next & 7, index = (*next >> 3 & 7) | (not_x ? 0 : 8), next++;
    int32_t displacement = 0;
    if (mod == 1)
        displacement = (int8_t)*next++;
    if (mod == 2 || (mod == 0 && base == 5)) /* without a base: relative to the next instruction */
        memcpy(&displacement, next, 4), next += 4;
    const int relative = mod == 0 && base == 5 && !has_sib;
    if (mod == 0 && base == 5 && has_sib)
        return NULL;
    x->stride = index == 4 ? 0 : (ptrdiff_t)value_of(at, index) << (p[1] >> 6);
    x->address = (relative ? next : (const uint8_t *)value_of(at, base | (not_b ? 0 : 8))) + displacement;
    return next;
}

static int decode(const ucontext_t *at, instruction *x) {
    const uint8_t *p = (const uint8_t *)at->uc_mcontext.gregs[REG_RIP];
    if (p[0] != 0xc4 || (p[1] & 31) != 2 || p[2] & 0x84) /* three-byte VEX, 0F38, W0, 128 bits */
        return 0;
    *x = (instruction){.prefix = p[2] & 3, .opcode = p[3], .vvvv = ~(p[2] >> 3) & 15};
    x->reg = p[4] >> 3 & 7, x->rm = p[4] & 7, x->in_memory = p[4] >> 6 != 3;
    x->next = x->in_memory ? memory_operand(at, p + 4, p[1] >> 6 & 1, p[1] >> 5 & 1, x) : p + 5;
    return x->next != NULL;
}

/* Kernels use palette 1 with eight tiles of 16 rows of 64 bytes only. */
static void configure(const uint8_t *bytes) {
    int good = bytes[0] == 1 && bytes[1] == 0;
    for (int t = 0; t < 8; t++)
        good &= bytes[16 + 2 * t] == 64 && bytes[17 + 2 * t] == 0 && bytes[48 + t] == 16;
    if (!good)
        tiles_end("another configuration than that of the kernels");
    tiles_begin();
}

/* What each instruction does; it is known by its opcode, its prefix and whether an operand is in memory. */
#define INSTRUCTIONS(X)                                                                                                \
    X(0x491, configure(x->address))                                                                                    \
    X(0x490, TILE_END())                                                                                               \
    X(0x496, TILE_ZERO(x->reg))                                                                                        \
    X(0x4b7, TILE_LOAD(x->reg, x->address, x->stride))                                                                 \
    X(0x4b3, TILE_STREAM(x->reg, x->address, x->stride))                                                               \
    X(0x4b5, TILE_STORE(x->reg, (void *)x->address, x->stride))                                                        \
    X(0x5c4, bf16_TILE_DOT(x->reg, x->rm, x->vvvv))                                                                    \
    X(0x5e6, i8_TILE_DOT(x->reg, x->rm, x->vvvv))                                                                      \
    X(0x5e0, u8_TILE_DOT(x->reg, x->rm, x->vvvv))                                                                      \
    X(0x5e2, u8i8_TILE_DOT(x->reg, x->rm, x->vvvv))                                                                    \
    X(0x5e4, i8u8_TILE_DOT(x->reg, x->rm, x->vvvv))

/* Whether the instruction is one of them; it is executed if told so. */
static int execute(const instruction *x, int really) {
    switch (x->opcode << 4 | x->prefix << 1 | x->in_memory) {
#define X(code, action)                                                                                                \
    case code:                                                                                                         \
        if (really)                                                                                                    \
            action;                                                                                                    \
        return 1;
        INSTRUCTIONS(X)
#undef X
    default:
        return 0;
    }
}

/* The bytes that the instruction at p takes if it is emulated, else 0. */
int trap_tiles_knows(const uint8_t *p) {
    ucontext_t at = {0};
    at.uc_mcontext.gregs[REG_RIP] = (greg_t)p;
    instruction x;
    return decode(&at, &x) && execute(&x, 0) ? (int)(x.next - p) : 0;
}

static int configured_by_cpu;

static void trapped(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ucontext_t *at = context;
    instruction x;
    tiles.configured |= configured_by_cpu;
    if (decode(at, &x) && execute(&x, 1)) {
        at->uc_mcontext.gregs[REG_RIP] = (greg_t)x.next;
        return;
    }
    const uint8_t *p = (const uint8_t *)at->uc_mcontext.gregs[REG_RIP];
    Dl_info file = {0};
    dladdr(p, &file);
    fprintf(stderr, "trap_tiles: an instruction that is not emulated, at %p (%s + %#tx):", (const void *)p,
            file.dli_fname ? file.dli_fname : "no file", p - (const uint8_t *)file.dli_fbase);
    for (int i = 0; i < 10; i++)
        fprintf(stderr, " %02x", p[i]);
    fprintf(stderr, "\n");
    _exit(1);
}

/* Handle traps from now on. */
void trap_tiles(void) {
    struct sigaction ours = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &ours, NULL);
    static const uint8_t all[64] = {[0] = 1,   [16] = 64, [18] = 64, [20] = 64, [22] = 64, [24] = 64,
                                    [26] = 64, [28] = 64, [30] = 64, [48] = 16, 16,        16,
                                    16,        16,        16,        16,        16};
    __asm__ volatile("ldtilecfg %0" ::"m"(all));
    configured_by_cpu = !tiles.configured;
    __asm__ volatile("tilerelease");
}
