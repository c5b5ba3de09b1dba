"""Products by cuBLAS, whose C interface is called through ctypes.

CuPy loads the library. Its wrappers are not used: they refuse to run in a stream that is being
captured. Nor are its handles: another copy of the library (torch brings one) cannot take them, and
their math mode is the caller's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from ctypes import CDLL, byref, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass, replace
from functools import cache
from threading import local
from typing import Any, ClassVar

from falcon._core.dtypes import DType

from . import device
from .geometry import UNIT, round_up, triangle
from .matrix import Memory, Operand

# CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: partial sums of a 16-bit product are added in
# float32; without it they may be rounded to 16 bits first.
_MATH_MODE = 16
# Tensor cores truncate sums while they add up (arXiv:2203.03341): the error grows with the length.
# Products of the largest parts are at most that long, and cuBLAS adds the next one to the last; one
# beyond the second number is cut in two, because float32 sums as short err less.
_LONGEST, _WHOLE = 1024, 600
# Sums of squares, all of one sign, have a bias that centring does not take away: 3.6e-9 times the
# length of a piece, beside float32's 1.4e-8 times the root of K. So pieces are at most as long as
# the first number; and as many as the second, if longer than the third.
_SHORT, _FEWEST, _SHORTEST = 256, 10, 64
# Products in fixed point: in every case, not where cuBLAS expects a gain; of as many bits as the
# numbers need (a variable of the environment may say another number), up to the last value. With
# it, the most slices of 8 bits.
_IN_FIXED_POINT = {
    "cublasSetEmulationStrategy": 2,  # CUBLAS_EMULATION_STRATEGY_EAGER
    "cublasSetFixedPointEmulationMantissaControl": 0,  # CUDA_EMULATION_MANTISSA_CONTROL_DYNAMIC
    "cublasSetFixedPointEmulationMaxMantissaBitCount": 79,
}
_SLICES = 10
# How tensor cores add up products of 16 bits, by compute capability: terms at a time, and bits
# beyond float32 that are kept of each. By models that agree to the last bit with A100, L40S, H100
# and B200; those of others may be coarse.
_FINE, _COARSE = (16, 2), (8, 1)
_ADDERS = {(8, 0): _COARSE, (8, 9): _COARSE, (9, 0): _FINE, (10, 0): _FINE}
# That CuPy does not name.
_COMPUTE_TYPES = {"CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT": 79}
# CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_ALLOC_FAILED: of a new handle, memory is short.
_NO_ROOM = 1, 3
# CUBLAS_OP_N, CUBLAS_OP_T.
_OPERATIONS = {False: 0, True: 1}
_OPERAND = (c_void_p, c_int, c_int64, c_int64)  # pointer, type, leading dimension, step
_GEMM = "cublasGemmStridedBatchedEx_64"
_ARGUMENTS = {
    "cublasCreate_v2": (c_void_p,),
    "cublasSetStream_v2": (c_void_p, c_void_p),
    "cublasSetWorkspace_v2": (c_void_p, c_void_p, c_size_t),
    "cublasSetMathMode": (c_void_p, c_int),
    "cublasGetProperty": (c_int, c_void_p),
    **dict.fromkeys(_IN_FIXED_POINT, (c_void_p, c_int)),
    _GEMM: (
        *(c_void_p, c_int, c_int, c_int64, c_int64, c_int64),
        *(c_void_p, *_OPERAND, *_OPERAND),
        *(c_void_p, *_OPERAND),
        *(c_int64, c_int, c_int),
    ),
}


def load(major: int) -> Any:
    """Return the library cuBLAS: the copy that the process has loaded."""
    return CDLL(f"libcublas.so.{major}")


@cache
def _wrapper() -> Any:
    """Import CuPy's wrapper, for its constants; raises ImportError if CuPy finds no cuBLAS."""
    from cupy_backends.cuda.libs import cublas  # in this form, CuPy finds the library

    return cublas


@cache
def _library() -> Any:
    _wrapper()
    library = load(device.runtime_version() // 1000)
    for name, types in _ARGUMENTS.items():
        if name not in _IN_FIXED_POINT or hasattr(library, name):
            getattr(library, name).argtypes = types
    library.cublasGetStatusString.restype = c_char_p
    return library


def version() -> str:
    """Return the library's version."""
    numbers = [c_int() for _ in range(3)]
    for part, value in enumerate(numbers):  # major, minor, patch
        _check(_library().cublasGetProperty(part, byref(value)))
    return ".".join(str(x.value) for x in numbers)


def has_fixed_point() -> bool:
    """Whether the library multiplies in fixed point."""
    return tuple(map(int, version().split(".")[:2])) >= (13, 1)


def _check(status: int) -> None:
    if status:
        reason = _library().cublasGetStatusString(status).decode()
        raise RuntimeError(f"cuBLAS failed: {reason}")


@dataclass(frozen=True, slots=True)
class Product:
    """A strided-batched product."""

    arguments: tuple  # those of cublasGemmStridedBatchedEx_64 after the handle
    stage: str = "multiply"

    def start(self, handle: int, arguments: Sequence[Any]) -> None:
        _check(_library().cublasGemmStridedBatchedEx_64(handle, *arguments))


def products(
    rows: int,
    columns: int,
    inner: int,
    a: Operand,
    b: Operand,
    out: Operand,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    batch: int = 1,
    operand: DType,
    piece: int = 0,
    stage: str = "multiply",
) -> list[Product]:
    """Describe ``out = alpha a b + beta out`` for cuBLAS, which takes matrices by columns.

    One by rows is the transpose of such a matrix. So for an `out` by rows the product is
    ``b^T a^T``, and no operand is ever copied. `operand` is that of the problem: it says how
    products are formed and summed, and whether a and b hold parts of float32; `piece`: see
    `longest`; 0: they are not cut.

    Along the inner dimension A's parts follow one another, the largest first, and B's the smallest
    first. So the first s + 1 parts of A meet the last s + 1 of B where the places i + j are s, in
    one longer product: three products for the six of "bf16x6", the smallest first. The last, of the
    largest parts, is cut (see `longest`).
    """
    sums, splits = operand.accumulator, operand.splits
    name = operand.cublas_sums or sums.cublas_sums
    assert name is not None  # true for all accumulators of GPUs
    made: list[Product] = []
    to_a = (a.ld if a.by_columns else 1) * a.dtype.itemsize  # bytes along the inner dimension
    to_b = (1 if b.by_columns else b.ld) * b.dtype.itemsize
    for s in reversed(range(splits)):
        whole, skipped = (s + 1) * inner, (splits - 1 - s) * inner
        step = piece if piece and s == 0 < splits - 1 else whole
        for first in range(0, whole, step):
            left = replace(a, pointer=a.pointer + first * to_a)
            right = replace(b, pointer=b.pointer + (skipped + first) * to_b)
            sizes = rows, columns
            if not out.by_columns:
                sizes, left, right = (columns, rows), right, left
            arguments = (
                _OPERATIONS[left.by_columns != out.by_columns],
                _OPERATIONS[right.by_columns != out.by_columns],
                *(*sizes, min(step, whole - first)),
                byref(_scalar(alpha, sums)),  # read before the call returns
                *(left.pointer, left.dtype.cublas, left.ld, left.step),
                *(right.pointer, right.dtype.cublas, right.ld, right.step),
                byref(_scalar(1.0 if made else beta, sums)),
                *(out.pointer, out.dtype.cublas, out.ld, out.step),
                batch,
                _COMPUTE_TYPES.get(name) or getattr(_wrapper(), name),
                _wrapper().CUBLAS_GEMM_DEFAULT,
            )
            made.append(Product(arguments, stage))
    return made


def _scalar(value: complex, kind: DType) -> Any:
    """Return a number as cuBLAS reads it, for products that are summed in a type."""
    part = c_double if (kind.part or kind).itemsize == 8 else c_float
    return (part * 2)(value.real, value.imag) if kind.is_complex else part(value.real)


def of_triangle(
    size: int, inner: int, a: Operand, b: Operand, out: Operand, **how: Any
) -> list[Product]:
    """Describe the lower triangle of a symmetric product; parameters as of `products`."""
    made = []
    for row, rows, columns, count, apart in triangle(size):
        of_out = out.at(row, apart, apart)
        operands = a.at(row, apart, 0), b.at(0, 0, apart), of_out
        made += products(rows, columns, inner, *operands, batch=count, **how)
    return made


def longest(inner: int, index: int, short: bool) -> int:
    """Return the length of the pieces in which products of the largest parts are formed.

    On a coarse adder as many as of an inner dimension that is four times as long: its bias grows
    four times as fast, float32's errors as the root.
    """
    long = inner * (1 if _adder(index) == _FINE else 4)
    pieces = -(-long // _LONGEST), 1 + (long > _WHOLE)
    if short:
        pieces = -(-long // _SHORT), min(-(-long // _SHORTEST), _FEWEST)
    return min(round_up(-(-inner // max(pieces)), UNIT), inner)


def products_of_splits(inner: int, splits: int, piece: int) -> int:
    """Return how many products `products` makes."""
    return splits - 1 + (-(-inner // piece) if splits > 1 else 1)


def fixed_point_bytes(rows: int, columns: int, inner: int, batch: int = 1) -> int:
    """Return the bytes of a workspace that suffice for a product in fixed point.

    By the formula of cuBLAS's documentation, "Fixed-Point Workspace Requirements".
    """
    (M, N), K = (round_up(x, 1024) for x in (rows, columns)), round_up(inner, 128)
    sums = min(4 * M * N * _SLICES, 2**32) * -(-inner // 8192)
    of_slices = (M + N) * (K * _SLICES + 4) + sums
    of_bits = 4 * ((rows + columns) * -(-inner // 64) + rows * columns)
    return max(of_slices, of_bits) * batch * 5 // 4 + 2**27


def _adder(index: int) -> tuple[int, int] | None:
    return _ADDERS.get(device.properties(index).capability)


def knows_sums(index: int) -> bool:
    """Whether it is known how tensor cores of a device's architecture add up."""
    return _adder(index) is not None


def growth_of_sums(inner: int, index: int, piece: int) -> float:
    """Return the RMS error of sums on tensor cores, relative to float32 sums as long.

    Measured on an H200, for two float16 parts in one piece: 1.31, 1.85, 2.19, 3.03 for 300, 700,
    1024, 2048 (up to 3.5 for uneven rows and columns). Errors of pieces add up at random, as those
    of float32 sums do. A coarse adder errs up to twice as much (simulated).
    """
    known = 3.5 if _adder(index) == _FINE else 7.0
    return known * (piece / 2048) ** 0.44 * (piece / inner) ** 0.5


class _Handle:
    """A handle, which one thread uses at a time; those of threads that have ended are taken again.

    Its math mode is falcon's: that of CuPy's or torch's handles, TF32 say, means nothing here.
    """

    _unused: ClassVar[dict[int, list[int]]] = defaultdict(list)

    def __init__(self, index: int) -> None:
        self.index = index
        try:
            self.pointer = self._unused[index].pop()
        except IndexError:
            made, library = c_void_p(), _library()
            status = library.cublasCreate_v2(byref(made))
            if status in _NO_ROOM:
                raise MemoryError("too little memory of the GPU for a handle of cuBLAS") from None
            _check(status)
            assert made.value is not None
            self.pointer = made.value
            _check(library.cublasSetMathMode(self.pointer, _MATH_MODE))
            if has_fixed_point():
                for name, value in _IN_FIXED_POINT.items():
                    _check(getattr(library, name)(self.pointer, value))

    def __del__(self) -> None:
        if hasattr(self, "pointer"):
            self._unused[self.index].append(self.pointer)


class _Handles(local):
    """The thread's handles by device."""

    def __init__(self) -> None:
        self.of_device: dict[int, _Handle] = {}


_of_thread = _Handles()


def handle(workspace: Memory | None) -> int:
    """Return the thread's handle, in the current stream; `workspace`: None for the handle's own."""
    handles, index = _of_thread.of_device, device.current()
    found = handles.get(index)
    if found is None:
        found = handles[index] = _Handle(index)
    # Setting the stream sets the handle's workspace too.
    _check(_library().cublasSetStream_v2(found.pointer, device.stream().ptr))
    if workspace is not None:
        where = found.pointer, workspace.pointer, workspace.nbytes
        _check(_library().cublasSetWorkspace_v2(*where))
    return found.pointer
