"""A peer library in a process of its own: ``python -m falcon.bench.worker NAME``.

The environment that chooses a library's kernels (OPENBLAS_CORETYPE, MKL_*, OMP_*) must be set
before it is loaded, so every peer runs in a fresh process. Requests and replies are lines of
JSON::

    {"do": "describe"}                                      library, version, kernels, threads
    {"do": "prepare", "M":, "N":, "K":, "dtype":, "seed":}  make the operands, run once
    {"do": "time", "repeats": 1}                            seconds of the fastest of some calls
    {"do": "error"}                                         sampled RMS error, relative

The operands are made here, from the seed, so that peers and falcon multiply equal matrices that
each lie in memory of their own.
"""

from __future__ import annotations

import ctypes
import glob
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import falcon

from .measure import sampled_error
from .workloads import Shape, operands

Multiply = Callable[[np.ndarray, np.ndarray, np.ndarray], Callable[[], Any]]


def numpy_peer(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Callable[[], Any]:
    """NumPy's matmul, whatever BLAS it was built with."""
    return lambda: np.matmul(a, b, out=out)


def mkl_peer(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Callable[[], Any]:
    """Intel MKL's cblas_?gemm, from the PyPI package `mkl`."""
    library = _mkl()
    call = {"f": library.cblas_sgemm, "d": library.cblas_dgemm}[a.dtype.char]
    scalar = {"f": ctypes.c_float, "d": ctypes.c_double}[a.dtype.char]
    (m, k), n = a.shape, b.shape[1]
    row_major, no_transpose = 101, 111
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, out)]
    return lambda: call(
        row_major, no_transpose, no_transpose, m, n, k, scalar(1), pointers[0], k, pointers[1], n,
        scalar(0), pointers[2], n,
    )  # fmt: skip


def torch_peer(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Callable[[], Any]:
    """PyTorch's mm on the CPU."""
    import torch

    x, y, z = (torch.from_numpy(array) for array in (a, b, out))
    return lambda: torch.mm(x, y, out=z)


def onednn_peer(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Callable[[], Any]:
    """Call oneDNN's float32 inner product through PyTorch; weights are stored (N, K)."""
    import torch

    x = torch.from_numpy(a).to_mkldnn()
    weight = torch.from_numpy(np.ascontiguousarray(b.T)).to_mkldnn()
    target = torch.from_numpy(out)

    def run() -> None:
        target.copy_(torch._C._nn.mkldnn_linear(x, weight, None).to_dense())

    return run


def falcon_peer(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Callable[[], Any]:
    """Run falcon as the FALCON_* variables say."""
    return lambda: falcon.gemm(a, b, out=out)


def falcon_packed_peer(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Callable[[], Any]:
    """Run falcon with B packed beforehand, which is not timed."""
    packed = falcon.pack(b, rows=a.shape[0])
    return lambda: falcon.gemm(a, packed, out=out)


PEERS: dict[str, Multiply] = {
    "falcon": falcon_peer,
    "falcon packed": falcon_packed_peer,
    "numpy": numpy_peer,
    "mkl": mkl_peer,
    "torch": torch_peer,
    "onednn": onednn_peer,
}


def _mkl() -> ctypes.CDLL:
    pattern = os.path.join(sys.prefix, "lib", "libmkl_rt.so*")
    found = sorted(glob.glob(pattern))
    if not found:
        raise ImportError(f"no {pattern}")
    return ctypes.CDLL(found[0], mode=ctypes.RTLD_GLOBAL)


def describe(name: str) -> dict[str, Any]:
    """Library, version, kernel architecture and threads of a peer in this process."""
    from threadpoolctl import threadpool_info

    pools = [
        {key: pool.get(key) for key in ("internal_api", "version", "architecture", "num_threads")}
        for pool in threadpool_info()
    ]
    found: dict[str, Any] = {"peer": name, "numpy": np.__version__, "pools": pools}
    if name.startswith("falcon"):
        found["falcon"] = falcon.show_config("dict")
    if name in ("torch", "onednn"):
        import torch

        found["torch"] = torch.__version__
        found["threads"] = torch.get_num_threads()
        found["capability"] = torch.backends.cpu.get_cpu_capability()
    return found


def main() -> int:
    """Serve requests from standard input until it closes."""
    name = sys.argv[1]
    try:
        if name == "mkl":
            _mkl()
        elif name in ("torch", "onednn"):
            import torch  # noqa: F401
    except ImportError as error:
        print(json.dumps({"absent": str(error)}), flush=True)
        return 0
    print(json.dumps({"ready": name}), flush=True)
    call: Callable[[], Any] | None = None
    arrays: tuple[Any, ...] = ()
    for line in sys.stdin:
        request = json.loads(line)
        reply: dict[str, Any] = {}
        try:
            if request["do"] == "describe":
                reply = describe(name)
            elif request["do"] == "prepare":
                call, arrays = None, ()
                shape = Shape(request["M"], request["N"], request["K"])
                a, b = operands(shape, np.dtype(request["dtype"]), request["seed"])
                out = np.empty((shape.M, shape.N), a.dtype)
                call, arrays = PEERS[name](a, b, out), (a, b, out)
                call()
            elif request["do"] == "time" and call is not None:
                best = float("inf")
                for _ in range(request["repeats"]):
                    start = time.perf_counter()
                    call()
                    best = min(best, time.perf_counter() - start)
                reply = {"seconds": best}
            elif request["do"] == "error":
                a, b, out = arrays
                reply = {"error": sampled_error(a, b, out)}
        except Exception as error:  # reported to the parent, which names the peer
            reply = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
