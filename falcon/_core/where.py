"""In which memory an array is, and the types of a GPU.

Imports nothing of the GPU backend, because every call needs it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .dtypes import ON_GPUS
from .packed import PackedOperand

# kDLCUDA and kDLCUDAManaged of the DLPack standard.
_CUDA_KINDS = (2, 13)


def device_of(x: Any) -> int | None:
    """Return the number of the GPU whose memory holds an array, by DLPack; None for all else."""
    probe = getattr(x, "__dlpack_device__", None)
    if probe is None:
        return None
    try:
        kind, index = probe()
    except Exception:  # it has no memory (torch's device "meta"): the caller reports that
        return None
    return int(index) if int(kind) in _CUDA_KINDS else None


def is_on_gpu(x: Any) -> bool:
    """Whether an operand is in GPU memory."""
    if isinstance(x, PackedOperand):
        x = x.source
    return type(x) is not np.ndarray and device_of(x) is not None


def unknown_type(name: Any) -> TypeError:
    """Return the error that says which types are multiplied."""
    expected = ", ".join(row.name for row in ON_GPUS)
    return TypeError(f"an operand in GPU memory is {name}; expected one of {expected}")
