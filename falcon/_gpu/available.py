"""Whether falcon can work on a GPU here: CuPy, a device, its compiler and cuBLAS.

Tried until it works: a failure may pass, as cuBLAS's while memory is short.
"""

from __future__ import annotations

from falcon._core.dtypes import FLOAT32
from falcon._core.matrix import dense

from . import cublas, device, kernels
from .matrix import Operand
from .steps import run

_INSTALL = "pip install -e '.[cuda13x]' (or [cuda12x]) in a clone of falcon"
# The first with bfloat16 in kernels and DLPack, and with the protocol for other libraries' streams.
_LEAST_CUPY = 14
_CAPTURING = (
    "falcon loads its libraries at the first call, which cannot be done while a stream is being "
    "captured: multiply once before the capture"
)
_works = False


def why_unavailable() -> str | None:
    """Return None if a tiny product has succeeded, else the reason why falcon cannot use the GPU.

    Raises RuntimeError: a stream is being captured, so that the product cannot be tried.
    """
    global _works
    if _works:
        return None
    try:
        version = device.version()
        if int(version.split(".")[0]) < _LEAST_CUPY:
            return f"CuPy {version} is too old; falcon needs {_LEAST_CUPY} or later: {_INSTALL}"
        if device.count() == 0:
            return "CUDA sees no GPU"
    except ImportError as error:
        if (error.name or "").split(".")[0] == "cupy":
            return f"CuPy is not installed: {_INSTALL}"
        return f"CuPy cannot be imported ({error})"
    except Exception as error:  # CUDARuntimeError: no driver, too old a driver, no device
        return f"CUDA does not run here ({error})"
    if device.is_capturing():
        raise RuntimeError(_CAPTURING)
    reason = _tried()
    _works = reason is None
    return reason


def _tried() -> str | None:
    """Compile a kernel, and call cuBLAS."""
    part = "NVRTC, which compiles kernels,"
    try:
        memory = device.allocate(2 * FLOAT32.itemsize)
        one, out = (dense(memory.pointer + x, (1, 1), FLOAT32) for x in (0, FLOAT32.itemsize))
        run(kernels.copy(None, one))
        part = "cuBLAS"
        operands = (Operand.of(x) for x in (one, one, out))
        run(*cublas.products(1, 1, 1, *operands, operand=FLOAT32))
    except MemoryError as error:
        return f"the GPU has no memory left for it ({error})"
    except Exception as error:  # each library has its own
        if "captur" in str(error).lower():  # another stream is: this says nothing about the device
            raise RuntimeError(_CAPTURING) from error
        reason = str(error).strip().partition("\n")[0]
        return f"{part} does not work with CuPy ({type(error).__name__}: {reason}): {_INSTALL}"
    return None
