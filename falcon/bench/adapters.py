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
from typing import Any

import numpy as np

import falcon
from falcon._core.dtypes import DType, of
from falcon._core.options import thread_count
from falcon._front.info import numpy_blas


@dataclass(frozen=True, slots=True)
class Job:
    """The call to be timed, and a call that copies the product to `out` if that is needed."""

    run: Callable[[], Any]
    fetch: Callable[[], Any] = lambda: None


Adapter = Callable[[np.ndarray, np.ndarray, np.ndarray], Job]
_ROW_MAJOR, _NO_TRANSPOSE = 101, 111  # of CBLAS


def with_numpy(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """NumPy's matmul, whatever BLAS it was built with."""
    return Job(lambda: np.matmul(a, b, out=out))


def with_mkl(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """Intel MKL's cblas_?gemm, or its products of bfloat16 and int8; PyPI's package `mkl`."""
    library = mkl_library()
    row = of(a.dtype)
    if row.blas is None:
        return _with_mkl_wide(library, row, a, b, out)
    call = getattr(library, f"cblas_{row.blas}gemm")
    (m, k), n = a.shape, b.shape[1]
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, out)]
    one, zero = np.ones((), a.dtype), np.zeros((), a.dtype)
    alpha: Any
    beta: Any
    if row.is_complex:  # complex scalars are passed by address
        alpha, beta = (ctypes.c_void_p(x.ctypes.data) for x in (one, zero))
    else:
        scalar = np.ctypeslib.as_ctypes_type(a.dtype)
        alpha, beta = scalar(1), scalar(0)

    def run(_keep: Any = (a, b, out, one, zero)) -> None:
        call(_ROW_MAJOR, _NO_TRANSPOSE, _NO_TRANSPOSE, m, n, k, alpha, pointers[0], k,
             pointers[1], n, beta, pointers[2], n)  # fmt: skip

    return Job(run)


def _with_mkl_wide(
    library: ctypes.CDLL, row: DType, a: np.ndarray, b: np.ndarray, out: np.ndarray
) -> Job:
    """Run MKL's products with sums in float32 or int32; `fetch` rounds to the type of `out`.

    The product of integers takes an unsigned A by rows, and a number that it adds to all of A: so
    the highest bit of A's elements is flipped before, and -128 is added.
    """
    (m, k), n = a.shape, b.shape[1]
    x = a.view(np.uint8) ^ 0x80 if row.is_exact else a
    product, zero = np.empty((m, n), row.wide[0].numpy), np.zeros(1, np.int32)
    left, right, result, offset = (
        ctypes.c_void_p(array.ctypes.data) for array in (x, b, product, zero)
    )
    one_offset, ones, zeros = 173, ctypes.c_float(1), ctypes.c_float(0)
    arguments: tuple[Any, ...]
    if row.is_exact:
        call = library.cblas_gemm_s8u8s32
        factors = left, k, ctypes.c_byte(-128), right, n, ctypes.c_byte(0)
        arguments = (one_offset, m, n, k, ones, *factors, zeros, result, n, offset)
    else:
        call = library.cblas_gemm_bf16bf16f32
        arguments = (m, n, k, ones, left, k, right, n, zeros, result, n)

    def run(_keep: Any = (x, b, product, zero)) -> None:
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


def with_falcon_packed(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """Run falcon with B packed beforehand, which is not timed."""
    packed = falcon.pack(b, rows=a.shape[0], dtype=out.dtype)
    return Job(lambda: falcon.gemm(a, packed, out=out))


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
    "falcon packed": with_falcon_packed,
    "numpy": with_numpy,
    "mkl": with_mkl,
    "torch": with_torch,
    "onednn": with_onednn,
}


def load(name: str) -> None:
    """Import what an adapter needs.

    Raises ImportError: it is not installed; the message says what.
    """
    if name == "mkl":
        mkl_library()
    elif name in ("torch", "onednn"):
        import torch

        if name == "onednn" and not torch.backends.mkldnn.is_available():
            raise ImportError("this build of PyTorch has no oneDNN")


def about(name: str, dtypes: list[str]) -> dict[str, Any]:
    """Return library, version, number of threads and kernels by type, as the library tells them.

    It has multiplied before, because some libraries load their kernels only then.
    """
    kernels, threads = {}, thread_count()
    if name.startswith("falcon"):
        known: Any = falcon.show_config("dict")["cpu kernels"]  # type: ignore[index]
        kernels = {x: known.get(f"{of(x).engine} kernel", "NumPy's BLAS") for x in dtypes}
        library, version = "falcon", falcon.__version__
    elif name == "mkl":
        told = ctypes.create_string_buffer(200)
        mkl_library().mkl_get_version_string(told, len(told))
        found = re.search(r"Version (\S+?)-Product", told.value.decode())
        library, version = "oneMKL", found[1] if found else "?"
        kernels = dict.fromkeys(dtypes, _mkl_kernels())
    elif name == "numpy":
        library, (version, _, kernel) = "NumPy", numpy_blas().partition(", ")
        version = f"{np.__version__} ({version})"
        kernels = dict.fromkeys(dtypes, kernel.removesuffix(" kernels"))
    else:
        import torch

        library = "PyTorch mm" if name == "torch" else "PyTorch's oneDNN"
        version, threads = torch.__version__, torch.get_num_threads()
        kernels = dict.fromkeys(dtypes, torch.backends.cpu.get_cpu_capability())
    return {"library": library, "version": version, "threads": threads, "kernels": kernels}


def _mkl_kernels() -> str:
    """Return which of MKL's libraries of kernels this process has loaded."""
    with suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        found = re.search(r"libmkl_(def|mc3|avx2|avx512)\w*", file.read())
        return found[0] if found else "?"
    return "?"
