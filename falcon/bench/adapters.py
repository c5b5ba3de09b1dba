"""How each peer multiplies: ``adapter(a, b, out)`` returns the call to be timed.

What a library needs once for given operands (tensors, packed copies) is prepared before; the
product is in `out` after the call, or after ``Job.fetch`` if it is elsewhere.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from importlib.metadata import version as version_of
from typing import Any

import numpy as np

import falcon
from falcon._core.dtypes import FLOAT64, of
from falcon._core.options import thread_count
from falcon._front.info import numpy_blas


@dataclass(frozen=True, slots=True)
class Job:
    """The call to be timed, and a call that copies the product to `out` if that is needed."""

    run: Callable[[], Any]
    fetch: Callable[[], Any] = lambda: None


Adapter = Callable[[np.ndarray, np.ndarray, np.ndarray], Job]
_ROW_MAJOR, _NO_TRANSPOSE, _ONE_OFFSET = 101, 111, 173  # of CBLAS


def with_numpy(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """NumPy's matmul, whatever BLAS it was built with."""
    return Job(lambda: np.matmul(a, b, out=out))


def with_mkl(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """Run MKL's product, from PyPI's package `mkl`; of bfloat16 and int8 with wider sums.

    The product of integers takes an unsigned A by rows, and a number that it adds to all of A: so
    the highest bit of A's elements is flipped before, and -128 is added.
    """
    library, row = mkl_library(), of(a.dtype)
    (m, k), n = a.shape, b.shape[1]
    x = a.view(np.uint8) ^ 0x80 if row.is_exact else a
    product = out if row.blas else np.empty((m, n), row.wide[0].numpy)
    scalars, offset = np.array([1, 0], a.dtype), np.zeros(1, np.int32)
    arrays = x, b, product, offset, scalars[:1], scalars[1:]
    alpha: Any
    beta: Any
    left, right, result, zero, alpha, beta = (ctypes.c_void_p(y.ctypes.data) for y in arrays)
    if not row.is_complex:  # complex scalars are passed by address
        real = ctypes.c_double if row is FLOAT64 else ctypes.c_float
        alpha, beta = real(1), real(0)
    arguments: tuple[Any, ...] = (m, n, k, alpha, left, k, right, n, beta, result, n)
    if row.is_exact:
        call, left_offset, right_offset = library.cblas_gemm_s8u8s32, *map(ctypes.c_byte, (-128, 0))
        arguments = (_ONE_OFFSET, m, n, k, alpha, left, k, left_offset, right, n, right_offset,
                     beta, result, n, zero)  # fmt: skip
    else:
        call = library[f"cblas_{row.blas}gemm" if row.blas else "cblas_gemm_bf16bf16f32"]

    def run(_keep: Any = arrays) -> None:
        call(_ROW_MAJOR, _NO_TRANSPOSE, _NO_TRANSPOSE, *arguments)

    return Job(run, lambda: np.copyto(out, product, casting="same_kind"))


def mkl_library() -> ctypes.CDLL:
    """Load mkl_rt, MKL's single library for all interfaces.

    Raises ImportError: the package `mkl` is not installed, or holds no such library.
    """
    try:
        found = [x for x in files("mkl") or () if x.name.startswith(("libmkl_rt.", "mkl_rt."))]
    except PackageNotFoundError:
        raise ImportError("the package mkl is not installed") from None
    if not found:
        raise ImportError("the package mkl holds no library mkl_rt")
    return ctypes.CDLL(str(found[0].locate()), mode=ctypes.RTLD_GLOBAL)


def with_torch(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """PyTorch's mm on the CPU; _int_mm for int8, with sums in int32."""
    import torch

    x, y, z = _tensors(a, b, out)
    multiply = torch._int_mm if of(a.dtype).is_exact else torch.mm
    return Job(lambda: multiply(x, y, out=z))


def with_onednn(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """Run oneDNN's float32 inner product through PyTorch.

    The weights have the layout (N, K), as a linear layer stores them: oneDNN is faster with it than
    with that of B. The product is a new tensor, as in a layer; `fetch` copies it.
    """
    import torch

    x, y, z = _tensors(a, b, out)
    weight = y.t().contiguous()
    linear = torch.ops.mkldnn._linear_pointwise
    product = [z]

    def run() -> None:
        product[0] = linear(x, weight, None, "none", [], "")

    return Job(run, lambda: z.copy_(product[0]))


def with_falcon(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """Run falcon with the settings of the FALCON_* variables."""
    return Job(lambda: falcon.gemm(a, b, out=out, dtype=out.dtype))


def _tensors(*arrays: np.ndarray) -> list[Any]:
    import warnings

    import torch

    with warnings.catch_warnings():  # read-only arrays, which nothing here writes to
        warnings.simplefilter("ignore")
        return [
            torch.from_numpy(x)
            if of(x.dtype).module == "numpy"
            else torch.from_numpy(x.view(np.int16)).view(getattr(torch, of(x.dtype).name))
            for x in arrays
        ]


ADAPTERS: dict[str, Adapter] = {
    "falcon": with_falcon,
    "numpy": with_numpy,
    "mkl": with_mkl,
    "torch": with_torch,
    "onednn": with_onednn,
}


def about(name: str, dtype: str) -> dict[str, Any]:
    """Return library, version, number of threads and kernel, as the library tells them.

    It has multiplied before, because some libraries load their kernels only then.
    """
    threads = thread_count()
    if name == "falcon":
        known: Any = falcon.show_config("dict")["cpu kernels"]  # type: ignore[index]
        kernel = known.get(f"{of(dtype).engine} kernel", "NumPy's BLAS")
        library, version = "falcon", falcon.__version__
    elif name == "mkl":
        library, version, kernel = "oneMKL", version_of("mkl"), _mkl_kernels()
    elif name == "numpy":
        library, (version, _, kernel) = "NumPy", numpy_blas().partition(", ")
        version = f"{np.__version__} ({version})"
        kernel = kernel.removesuffix(" kernels")
    else:
        import torch

        library = "PyTorch mm" if name == "torch" else "PyTorch's oneDNN"
        version, threads = torch.__version__, torch.get_num_threads()
        kernel = torch.backends.cpu.get_cpu_capability()
    return {"library": library, "version": version, "threads": threads, "kernel": kernel}


def _mkl_kernels() -> str:
    """Return which of MKL's libraries of kernels this process has loaded."""
    with suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        found = re.search(r"libmkl_(def|mc3|avx2|avx512)\w*", file.read())
        return found[0] if found else "?"
    return "?"
