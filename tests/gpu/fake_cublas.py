"""A stand-in for the shared library cuBLAS: NumPy on the memory that fake_cupy.py has allocated."""

import ctypes

import numpy as np

from .fake_cupy import HANDLE, STATE

# Of every handle: TF32, or sums of 16 bits.
MATH_MODES = {}
# Strategy, control of the bits, and most bits of products in fixed point.
FIXED_POINT = {}


def _types():
    import ml_dtypes

    return {0: np.float32, 1: np.float64, 2: np.float16, 14: ml_dtypes.bfloat16,
            4: np.complex64, 5: np.complex128}  # fmt: skip


class Cublas:
    """The shared library: functions take what their argument types can hold, and return a status.

    Unlike those of the library's wrapper in CuPy, they run while a stream is captured.
    """

    def __init__(self):
        self.__dict__ |= {f.__name__: _Function(f) for f in (
            cublasCreate_v2, cublasSetStream_v2, cublasSetWorkspace_v2, cublasSetMathMode,
            cublasGemmStridedBatchedEx_64, cublasGetProperty, cublasGetStatusString,
            cublasSetEmulationStrategy, cublasSetFixedPointEmulationMantissaControl,
            cublasSetFixedPointEmulationMaxMantissaBitCount,
        )}  # fmt: skip


class _Function:
    def __init__(self, call):
        self._call = call

    def __call__(self, *arguments):
        arguments = [getattr(x, "value", x) for x in arguments]
        for value, kind in zip(arguments, getattr(self, "argtypes", ()), strict=False):
            if isinstance(value, int):
                held = kind(value).value
                assert (held or 0) == value, f"{value} does not fit {kind}"
        if self._call is not cublasGetStatusString:
            assert len(arguments) == len(self.argtypes)
        return self._call(*arguments)


def load(major):
    assert major == 13
    return Cublas()


def cublasGetStatusString(status):
    return b"the library was not initialized"


def cublasGetProperty(type, value):
    value._obj.value = (13, 2, 1)[type]
    return 0


def cublasSetStream_v2(handle, stream):
    STATE.stream, STATE.workspace = stream, None
    return 0


def cublasSetWorkspace_v2(handle, workspace, size):
    assert STATE.owner(workspace) == STATE.owner(workspace + size - 1) == STATE.device
    assert workspace % 256 == 0
    STATE.workspace, STATE.workspace_bytes = workspace, size
    return 0


def cublasCreate_v2(handle):
    if STATE.room is not None and STATE.room < 2**12:
        return 3  # CUBLAS_STATUS_ALLOC_FAILED
    STATE.handles += 1
    handle._obj.value = HANDLE
    return 0


def cublasSetMathMode(handle, mode):
    MATH_MODES[handle] = mode
    return 0


def cublasSetEmulationStrategy(handle, strategy):
    FIXED_POINT[handle] = strategy, None, None
    return 0


def cublasSetFixedPointEmulationMantissaControl(handle, control):
    FIXED_POINT[handle] = FIXED_POINT[handle][0], control, None
    return 0


def cublasSetFixedPointEmulationMaxMantissaBitCount(handle, bits):
    FIXED_POINT[handle] = *FIXED_POINT[handle][:2], bits
    return 0


def cublasGemmStridedBatchedEx_64(handle, transa, transb, m, n, k, alpha, A, Atype, lda, strideA,
                                  B, Btype, ldb, strideB, beta, C, Ctype, ldc, strideC,
                                  batchCount, computeType, algo):  # fmt: skip
    if handle != HANDLE:
        return 1
    kinds, computeType = (
        _types(),
        {68: "32F", 77: "32F_FAST_TF32", 70: "64F", 79: "64F_EMULATED_FIXEDPOINT"}[computeType],
    )
    assert STATE.stream == STATE.current, "a product in another stream than the current one"
    assert MATH_MODES[handle] == 16, "no TF32, no sums of 16 bits"
    assert STATE.workspace or not STATE.capturing, "the workspace of the handle, in a graph"
    assert (kinds[Atype] is kinds[Btype]) and kinds[Ctype] in (kinds[Atype], np.float32)
    if "FIXEDPOINT" in computeType:
        assert FIXED_POINT[handle] == (2, 0, 79), "always, of as many bits as numbers need"
        assert STATE.workspace and STATE.workspace_bytes >= 2**27, "what it documents"
    sums = np.float64 if computeType.startswith("64F") else np.float32
    if np.dtype(kinds[Atype]).kind == "c":
        sums = np.result_type(sums, np.complex64)
    alpha, beta = (_scalar(x, sums) for x in (alpha, beta))
    STATE.products.append(((m, n, k), batchCount, beta.item(), computeType))
    a_shape, b_shape = ((k, m) if transa else (m, k)), ((n, k) if transb else (k, n))
    for batch in range(batchCount):
        a = _matrix(A, a_shape, lda, kinds[Atype], batch * strideA).astype(sums)
        b = _matrix(B, b_shape, ldb, kinds[Btype], batch * strideB).astype(sums)
        c = _matrix(C, (m, n), ldc, kinds[Ctype], batch * strideC)
        a, b = a.T if transa else a, b.T if transb else b
        with np.errstate(all="ignore"):
            truncated = STATE.truncates and np.dtype(kinds[Atype]).itemsize == 2
            product = _truncated(a, b, *STATE.truncates) if truncated else _product(a, b)
            product = product if alpha == 1 else alpha * product
            c[...] = product + (beta * c.astype(sums) if beta else 0)
    return 0


def _product(a, b):
    if a.dtype.kind != "c":
        return a @ b
    product = np.empty((a.shape[0], b.shape[1]), a.dtype)
    product.real = a.real @ b.real - a.imag @ b.imag
    product.imag = a.real @ b.imag + a.imag @ b.real
    return product


def _truncated(a, b, terms, bits):
    """The sums of tensor cores: so many products and the sum so far at a time.

    All are aligned to the largest, cut off so many bits beyond float32's, added, and cut to float32
    (H100, H200: 16 and 2 give the errors that were measured within 5 %).
    """

    def exponents(x):
        return np.where(x == 0, -5000, np.frexp(x)[1] - 1)

    a, b = a.astype(float), b.astype(float)
    of_a, of_b, sums = exponents(a), exponents(b), np.zeros((a.shape[0], b.shape[1]))
    for k in range(0, a.shape[1], terms):
        at = slice(k, k + terms)
        largest = (of_a[:, at, None] + of_b[None, at]).max(1)
        shift = 23 + bits - np.maximum(np.maximum(largest, exponents(sums)), -4000)
        cut = np.trunc(np.ldexp(a[:, at, None] * b[None, at], shift[:, None])).sum(1)
        cut += np.trunc(np.ldexp(sums, shift))
        to_float32 = 23 - np.maximum(exponents(cut), -4000)
        sums = np.ldexp(np.trunc(np.ldexp(cut, to_float32)), -to_float32 - shift)
    return sums


def _scalar(reference, kind):
    return np.frombuffer(reference._obj, kind)[0]


def _matrix(pointer, shape, ld, kind, offset):
    """View column-major memory."""
    assert ld >= max(shape[0], 1), "a leading dimension is too small"
    itemsize = np.dtype(kind).itemsize
    pointer += offset * itemsize
    assert STATE.owner(pointer) == STATE.device
    elements = ld * (shape[1] - 1) + shape[0]
    memory = (ctypes.c_char * (elements * itemsize)).from_address(pointer)
    flat = np.frombuffer(memory, kind)
    return np.lib.stride_tricks.as_strided(flat, shape, (itemsize, ld * itemsize))
