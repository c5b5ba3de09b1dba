"""CuPy arrays and torch tensors as `Matrix` objects, and results of the caller's kind.

To add a library: a class like `_Torch`, and a line in `library_of`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib import import_module
from typing import Any

from falcon._core.dtypes import DType, find, find_torch
from falcon._core.matrix import Matrix
from falcon._core.where import unknown_type
from falcon.codegen.cuda_plan import ACCESS_BYTES

from . import device
from .matrix import Memory, Operand


def library_of(x: Any) -> Library:
    """Return the library of a GPU array; raise TypeError if falcon does not know it."""
    module = type(x).__module__.split(".")[0]
    if module == "cupy":
        return Library()
    # Parameters, and subclasses elsewhere, are tensors too.
    if any(base.__module__.split(".")[0] == "torch" for base in type(x).__mro__):
        return _Torch()
    raise TypeError(
        f"{type(x).__module__}.{type(x).__name__} is in GPU memory; falcon takes arrays of cupy "
        "and torch there (cupy.from_dlpack(x) views most others without a copy)"
    )


class Library:
    """What falcon needs of an array library: of CuPy, and what `_Torch` overrides."""

    name = "cupy"
    # Whether memory that is allocated during a graph's capture belongs to the graph.
    graphs_own_memory = False

    def __init__(self) -> None:
        self._module = import_module(self.name)

    def dtype(self, x: Any) -> DType:
        return _known(find(x.dtype), x.dtype)

    def strides(self, x: Any) -> tuple[int, ...]:
        """Return the strides in elements."""
        size = x.dtype.itemsize
        return tuple(stride // size for stride in x.strides)

    def address(self, x: Any) -> int:
        return int(x.data.ptr)

    def facts(self, x: Any) -> tuple | None:
        """Return what the steps of a call depend on; None: the call is planned."""
        return self.address(x) % ACCESS_BYTES, x.shape, x.strides, x.dtype, x.data.device_id

    def empty(self, shape: tuple[int, ...], dtype: DType, index: int) -> Any:
        return device.empty(shape, dtype.numpy)

    def allocate(self, nbytes: int) -> Memory:
        return device.allocate(nbytes)

    def note_write(self, x: Any) -> None:
        """Note that the elements of an array change, for a library that asks for it."""

    def stream(self, index: int) -> AbstractContextManager[Any]:
        """Make the library's current stream that of CuPy."""
        return nullcontext()

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        return self._module.broadcast_to(x, shape)

    def permuted(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.transpose(axes)

    def einsum(self, text: str, arrays: list[Any]) -> Any:
        return self._module.einsum(text, *arrays)

    def resolved(self, x: Any) -> Any:
        """Return an array whose elements are those in memory: a copy where they are conjugates."""
        return x

    def matrix(self, x: Any) -> Matrix:
        """Describe an array; a single column has a unit stride, so that cuBLAS takes every one."""
        shape, strides = tuple(x.shape), self.strides(x)
        if shape[-1:] == (1,):
            strides = (*strides[:-1], 1)
        return Matrix(self.address(x), shape, strides, self.dtype(x), x)

    def batch(self, x: Any) -> Operand | None:
        """View an array of more axes as a batch; None if cuBLAS does not take it as one."""
        every, count, step = self.matrix(x), 1, 0
        for size, stride in zip(every.shape[-3::-1], every.strides[-3::-1], strict=True):
            if size == 1:
                continue
            if count == 1:
                step = stride
            elif stride != count * step:
                return None
            count *= size
        first = replace(every, shape=every.shape[-2:], strides=every.strides[-2:])
        if step < 0 or not first.is_direct:
            return None
        return replace(Operand.of(first), step=step)


class _Torch(Library):
    name = "torch"
    graphs_own_memory = True

    def dtype(self, x: Any) -> DType:
        name = str(x.dtype).removeprefix("torch.")
        return _known(find_torch(name), name)

    def matrix(self, x: Any) -> Matrix:
        if x.requires_grad and self._module.is_grad_enabled():
            raise TypeError(
                "a tensor requires grad, but falcon has no backward pass; pass tensor.detach(), or "
                "multiply under torch.no_grad()"
            )
        if x.is_neg():
            raise TypeError("a tensor is a view that negates; pass tensor.resolve_neg()")
        if x.is_conj():
            raise TypeError("a tensor is a view that conjugates; pass tensor.resolve_conj()")
        if _has_no_memory(x):
            raise TypeError(
                f"a tensor is a {type(x).__name__} without memory of its own, which only its class "
                "multiplies: use falcon.torch.linear or .matmul, which leave it to torch"
            )
        return super().matrix(x)

    def resolved(self, x: Any) -> Any:
        return x.resolve_conj()

    def address(self, x: Any) -> int:
        return int(x.data_ptr())

    def facts(self, x: Any) -> tuple | None:
        if not x.is_cuda or x.is_neg() or x.is_conj() or _has_no_memory(x):
            return None
        if x.requires_grad and self._module.is_grad_enabled():
            return None
        return self.address(x) % ACCESS_BYTES, x.shape, x.stride(), x.dtype, x.device

    def empty(self, shape: tuple[int, ...], dtype: DType, index: int) -> Any:
        kind = getattr(self._module, dtype.name)
        return self._module.empty(shape, dtype=kind, device=f"cuda:{index}")

    def allocate(self, nbytes: int) -> Memory:
        where = f"cuda:{device.current()}"  # torch's own current device may be another one
        try:  # a tensor would be filled where torch is to be deterministic
            made = self._module.UntypedStorage(max(nbytes, 1), device=where)
        except self._module.OutOfMemoryError as error:
            raise MemoryError(str(error)) from None
        return Memory(made.data_ptr(), nbytes, made)

    def note_write(self, x: Any) -> None:
        if not x.is_inference():
            self._module.autograd.graph.increment_version(x)

    def stream(self, index: int) -> AbstractContextManager[Any]:
        stream = self._module.cuda.current_stream(index)
        return device.on_stream(int(stream.cuda_stream), index)

    def permuted(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.permute(axes)

    def strides(self, x: Any) -> tuple[int, ...]:
        return tuple(x.stride())


def _has_no_memory(x: Any) -> bool:
    """Whether a tensor wraps others."""
    return x.data_ptr() == 0 and x.numel() > 0


def _known(row: DType | None, name: Any) -> DType:
    if row is None:
        raise unknown_type(name)
    return row
