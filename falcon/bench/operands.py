"""Operands in shared memory for all workers, with some exact rows of C to check results."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from falcon._core.dtypes import dtype_of

from .errors import Sample
from .workloads import Shape, operands

# A file system in memory, if there is one; otherwise the system caches ordinary files in memory.
_MEMORY = "/dev/shm"
_NAMES = ("a", "b", "index", "exact")


@contextmanager
def shared(shape: Shape, dtype: np.dtype, seed: int) -> Iterator[str]:
    """Make A, B and some exact rows of C in a folder that `mapped` maps, and yield its path.

    The files are deleted at the end of the block; workers keep what they have mapped.
    """
    folder = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    # Windows cannot remove files that are mapped.
    with TemporaryDirectory("", "falcon-bench-", folder, ignore_cleanup_errors=True) as path:
        a, b = operands(shape, dtype, seed)
        sample = Sample(a, b)
        for name, x in zip(_NAMES, (a, b, sample.index, sample.exact), strict=True):
            # A batch by columns would be saved by rows.
            np.save(Path(path) / f"{name}.npy", _turned(x) if name in shape.by_columns else x)
        about = f"{dtype_of(dtype).name} {shape.by_columns}"
        (Path(path) / "about").write_text(about, encoding="utf-8")
        yield path


def mapped(path: str) -> list[np.ndarray]:
    """Map A, B, the indices of the exact rows and those rows, read-only."""
    maps = [np.load(Path(path) / f"{name}.npy", mmap_mode="r") for name in _NAMES]
    a, b, *rest = (np.asarray(x) for x in maps)
    dtype, by_columns = (Path(path) / "about").read_text(encoding="utf-8").split(" ")
    # Files store only the size of ml_dtypes' types.
    a, b = a.view(dtype_of(dtype).numpy), b.view(dtype_of(dtype).numpy)
    a, b = (_turned(x) if name in by_columns else x for name, x in (("a", a), ("b", b)))
    return [a, b, *rest]


def _turned(x: np.ndarray) -> np.ndarray:
    return x.swapaxes(-1, -2)
