"""Host microseconds per call on GPU arrays: ``python -m tests.gpu.host_time``.

The stand-in for CuPy with everything left out that a GPU would do: kernels and memory cost nothing,
cuBLAS is a C library of empty functions, so that ctypes does all that it has to. What is timed is
falcon's own Python, and the stand-in's attributes of arrays in place of CuPy's. CuPy's launches
come on top: some microseconds each, on a machine with a GPU.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import falcon
from falcon._gpu import cublas, driver
from falcon._gpu.matrix import Memory

from . import fake_cublas, fake_cupy
from .support import kind

SIZE = 2048
# Issue 31: at most so many microseconds with a scheme that is named, and without.
TARGETS = {"strassen": 25.0, "classical": 12.0}
_ROUNDS = 50


class Module:
    """A compiled source whose kernels do nothing."""

    def __init__(self, **_):
        pass

    def get_function(self, name):
        return lambda grid, block, arguments: None


def empty_cublas(folder):
    """Compile cuBLAS's functions without their bodies."""
    names = [*cublas._ARGUMENTS, "cublasGetStatusString"]
    path = Path(folder, "libempty.so")
    text = "\n".join(f'extern "C" long {name}() {{ return 0; }}' for name in names)
    command = [fake_cupy.COMPILER, "-shared", "-fPIC", "-x", "c++", "-o", str(path), "-"]
    subprocess.run(command, input=text, text=True, check=True)
    return ctypes.CDLL(str(path))


@contextmanager
def nothing_runs():
    """Replace CuPy by the stand-in, and kernels and memory by empty functions."""
    held = np.empty(2**20, np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FALCON_CACHE_DIR"] = folder
        library = empty_cublas(folder)
        sys.modules.update(fake_cupy.modules())
        cupy = sys.modules["cupy"]
        cupy.RawModule = Module
        cupy.cuda.runtime.memsetAsync = lambda *_: None
        cublas.load = lambda major: library
        driver.device.allocate = lambda nbytes: Memory(2**30, nbytes, held)
        fake_cublas.STATE.owner = lambda pointer: 0
        yield cupy


def microseconds(call, calls):
    """Return the host's least time per call over rounds; other processes may slow down the rest."""
    for _ in range(5):
        call()
    rounds = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter() - start) / calls)
    return 1e6 * min(rounds)


def calls(cupy, dtype):
    """What is timed, by name."""
    a, b, c = (cupy.empty((SIZE, SIZE), kind(dtype)) for _ in range(3))
    packed = falcon.pack(b, scheme="strassen")
    plan = falcon.plan(a, b, scheme="strassen")
    return {
        "classical": lambda: falcon.gemm(a, b, out=c, scheme="classical"),
        "strassen": lambda: falcon.gemm(a, b, out=c, scheme="strassen"),
        "strassen, B packed": lambda: falcon.gemm(a, packed, out=c),
        "strassen, C += A B": lambda: falcon.gemm(a, b, c, beta=1.0, out=c, scheme="strassen"),
        "strassen, by matmul": lambda: falcon.matmul(a, b, out=c, scheme="strassen"),
        "strassen, by a plan": lambda: plan(a, b, out=c),
        "3x4x4:38": lambda: falcon.gemm(a, b, out=c, scheme="3x4x4:38"),
    }


def main():
    """Print a line per way of calling."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--calls", type=int, default=100, help="per round (default 100)")
    options = parser.parse_args()
    if fake_cupy.COMPILER is None:
        sys.exit("this needs a C++ compiler")
    with nothing_runs() as cupy:
        for name, call in calls(cupy, options.dtype).items():
            target = f"  (target {TARGETS[name]:.0f})" if name in TARGETS else ""
            print(f"{name:22}{microseconds(call, options.calls):8.1f} us{target}", flush=True)


if __name__ == "__main__":
    main()
