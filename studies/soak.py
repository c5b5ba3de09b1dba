"""Random calls from several threads, while settings and limits change: ``python studies/soak.py``.

    --seconds S        how long (600)

Every result is compared, and memory must not grow; the exit status is 1 if it does. On Linux.
"""

import argparse
import ctypes
import gc
import os
import random
import sys
import threading
import time
from contextlib import suppress

import numpy as np
from threadpoolctl import threadpool_limits

import falcon

WORKERS = 4
# What the caches of memory and of plans may still grow by, once they are warm.
GROWTH = 48 * 2**20
SCHEMES = ["auto", "auto", "classical", "strassen", "winograd", "3x4x4:38", "2x3x3:15"]
# Few enough that the caches of plans are soon full, and memory must be flat from then on.
SHAPES = [
    (1, 64, 700),
    (3, 700, 120),
    (17, 64, 1),
    (120, 257, 400),
    (400, 400, 400),
    (700, 257, 700),
]
DTYPES = [np.float32, np.float32, np.float64, np.complex64, np.int64, np.float16]


def resident():
    """Bytes in use, without those that the allocator keeps of what was freed."""
    gc.collect()
    with suppress(OSError, AttributeError):  # glibc has it
        ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Soak:
    """Random calls; each checks its own result."""

    def __init__(self):
        self.end, self.calls, self.failure = 0.0, 0, None

    def run(self, seconds):
        """Work on `WORKERS` threads for so long; raises what a worker raised."""
        self.end = time.monotonic() + seconds
        workers = [threading.Thread(target=self.work, args=(i,)) for i in range(WORKERS)]
        for worker in workers:
            worker.start()
        while any(x.is_alive() for x in workers):
            time.sleep(0.5)
            with threadpool_limits(random.choice([1, 2, 8])):
                time.sleep(0.2)
        for worker in workers:
            worker.join()
        if self.failure is not None:
            raise self.failure

    def work(self, seed):
        rng = random.Random(seed + 1000 * self.calls)
        steps = [self.multiply] * 8 + [self.packed, self.planned, self.settings]
        try:
            while time.monotonic() < self.end and self.failure is None:
                rng.choice(steps)(rng)
                self.calls += 1
        except BaseException as error:
            self.failure = error

    def operands(self, rng, dtype=None):
        dtype = dtype or rng.choice(DTYPES)
        M, N, K = rng.choice(SHAPES)
        random = np.random.default_rng(rng.randrange(2**32))
        return tuple(random.integers(-4, 5, shape).astype(dtype) for shape in ((M, K), (K, N)))

    def check(self, product, a, b, alpha=1):
        exact = alpha * (a.astype(np.complex128) @ b.astype(np.complex128))
        if product.dtype.kind in "iu":
            np.testing.assert_array_equal(product, exact.real.astype(product.dtype))
        else:
            eps = 400 * np.finfo(product.dtype).eps * max(a.shape[1], 8)
            np.testing.assert_allclose(product, exact, atol=16 * eps, rtol=eps)

    def multiply(self, rng):
        a, b = self.operands(rng)
        call = {"scheme": rng.choice(SCHEMES), "threads": rng.choice([None, 1, 2, 5])}
        if a.dtype == np.float16:
            call["scheme"] = "classical"
        if rng.random() < 0.2:
            call["check"] = rng.choice(["verify", "none"])
        out = np.empty((a.shape[0], b.shape[1]), a.dtype) if rng.random() < 0.5 else None
        if rng.random() < 0.5:
            self.check(falcon.gemm(a, b, alpha=2, out=out, **call), a, b, 2)
        else:
            self.check(falcon.matmul(a, b, out=out, **call), a, b)

    def packed(self, rng):
        a, b = self.operands(rng, rng.choice([np.float32, np.float64]))
        packed = falcon.pack(b, scheme=rng.choice(SCHEMES))
        for _ in range(3):
            self.check(falcon.gemm(a, packed), a, b)

    def planned(self, rng):
        a, b = self.operands(rng, np.float32)
        plan = falcon.plan(a, b, scheme=rng.choice(SCHEMES))
        self.check(plan(a, b), a, b)

    def settings(self, rng):
        with falcon.config(scheme=rng.choice(SCHEMES[:5]), threads=rng.choice([None, 1, 2])):
            self.multiply(rng)
        falcon.set_config(max_growth=rng.choice([1.0, 4.0, 8.0]), tuned=rng.random() < 0.5)
        if rng.random() < 0.1:
            falcon.release_workspace()


def main():
    """Print the calls and what memory grew by; return whether that is too much."""
    parser = argparse.ArgumentParser(description=__doc__, usage="studies/soak.py")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seconds", type=float, default=600)
    seconds, soak = parser.parse_args().seconds, Soak()
    soak.run(seconds / 3)  # warms up what is kept on purpose
    warm, calls = resident(), soak.calls
    soak.run(2 * seconds / 3)
    grown = resident() - warm
    print(f"{soak.calls} calls ({calls} to warm up), memory grown by {grown / 2**20:.1f} MiB")
    return grown >= GROWTH


if __name__ == "__main__":
    sys.exit(main())
