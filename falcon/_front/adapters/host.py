"""NumPy's arrays and what converts to them, torch's tensors, and arrays with ``__dlpack__``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from typing import Any

import numpy as np

from falcon._core.arrays import has_own_rules, is_dense, to_array, to_target
from falcon._core.dtypes import DType, find, find_torch, native
from falcon._core.matrix import Matrix, of_array
from falcon._core.packed import PackedOperand, refuse_packed
from falcon._core.where import is_on_gpu

from ..validate import check_numeric

_HERE = nullcontext()


class Numpy:
    """NumPy; `falcon._front.adapters.Adapter` is the interface."""

    device: int | None = None

    def owns(self, x: Any) -> bool:
        """Whether the array is one of this library."""
        return True

    def view(self, name: str, x: Any) -> Any:
        """Return NumPy's view of an array of this library; raise TypeError if there is none."""
        return x

    def for_results(self, like: Any) -> Numpy:
        """Return what wraps results as arrays like this one."""
        return self

    def wrap(self, x: Any) -> Any:
        return x

    def scalar(self, x: Any) -> Any:
        return x[()]

    def current(self) -> AbstractContextManager[Any]:
        return _HERE

    def array(self, name: str, x: Any) -> np.ndarray:
        if type(x) is not np.ndarray:
            refuse_packed(name, x)
            x = to_array(name, x)
        check_numeric(name, x.dtype)
        return x

    def target(self, out: Any) -> np.ndarray:
        return to_target(out)

    def dtype(self, x: Any) -> DType | None:
        return find(x.dtype) if hasattr(x, "dtype") else None

    def empty(self, shape: tuple[int, ...], dtype: DType, like: Sequence[Any] = ()) -> np.ndarray:
        kind = native(np.result_type(*(x.dtype for x in like))) if like else dtype.numpy
        return np.empty(shape, kind if kind == dtype.numpy else dtype.numpy)

    def copy(self, x: Any, out: Any, casting: Any = "same_kind") -> None:
        """Write `x` to `out`, without warnings."""
        with np.errstate(all="ignore"):
            np.copyto(out, x, casting=casting)

    def scale(self, c: Any, beta: Any, out: Any, dtype: DType) -> None:
        if c is None:
            out[...] = 0
            return
        with np.errstate(all="ignore"):
            np.multiply(c, beta, out=out, dtype=dtype.numpy, casting="same_kind")

    def permuted(self, x: Any, axes: tuple[int, ...]) -> np.ndarray:
        return x.transpose(axes)

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(x, shape)

    def einsum(self, text: str, arrays: Sequence[Any], dtype: Any) -> Any:
        """Call np.einsum, in float32 for types of other packages, which it does not know.

        Not for empty operands: np.einsum may write beyond the memory of an empty result.
        """
        if any(x.size == 0 for x in arrays):
            inputs, _, output = text.replace(",", "").partition("->")
            sizes = dict(zip(inputs, (n for x in arrays for n in x.shape), strict=True))
            kind = dtype or np.result_type(*(x.dtype for x in arrays))
            return np.zeros([sizes[label] for label in output], kind)
        rows = [find(x.dtype) for x in arrays]
        if any(row is not None and row.module != "numpy" for row in rows):
            result = np.einsum(text, *arrays, dtype=np.float32, casting="unsafe")
            return result.astype(dtype or np.result_type(*(x.dtype for x in arrays)))
        how = {} if dtype is None else {"dtype": dtype, "casting": "unsafe"}
        result = np.einsum(text, *arrays, **how)
        if isinstance(result, np.ndarray) or not any(x.dtype.hasobject for x in arrays):
            return np.asarray(result)
        kept = np.empty((), object)  # np.asarray would turn Python's integers into NumPy's
        kept[()] = result
        return kept

    def matrix(self, x: Any) -> Matrix:
        return of_array(x)

    def note_write(self, x: Any) -> None:
        """Note that the elements of an array change, for a library that asks for it."""


class Torch(Numpy):
    """torch's tensors: multiplied as NumPy's views of their memory."""

    def owns(self, x: Any) -> bool:
        tensor: Any = getattr(sys.modules.get("torch"), "Tensor", None)
        return tensor is not None and isinstance(x, tensor) and not x.is_cuda

    def note_write(self, x: Any) -> None:
        if not x.is_inference():  # as torch's own products do
            sys.modules["torch"].autograd.graph.increment_version(x)

    def view(self, name: str, x: Any) -> np.ndarray:
        import torch  # it is imported already: x is a tensor

        if name == "out" and (x.is_conj() or x.is_neg()):  # a view would be of other memory
            raise TypeError("out is a lazily conjugated or negated tensor; expected a plain one")
        dual = torch.autograd.forward_ad
        if dual._current_level >= 0 and dual.unpack_dual(x).tangent is not None:
            raise TypeError(
                f"{name} is a tensor with a tangent: use falcon.torch.linear or .matmul, which "
                f"keep it, or {name}.detach()"
            )
        if x.requires_grad:
            if torch.is_grad_enabled():
                raise TypeError(
                    f"{name} is a tensor that requires grad: use falcon.torch.linear or .matmul, "
                    f"which record gradients, or {name}.detach(), or torch.no_grad()"
                )
            x = x.detach()
        if x.device.type != "cpu":
            raise TypeError(
                f"{name} is a tensor on {x.device}; falcon multiplies on the CPU and CUDA"
            )
        row = _torch_row(x.dtype)
        kind = None if row is None or row.module == "numpy" else row.numpy
        try:
            x = x.resolve_conj().resolve_neg()
            if kind is not None:  # bfloat16, which torch converts as another type only
                return x.view(torch.int16).numpy().view(kind)
            return x.numpy()
        except (TypeError, RuntimeError) as error:
            if x.layout is torch.strided and not x.is_nested and row is not None:
                raise TypeError(
                    f"{name} is a tensor without memory of its own, as in the transforms of "
                    "torch.func: use falcon.torch.linear or .matmul"
                ) from error
            layout = "nested" if x.is_nested else str(x.layout).removeprefix("torch.")
            how = f"convert it first ({name}.float(), {name}.to_dense())"
            if "float8" in str(x.dtype):
                how += "; falcon.scaled_matmul multiplies float8"
            raise TypeError(
                f"{name} is a {layout} tensor of {x.dtype}, which NumPy cannot view; {how}"
            ) from error

    def wrap(self, x: Any) -> Any:
        if has_own_rules(x):
            return x
        return tensor_of(np.asarray(x))


def tensor_of(x: np.ndarray) -> Any:
    """Return a tensor in an array's memory; of bfloat16, which torch does not take from NumPy."""
    import torch

    row = find(x.dtype)
    if row is None or row.module == "numpy":
        return torch.from_numpy(x)
    return torch.from_numpy(x.view(np.int16)).view(getattr(torch, row.name))


@cache
def _torch_row(dtype: Any) -> DType | None:
    return find_torch(str(dtype))


class Dlpack(Numpy):
    """Arrays of any other library that exchanges memory by the DLPack standard.

    Results are arrays of that library, if it takes NumPy's of that dtype by a function
    ``from_dlpack``, else of NumPy.
    """

    def __init__(self, of: Any = None) -> None:
        self._of = of  # an array of the library

    def owns(self, x: Any) -> bool:
        kind = type(x)
        if not hasattr(kind, "__dlpack__") or isinstance(x, np.ndarray):
            return False
        return is_dense(x) and not has_own_rules(x) and not is_on_gpu(x)

    def view(self, name: str, x: Any) -> np.ndarray:
        try:
            return np.from_dlpack(x)
        except (BufferError, RuntimeError, TypeError, ValueError):  # a dtype without a standard
            return to_array(name, x) if name != "out" else to_target(x)

    def for_results(self, like: Any) -> Numpy:
        return Dlpack(like)

    def wrap(self, x: Any) -> Any:
        own = getattr(self._of, "__array_namespace__", None)
        module = type(self._of).__module__.split(".")[0]
        take = getattr(own() if own is not None else sys.modules.get(module), "from_dlpack", None)
        if take is None or has_own_rules(x):
            return x
        for order in (None, "C"):  # some libraries take contiguous arrays alone
            with suppress(BufferError, RuntimeError, TypeError):  # a dtype without a standard
                given = np.asarray(x, order=order)
                taken = take(given)
                # JAX truncates 64 bits to 32 unless they are enabled. By name first: before NumPy
                # 2.1, what was taken from NumPy cannot be viewed.
                named = given.dtype.name in str(getattr(taken, "dtype", ""))
                if named or self.view("the result", taken).dtype == given.dtype:
                    return taken
        return x


NUMPY = Numpy()
# The first that owns an operand views it; results are of the first one that is not NumPy.
LIBRARIES: tuple[Numpy, ...] = (Torch(), Dlpack(), NUMPY)


def library_of(x: Any) -> Numpy:
    """Return the library of an operand in host memory."""
    if x is None or type(x) is np.ndarray or type(x) is PackedOperand:
        return NUMPY
    return next(library for library in LIBRARIES if library.owns(x))


def viewed(operands: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the adapter of a call in host memory, and its operands: see `adapt_operands`."""
    adapter, views = NUMPY, []
    for name, x in operands.items():
        library = library_of(x)
        if library is not NUMPY:
            if adapter is NUMPY:
                adapter = library.for_results(x)
            x = library.view(name, x)
        views.append(x)
    return adapter, *views
