/* trap_tiles.c - AMX's instructions on an x86-64 CPU that has none: each traps, is decoded and emulated by tiles.h.
 *
 * Linked with the objects of kernels/amx_*.c as they are built, so that a machine with AVX-512 runs the real kernels:
 * encodings, order of operands, configuration and strides, at some microseconds a tile instruction.  Other
 * instructions that trap go to the previous signal handler.
 */
#define _GNU_SOURCE
#include "tiles.h"
#include <signal.h>
#include <ucontext.h>

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

static int execute(const instruction *x) {
    const int what = x->opcode << 4 | x->prefix << 1 | x->in_memory;
    switch (what) {
    case 0x491:
        configure(x->address);
        return 1;
    case 0x490: /* tilerelease */
        TILE_END();
        return x->reg == 0 && x->rm == 0;
    case 0x496:
        TILE_ZERO(x->reg);
        return 1;
    case 0x4b7:
        TILE_LOAD(x->reg, x->address, x->stride);
        return 1;
    case 0x4b5:
        TILE_STORE(x->reg, (void *)x->address, x->stride);
        return 1;
    case 0x5c4:
        bf16_TILE_DOT(x->reg, x->rm, x->vvvv);
        return 1;
    case 0x5e6:
        i8_TILE_DOT(x->reg, x->rm, x->vvvv);
        return 1;
    case 0x5e0:
        u8_TILE_DOT(x->reg, x->rm, x->vvvv);
        return 1;
    case 0x5e2:
        u8i8_TILE_DOT(x->reg, x->rm, x->vvvv);
        return 1;
    case 0x5e4:
        i8u8_TILE_DOT(x->reg, x->rm, x->vvvv);
        return 1;
    default:
        return 0;
    }
}

static struct sigaction before;

static void trapped(int signal, siginfo_t *info, void *context) {
    ucontext_t *at = context;
    instruction x;
    if (decode(at, &x) && execute(&x))
        at->uc_mcontext.gregs[REG_RIP] = (greg_t)x.next;
    else if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(signal, info, context);
    else
        sigaction(SIGILL, &before, NULL); /* and trap again */
}

/* Start to handle traps. */
void trap_tiles(void) {
    struct sigaction ours = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &ours, &before);
}
void untrap_tiles(void) {
    sigaction(SIGILL, &before, NULL);
}
