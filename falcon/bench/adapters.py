"""Libraries to compare with: what each multiplies, how, and what it tells of itself.

To add one: an entry of `LIBRARIES`.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, files
from importlib.metadata import version as version_of
from typing import Any

import numpy as np

import falcon
from falcon._backends import ENGINE
from falcon._core import dtypes
from falcon._core.dtypes import FLOAT32, FLOAT64, DType, dtype_of
from falcon._core.options import thread_count
from falcon._front.adapters.host import tensor_of
from falcon._numpy.rates import blas_name
from falcon._numpy.threads import numpy_blas


@dataclass(frozen=True, slots=True)
class Job:
    """The call to be timed, and a call that copies the product to `out` if that is needed."""

    run: Callable[[], Any]
    fetch: Callable[[], Any] = lambda: None


@dataclass(frozen=True, slots=True)
class Library:
    """A library, or one of its products."""

    package: str  # what pip installs
    dtypes: tuple[str, ...]  # that it multiplies
    # Given A, B and an array for C, returns the call to be timed. What the library needs once for
    # given operands (tensors, packed copies) is made before; the product is in C after the call, or
    # after `Job.fetch` if it is elsewhere.
    job: Callable[[np.ndarray, np.ndarray, np.ndarray], Job]
    # Given a dtype in which it has multiplied, as some libraries load their kernels only then,
    # returns what the library tells: its name (library), version, kernel and number of threads.
    describe: Callable[[DType], dict[str, Any]]
    batches: bool = True  # whether `job` multiplies them


_ROW_MAJOR, _NO_TRANSPOSE, _ONE_OFFSET = 101, 111, 173  # of CBLAS


def with_numpy(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """NumPy's matmul, whatever BLAS it was built with."""
    return Job(lambda: np.matmul(a, b, out=out))


def with_mkl(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """Run MKL's product, from PyPI's package `mkl`; of bfloat16 and int8 with wider sums.

    The product of integers takes an unsigned A by rows, and a number that it adds to all of A: so
    the highest bit of A's elements is flipped before, and -128 is added.
    """
    library, row = mkl_library(), dtype_of(a.dtype)
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
        held = [x for x in files("mkl") or () if x.name.startswith(("libmkl_rt.", "mkl_rt."))]
    except PackageNotFoundError:
        raise ImportError("the package mkl is not installed") from None
    if not held:
        raise ImportError("the package mkl holds no library mkl_rt")
    return ctypes.CDLL(str(held[0].locate()), mode=ctypes.RTLD_GLOBAL)


def with_torch(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """PyTorch's mm (bmm for a batch) on the CPU; _int_mm for int8, with sums in int32."""
    import torch

    x, y, z = _tensors(a, b, out)
    multiply = torch.mm if a.ndim == 2 else torch.bmm
    multiply = torch._int_mm if dtype_of(a.dtype).is_exact else multiply
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
    multiply = falcon.gemm if a.ndim == 2 else falcon.matmul
    return Job(lambda: multiply(a, b, out=out, dtype=out.dtype))


def _tensors(*arrays: np.ndarray) -> list[Any]:
    import warnings

    with warnings.catch_warnings():  # read-only arrays, which nothing here writes to
        warnings.simplefilter("ignore")
        return [tensor_of(x) for x in arrays]


# --- what they tell of themselves ----------------------------------------------------------------


def _described(library: str, version: str, kernel: str, threads: int | None) -> dict[str, Any]:
    return {"library": library, "version": version, "kernel": kernel, "threads": threads}


def _describe_falcon(dtype: DType) -> dict[str, Any]:
    kernel = ENGINE.describe().get(f"{dtype.engine} kernel", "NumPy's BLAS")
    return _described("falcon", falcon.__version__, kernel, thread_count())


def _describe_numpy(dtype: DType) -> dict[str, Any]:
    name, _, kernel = blas_name().partition(", ")
    version = f"{np.__version__} ({name})"
    if not dtype.has_blas:
        return _described("NumPy", version, "NumPy's loops", 1)
    blas = numpy_blas()
    threads = None if blas is None else blas.get()
    return _described("NumPy", version, kernel.removesuffix(" kernels"), threads)


def _describe_mkl(_dtype: DType) -> dict[str, Any]:
    kernel = "?"  # which of MKL's libraries of kernels this process has loaded
    with suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        kernel = (re.findall(r"libmkl_(?:def|mc3|avx2|avx512)\w*", file.read()) or ["?"])[0]
    return _described("oneMKL", version_of("mkl"), kernel, thread_count())


def _describe_torch(library: str, _dtype: DType) -> dict[str, Any]:
    import torch

    kernel = torch.backends.cpu.get_cpu_capability()
    return _described(library, torch.__version__, kernel, torch.get_num_threads())


_BLAS = tuple(row.name for row in dtypes.TABLE if row.has_blas)
# Small types for which libraries have products, with wider sums.
_SMALL = tuple(x.name for x in (dtypes.FLOAT16, dtypes.BFLOAT16, dtypes.INT8))
LIBRARIES = {
    "falcon": Library("falcon-gemm", (*_BLAS, *_SMALL), with_falcon, _describe_falcon),
    "numpy": Library("numpy", _BLAS, with_numpy, _describe_numpy),
    "mkl": Library("mkl", (*_BLAS, *_SMALL[1:]), with_mkl, _describe_mkl, batches=False),
    "torch": Library(
        "torch", (*_BLAS, *_SMALL), with_torch, partial(_describe_torch, "PyTorch mm")
    ),
    "onednn": Library("torch", (FLOAT32.name,), with_onednn,
                      partial(_describe_torch, "PyTorch's oneDNN"), batches=False),
}  # fmt: skip
