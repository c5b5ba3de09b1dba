"""The host's time per call on a GPU, with launches replaced by nothing: ``studies/gpu_host.py``.

On the stand-in for CuPy of the tests, for which the repository must be in PYTHONPATH; products pass
through ctypes.
"""

import argparse
import ctypes
import subprocess
import sys
import tempfile
import types
from timeit import repeat

import numpy as np

import falcon
from falcon._front import calls
from falcon._gpu import cublas, direct, fused, rates
from falcon.decision import methods, ways
from tests.gpu import fake_cupy, fake_driver

# So slow products that "auto" takes a scheme.
RATES = rates.DeviceRates(1e12, 1e12, 1e12, 4e12, 3e-6, 132, 50 * 2**20)
SIZE, CALLS, ROUNDS = 4096, 200, 15


class Kernel:
    """One that CuPy or the driver launches, and that does nothing."""

    kernel = types.SimpleNamespace(ptr=1)

    def __call__(self, *_, **__):
        pass


def do_nothing():
    """Replace kernels, fills and cuBLAS's functions."""
    sys.modules |= fake_cupy.modules()
    fake_cupy.RawModule.get_function = lambda *_: Kernel()
    sys.modules["cupy"].cuda.runtime.memsetAsync = lambda *_: None
    text = "char *cublasGetStatusString() { return 0; }\n"
    text += "int cublasCreate_v2(void **made) { *made = made; return 0; }\n"
    others = (x for x in cublas._ARGUMENTS if x != "cublasCreate_v2")
    text += "".join(f"int {x}() {{ return 0; }}\n" for x in (*others, "cuLaunchKernel"))
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        command = [fake_cupy.COMPILER, "-x", "c", "-shared", "-fPIC", "-o", file.name, "-"]
        subprocess.run(command, input=text, text=True, check=True)
        library = ctypes.CDLL(file.name)
    library.cuTensorMapEncodeTiled = fake_driver.cuTensorMapEncodeTiled
    cublas.load, fused.load = lambda major: library, lambda: library
    fused.trial.found[0] = direct.trial.found[0] = True
    ways.rates = methods.rates = lambda *_, **__: RATES


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", action="store_true", help="plan every call")
    planned = parser.parse_args().plan
    do_nothing()
    a, b, out = (sys.modules["cupy"].empty((SIZE, SIZE), np.float32) for _ in range(3))
    packed, empty, kept = falcon.pack(b), fake_cupy.empty, {}
    sys.modules["cupy"].empty = lambda shape, dtype: (  # a pool hands memory out again at once
        kept.get(shape) or kept.setdefault(shape, empty(shape, dtype)))  # fmt: skip
    cases = {"classical": b, "strassen": b, "3x4x4:38": b, "auto": b, "auto, packed": packed}
    for name, right in cases.items():
        options = {} if name.startswith("auto") else {"scheme": name}
        chosen = falcon.plan(a, right, **options).label if name.startswith("auto") else ""

        def call(right=right, options=options):
            if planned:
                calls._libraries.clear()
            falcon.gemm(a, right, out=out, **options)

        times = sorted(repeat(call, number=CALLS, repeat=ROUNDS))
        print(f"{name:<14} {chosen:<20} {1e6 * times[ROUNDS // 2] / CALLS:6.1f} us")


if __name__ == "__main__":
    main()
