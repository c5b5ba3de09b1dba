"""Operands in shared memory: made once, seen by every worker, with some exact rows to check by."""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from .errors import exact_rows, sampled_rows
from .workloads import Shape, operands

# In memory where the system says so; else an ordinary file, which its cache holds in memory.
_MEMORY = Path("/dev/shm")


class SharedOperands:
    """A, B and some exact rows of C in a file that other processes map.

    A context manager; the file is gone on leaving it. Workers keep what they have mapped.

    Parameters
    ----------
    shape : Shape
    dtype : numpy.dtype
    seed : int
    """

    def __init__(self, shape: Shape, dtype: np.dtype, seed: int) -> None:
        self.shape, self.dtype = shape, dtype
        a, b = operands(shape, dtype, seed)
        index = sampled_rows((shape.M, shape.N), dtype)
        exact = exact_rows(a, b, index)
        self._layout, size = [], 0
        for array in (a, b, index, exact):
            self._layout.append((size, array.dtype.str, array.shape))
            size += -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        folder = _MEMORY if os.access(_MEMORY, os.W_OK) else None
        number, self.path = tempfile.mkstemp(prefix="falcon-bench-", dir=folder)
        with os.fdopen(number, "wb") as file:
            try:
                for (offset, _, _), array in zip(self._layout, (a, b, index, exact), strict=True):
                    file.seek(offset)
                    file.write(array.data)
                file.truncate(max(size, 1))
            except BaseException:
                self.close()
                raise

    def request(self) -> dict[str, Any]:
        """Return what `mapped` needs, as JSON can hold it."""
        return {"path": self.path, "layout": self._layout}

    def close(self) -> None:
        """Remove the file's name; the memory goes with the last process that maps it."""
        with suppress(OSError):  # in use, on Windows
            os.unlink(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def mapped(path: str, layout: list[Any]) -> list[np.ndarray]:
    """Map A, B, the indices of the exact rows and those rows, read-only."""
    with open(path, "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return [
        np.ndarray(tuple(shape), np.dtype(dtype), memory, offset) for offset, dtype, shape in layout
    ]
