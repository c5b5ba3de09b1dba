"""Operands in shared memory for all workers, with some exact rows of C to check results."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import numpy as np

from falcon._core.dtypes import of

from .errors import exact_rows, sampled_rows
from .workloads import Shape, operands

# A file system in memory, if there is one; otherwise the system caches ordinary files in memory.
_MEMORY = "/dev/shm"
_NAMES = ("a", "b", "index", "exact")


class SharedOperands:
    """A, B and some exact rows of C in files that other processes map.

    A context manager that deletes the files on exit. Workers keep what they have mapped.

    Parameters
    ----------
    shape : Shape
    dtype : numpy.dtype
    seed : int


    `path`: the folder of the files, for `mapped`.
    """

    def __init__(self, shape: Shape, dtype: np.dtype, seed: int) -> None:
        folder = _MEMORY if os.access(_MEMORY, os.W_OK) else None
        # Windows cannot remove files that are mapped.
        self._files = TemporaryDirectory(
            prefix="falcon-bench-", dir=folder, ignore_cleanup_errors=True
        )
        self.path = self._files.name
        try:
            a, b = operands(shape, dtype, seed)
            index = sampled_rows((shape.M, shape.N), dtype)
            for name, x in zip(_NAMES, (a, b, index, exact_rows(a, b, index)), strict=True):
                np.save(Path(self.path) / f"{name}.npy", x)
            (Path(self.path) / "dtype").write_text(of(dtype).name, encoding="utf-8")
        except BaseException:
            self._files.cleanup()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.cleanup()


def mapped(path: str) -> list[np.ndarray]:
    """Map A, B, the indices of the exact rows and those rows, read-only."""
    maps = [np.load(Path(path) / f"{name}.npy", mmap_mode="r") for name in _NAMES]
    a, b, *rest = (np.asarray(x) for x in maps)
    kind = of((Path(path) / "dtype").read_text(encoding="utf-8")).numpy
    return [a.view(kind), b.view(kind), *rest]  # files store only the size of ml_dtypes' types
