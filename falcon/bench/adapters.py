"""How each peer multiplies: ``adapter(a, b, out)`` returns the call to be timed.

What a library needs once for given operands (tensors, copies on a device) is prepared before; the
product is in `out` after the call, or after ``Job.fetch`` if it is elsewhere.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from typing import Any

import numpy as np

import falcon
from falcon._core.dtypes import DType, of


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

    Raises
    ------
    ImportError
        The package `mkl` is not installed, or holds no such library.
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


def with_torch_cuda(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """PyTorch's mm on the GPU (cuBLAS), with operands and product in GPU memory."""
    import torch

    x, y, z = _tensors(a, b, out)
    on_device = [tensor.cuda() for tensor in (x, y, z)]

    def run() -> None:
        torch.mm(on_device[0], on_device[1], out=on_device[2])
        torch.cuda.synchronize()

    return Job(run, lambda: z.copy_(on_device[2]))


def with_cupy(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """CuPy's matmul (cuBLAS), with operands and product in GPU memory."""
    import cupy

    return _on_gpu(cupy, lambda x, y, z: cupy.matmul(x, y, out=z), a, b, out)


def with_falcon(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """Run falcon with the settings of the FALCON_* variables."""
    return Job(lambda: falcon.gemm(a, b, out=out, dtype=out.dtype))


def with_falcon_packed(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """Run falcon with B packed beforehand, which is not timed."""
    packed = falcon.pack(b, rows=a.shape[0], dtype=out.dtype)
    return Job(lambda: falcon.gemm(a, packed, out=out))


def with_falcon_gpu(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Job:
    """Run falcon on CuPy arrays, with the settings of the FALCON_* variables."""
    import cupy

    return _on_gpu(cupy, lambda x, y, z: falcon.gemm(x, y, out=z), a, b, out)


def _on_gpu(cupy: Any, multiply: Callable[[Any, Any, Any], Any], *arrays: np.ndarray) -> Job:
    x, y, z = (cupy.asarray(array) for array in arrays)

    def run() -> None:
        multiply(x, y, z)
        cupy.cuda.get_current_stream().synchronize()

    def fetch() -> None:
        arrays[2][...] = cupy.asnumpy(z)

    return Job(run, fetch)


def _tensors(*arrays: np.ndarray) -> list[Any]:
    import warnings

    import torch

    with warnings.catch_warnings():  # read-only arrays, which nothing here writes to
        warnings.simplefilter("ignore")
        return [
            torch.from_numpy(x)
            if of(x.dtype).module == "numpy"
            else torch.from_numpy(x.view(np.int16)).view(getattr(torch, str(of(x.dtype).torch)))
            for x in arrays
        ]


ADAPTERS: dict[str, Adapter] = {
    "falcon": with_falcon,
    "falcon packed": with_falcon_packed,
    "falcon gpu": with_falcon_gpu,
    "numpy": with_numpy,
    "mkl": with_mkl,
    "torch": with_torch,
    "onednn": with_onednn,
    "cupy": with_cupy,
    "torch cuda": with_torch_cuda,
}


def load(name: str) -> None:
    """Import what an adapter needs.

    Raises
    ------
    ImportError
        It is not installed, or there is no GPU for it; the message says which.
    """
    if name == "mkl":
        mkl_library()
    elif name in ("torch", "onednn"):
        import torch

        if name == "onednn" and not torch.backends.mkldnn.is_available():
            raise ImportError("this build of PyTorch has no oneDNN")
    elif name == "torch cuda":
        import torch

        if not torch.cuda.is_available():
            raise ImportError("PyTorch finds no CUDA device")
    elif name in ("cupy", "falcon gpu"):
        import cupy

        try:
            cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise ImportError(f"CuPy finds no CUDA device ({error})") from None
