"""Array libraries whose arrays the subjects multiply: a class each, and a line in `LIBRARIES`."""

import sys

import numpy as np
import pytest

from falcon._core.dtypes import dtype_of


class NumPy:
    """NumPy's arrays; `place` and `host` are what the others do differently."""

    name = "numpy"
    types = ()  # subjects of their own in support.py
    layouts = ("view", "negative", "broadcast", "numpy")
    is_written = True  # whether `out` may be such an array
    result = np.ndarray

    def require(self):
        """Skip the test where the library is missing."""

    def place(self, values, layout):
        """Return an array of these values in a layout, and the array that owns the memory."""
        base = self.made(layout.base(values))
        return layout.view(base, values.shape), base

    def made(self, values):
        return values.copy()

    def host(self, x):
        return np.asarray(x)


class Torch(NumPy):
    """Tensors in host memory."""

    name = "torch"
    types = ("float32", "bfloat16", "complex64", "int16")
    layouts = ("view", "broadcast")

    def require(self):
        self.result = pytest.importorskip("torch", reason="torch is not installed").Tensor

    def made(self, values):
        torch = sys.modules["torch"]
        if dtype_of(values.dtype).module == "numpy":
            return torch.from_numpy(values.copy())
        bits = torch.from_numpy(values.view(np.int16).copy())
        return bits.view(getattr(torch, values.dtype.name))

    def host(self, x):
        torch = sys.modules["torch"]
        if x.dtype == torch.bfloat16:
            return x.contiguous().view(torch.int16).numpy().view(dtype_of("bfloat16").numpy)
        return x.numpy()


class Cupy(NumPy):
    """The stand-in of tests/gpu."""

    name = "cupy"
    layouts = ("view", "broadcast")

    def require(self):
        self.result = sys.modules["cupy"].ndarray

    def made(self, values):
        return sys.modules["cupy"].asarray(values)

    def host(self, x):
        return sys.modules["cupy"].asnumpy(x)


class Interface:
    """An array of a library that has nothing but NumPy's protocol."""

    def __init__(self, array):
        self.array = array

    @property
    def __array_interface__(self):
        return self.array.__array_interface__


class Foreign(NumPy):
    """Arrays of a library that falcon does not know; results are NumPy's."""

    name = "foreign"
    types = ("float32", "complex64", "int16")
    is_written = False

    def place(self, values, layout):
        array, base = super().place(values, layout)
        return Interface(array), base

    def host(self, x):
        return np.asarray(x)


class Exchange:
    """An array of a library that has nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **how):
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Exchanged(Foreign):
    """Arrays of another such library."""

    name = "dlpack"
    layouts = ("view", "negative")

    def place(self, values, layout):
        array, base = NumPy.place(self, values, layout)
        return Exchange(array), base

    def host(self, x):
        return x.array if isinstance(x, Exchange) else x


LIBRARIES = {x.name: x for x in (NumPy(), Torch(), Cupy(), Foreign(), Exchanged())}
