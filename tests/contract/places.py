"""Layouts of memory in which operands and results lie."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


def filled(shape, dtype):
    """Memory that nothing may read: every bit is set, which is NaN as a float."""
    return np.full((*shape, np.dtype(dtype).itemsize), 0xFF, np.uint8).view(dtype)[..., 0]


@dataclass(frozen=True)
class Layout:
    """How a matrix lies in an array that owns the memory."""

    name: str
    kind: str  # libraries have some kinds only
    owner: Callable[[int, int], tuple[int, int]]  # the shape of that array
    part: Callable[[Any], Any]  # from it to the matrix

    is_writable = True
    is_swapped = property(lambda self: "swapped" in self.name)

    def base(self, values):
        """The array of NumPy that holds the values."""
        made = filled(self.owner(*values.shape), values.dtype)
        self.part(made)[...] = values
        return made

    def view(self, base, shape):
        """The matrix in that array, or in a library's copy of it."""
        return self.part(base)


def laid(x, name):
    """The same values in a layout, by its name."""
    return LAYOUTS[name].view(LAYOUTS[name].base(x), x.shape)


class Same(Layout):
    """Rows, columns or all elements at one address."""

    is_writable = False

    def base(self, values):
        return self.part(values).copy()

    def view(self, base, shape):
        return base.expand(shape) if hasattr(base, "expand") else broadcast(base, shape)


class Own(Layout):
    """What NumPy alone has: `owner` makes the array."""

    def base(self, values):
        return self.owner(values)

    @property
    def is_writable(self):
        return self.name != "read-only"


def broadcast(x, shape):
    if isinstance(x, np.ndarray):
        return np.broadcast_to(x, shape)
    import cupy  # the stand-in

    return cupy.broadcast_to(x, shape)


def structured(values):
    """A field of records: its strides are no multiple of its size."""
    made = np.zeros(values.shape, [("pad", "u1"), ("x", values.dtype)])
    made["x"] = values
    return made


def misaligned(values):
    made = np.zeros((), [("pad", "u1"), ("x", values.dtype, values.shape)])
    made["x"] = values
    return made


def ordered(values, order):
    """In another byte order, which types of other packages do not have."""
    kind = values.dtype
    return values.copy() if kind.kind == "V" else values.astype(kind.newbyteorder(order))


def read_only(x):
    x.flags.writeable = False
    return x


LAYOUTS = {
    x.name: x
    for x in (
        Layout("rows", "view", lambda r, c: (r, c), lambda x: x),
        Layout("columns", "view", lambda r, c: (c, r), lambda x: x.T),
        Layout("padded rows", "view", lambda r, c: (r, c + 7), lambda x: x[:, : x.shape[1] - 7]),
        Layout("padded columns", "view", lambda r, c: (c, r + 5), lambda x: x[:, 5:].T),
        Layout("shifted", "view", lambda r, c: (r + 1, c + 1), lambda x: x[1:, 1:]),
        Layout("strided", "view", lambda r, c: (2 * r, 3 * c), lambda x: x[::2, ::3]),
        Layout("reversed", "negative", lambda r, c: (r, c), lambda x: x[::-1, ::-1]),
        Layout("reversed rows", "negative", lambda r, c: (r, c + 3), lambda x: x[::-1, 3:]),
        Layout("reversed columns", "negative", lambda r, c: (c, r), lambda x: x.T[:, ::-1]),
        Same("same row", "broadcast", None, lambda x: x[:1]),
        Same("same column", "broadcast", None, lambda x: x[:, :1]),
        Same("same number", "broadcast", None, lambda x: x[:1, :1]),
        Own("structured", "numpy", structured, lambda x: x["x"]),
        Own("misaligned", "numpy", misaligned, lambda x: x["x"]),
        Own("byte-swapped", "numpy", lambda x: ordered(x, "S"), lambda x: x),
        # As Zarr returns it: native, and yet not NumPy's own dtype.
        Own("little-endian", "numpy", lambda x: ordered(x, "<"), lambda x: x),
        Own("swapped strided", "numpy", lambda x: ordered(x.repeat(2, 0), "S"), lambda x: x[::2]),
        Own("read-only", "numpy", np.copy, read_only),
    )
}
