// Threads of a block that wait for one another: fibers, one after the other.
#include <cstdio>
#include <cstdlib>
#include <setjmp.h>
#include <ucontext.h>
#include <vector>

#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))

static void fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    abort();
}

namespace fibers {

// Entered once by its context, then by jumps, which take no system call.
struct Fiber {
    ucontext_t context;
    jmp_buf place;
    std::vector<char> stack;
    bool begun, done;
};
static ucontext_t unused;
static jmp_buf scheduler;
static Fiber *current;
static void yield() {
    if (!_setjmp(current->place))
        _longjmp(scheduler, 1);
}
static void resume(Fiber &x) {
    current = &x;
    if (_setjmp(scheduler))
        return;
    if (x.begun)
        _longjmp(x.place, 1);
    x.begun = true;
    swapcontext(&unused, &x.context);
}

static unsigned arrived, passed; // of a barrier of all threads
static void (*begin)(), (*between)(), (*end)();

} // namespace fibers

static void __syncthreads() {
    const unsigned own = fibers::passed;
    if (++fibers::arrived == blockDim.x * blockDim.y * blockDim.z)
        fibers::arrived = 0, ++fibers::passed;
    while (fibers::passed == own)
        fibers::yield();
}

template <class Thread> static void run_block(const unsigned *block, const Thread &thread) {
    static const Thread *of_block;
    of_block = &thread;
    fibers::arrived = 0;
    if (fibers::begin)
        fibers::begin();
    static std::vector<fibers::Fiber> all;
    const size_t threads = block[0] * block[1] * block[2], had = all.size();
    all.resize(threads);
    for (fibers::Fiber &x : all)
        x.done = false;
    for (size_t at = had; at < threads; ++at) { // each serves all later blocks
        fibers::Fiber &x = all[at];
        x.stack.resize(1 << 15), x.begun = false;
        getcontext(&x.context);
        x.context.uc_stack = {x.stack.data(), 0, x.stack.size()};
        x.context.uc_link = nullptr;
        makecontext(
            &x.context,
            +[] {
                for (;;) {
                    (*of_block)(threadIdx.x, threadIdx.y, threadIdx.z);
                    fibers::current->done = true;
                    fibers::yield();
                }
            },
            0);
    }
    for (bool live = true; live;) {
        live = false;
        for (unsigned at = 0; at < all.size(); ++at)
            if (!all[at].done) {
                live = true;
                threadIdx = {at % block[0], at / block[0] % block[1], at / block[0] / block[1]};
                fibers::resume(all[at]);
            }
        if (fibers::between)
            fibers::between();
    }
    if (fibers::end)
        fibers::end();
}
