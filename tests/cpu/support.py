"""What the tests of the CPU backend share: guarded memory, kinds of strides, fresh processes."""

import ctypes
import mmap
import os

import numpy as np

from falcon._core.dtypes import both, dtype_of
from falcon._cpu.extension import _core

from ..support import ROOT, python

SOURCES = ROOT / "falcon" / "_cpu"
DTYPES = {"f32": np.float32, "f64": np.float64}

# Kinds of strides in elements for a matrix of r rows and c columns.
KINDS = {
    "C": lambda r, c: (c, 1),
    "Fortran": lambda r, c: (1, r),
    "padded rows": lambda r, c: (c + 7, 1),
    "whole lines": lambda r, c: (-(-c // 16) * 16, 1),
    "padded columns": lambda r, c: (1, r + 5),
    "every second": lambda r, c: (4 * c, 2),
    "reversed": lambda r, c: (-c, -1),
    "reversed rows": lambda r, c: (-c - 3, 1),
    "reversed Fortran": lambda r, c: (1, -r - 1),
    "same row": lambda r, c: (0, 1),
    "same column": lambda r, c: (1, 0),
    "same number": lambda r, c: (0, 0),
}
WRITABLE = [kind for kind in KINDS if not kind.startswith("same")]


def run_script(text, **environment):
    """Run Python source in a fresh process, which must succeed; return what it prints."""
    return python("-W", "error", "-c", text, **environment).stdout.strip()


class Guarded:
    """Bytes that end (or begin) exactly at an unreadable page; every bit set: NaN as a float."""

    _libc = ctypes.CDLL(None, use_errno=True)

    def __init__(self, nbytes, at_end=True):
        page = mmap.PAGESIZE
        inside = max(-(-nbytes // page), 1) * page
        self._map = mmap.mmap(-1, inside + 2 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        whole = np.frombuffer(self._map, np.uint8)
        self._address, self._inside = whole.ctypes.data + page, inside
        self._protect(self._address - page, page, 0)
        self._protect(self._address + inside, page, 0)
        start = page + (inside - nbytes if at_end else 0)
        self.bytes = whole[start : start + nbytes]
        self.bytes[:] = 0xFF

    def _protect(self, address, nbytes, mode):
        status = self._libc.mprotect(
            ctypes.c_void_p(address), ctypes.c_size_t(nbytes), ctypes.c_int(mode)
        )
        assert status == 0, os.strerror(ctypes.get_errno())

    def forbid(self):
        """Make every access a crash."""
        self._protect(self._address, self._inside, 0)

    def allow(self):
        """Undo `forbid`."""
        self._protect(self._address, self._inside, 3)


class Operand:
    """A matrix of some kind of strides in guarded memory; `array` is the view."""

    def __init__(self, rows, columns, dtype, kind="C", at_end=True):
        size = np.dtype(dtype).itemsize
        self.strides = KINDS[kind](rows, columns)
        reach = [
            stride * (extent - 1)
            for stride, extent in zip(self.strides, (rows, columns), strict=True)
        ]
        lowest, highest = sum(min(x, 0) for x in reach), sum(max(x, 0) for x in reach)
        count = highest - lowest + 1 if rows and columns else 0
        self.memory = Guarded(count * size, at_end)
        flat = self.memory.bytes.view(dtype)
        self.array = np.lib.stride_tricks.as_strided(
            flat[-lowest:] if count else flat,
            (rows, columns),
            tuple(stride * size for stride in self.strides),
        )

    def fill(self, values):
        """Assign, and return the stored values (broadcast kinds keep the last ones)."""
        self.array[...] = values
        return self.array

    def gaps_untouched(self):
        """Whether every byte that belongs to no element still has its bits set."""
        owned = np.zeros(self.memory.bytes.shape, np.uint8)
        view = np.lib.stride_tricks.as_strided(
            owned[self.array.ctypes.data - self.memory.bytes.ctypes.data :]
            if self.array.size
            else owned,
            (*self.array.shape, self.array.itemsize),
            (*self.array.strides, 1),
        )
        view[...] = 1
        return bool((self.memory.bytes[owned == 0] == 0xFF).all())


# What the binding's gemm takes; all else is for plan.
_OF_CALLS = ("workspace", "profile", "report", "row_scales", "column_scales", "mirror", "conjugate",
             "weights")  # fmt: skip


def kind_of(a, b):
    """The engine's name of the types of two arrays."""
    return both(dtype_of(a.dtype), dtype_of(b.dtype)).engine


def layout(a, b, c, kind=None, **options):
    """What the binding plans for a product of these arrays as they lie, by kernels of a kind."""
    (M, K), N = a.shape, b.shape[1]
    by_rows, by_columns = ([x.strides[i] == x.itemsize for x in (a, b, c)] for i in (1, 0))
    return _core.plan(
        *(M, N, K, kind or kind_of(a, b)),
        a_by_columns=by_columns[0],
        b_by_rows=by_rows[1],
        c_by_columns=by_columns[2] and not by_rows[2],
        c_wide=c.itemsize != a.itemsize or a.dtype != b.dtype,
        **options,
    )


def gemm(a, b, c, alpha=1.0, beta=0.0, *, packed=None, **options):
    """Multiply through the binding, by `packed` in place of b if that is given."""
    call = {name: options.pop(name) for name in _OF_CALLS if name in options}
    planned = layout(a, b, c, packed=packed, is_blocked=call.get("profile", False), **options)
    right = b if packed is None else None
    return _core.gemm(planned, a, right, c, alpha, beta, packed=packed, **call)


def pack(b, kind=None, column_scales=None, **options):
    """Pack B through the binding."""
    K, N = b.shape
    planned = _core.plan(N, N, K, kind or kind_of(b, b), is_packed=True, **options)
    return _core.pack_b(planned, b, column_scales)


def whole(rng, shape, largest=4):
    """Small whole numbers: every sum and product of them is exact."""
    return rng.integers(-largest, largest + 1, shape)


def same_bits(x, y):
    """Equality of every bit, NaN included."""
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
