"""CuPy arrays and torch tensors in GPU memory.

No data is moved: operands stay where they are, the result is an array of the caller's library, and
all work runs in the caller's current stream, without waiting for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Any

from falcon._backends import DEVICE, get_backend
from falcon._core.dtypes import CUDA, DType, of
from falcon._core.options import Options
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._gpu import cublas, kernels, operands, workspaces
from falcon._gpu.arrays import Library, library_of, promoted
from falcon._gpu.device import current, on
from falcon._gpu.matrix import Matrix, dense, meet
from falcon._gpu.steps import run
from falcon._gpu.where import device_of

from ..validate import refuse_packed, type_named


def device_family(arrays: dict[str, Any]) -> DeviceFamily:
    """Return the family of arrays of one library on one device.

    Raises TypeError: one is in host memory, or of another library.
    Raises ValueError: one is on another device.
    """
    first = next(iter(arrays))
    index = {name: device_of(x) for name, x in arrays.items()}
    gpu = next(x for x in index.values() if x is not None)
    for name, found in index.items():
        if found is None:
            kind = type(arrays[name]).__name__
            raise TypeError(
                f"{name} is a {kind} in host memory, but another operand is on cuda:{gpu}; move "
                f"it there first (cupy.asarray({name}), or {name}.cuda() of torch): falcon moves "
                "no data by itself"
            )
        if found != gpu:
            raise ValueError(f"{name} is on cuda:{found} and {first} on cuda:{index[first]}")
    libraries = {name: library_of(x) for name, x in arrays.items()}
    for name, library in libraries.items():
        if library.name != libraries[first].name:
            raise TypeError(
                f"{name} is of {library.name} and {first} of {libraries[first].name}; convert one "
                "(cupy.from_dlpack and torch.from_dlpack do it without a copy)"
            )
    return DeviceFamily(libraries[first], gpu)


def current_device() -> DeviceFamily:
    """Return the family to plan for shapes, without arrays, on the current device."""
    get_backend(DEVICE)
    return DeviceFamily(Library(), current())


class DeviceFamily:
    """Arrays of one library on one device; `falcon._front.families.Family` is the interface."""

    library_backends: tuple[str, ...] = (DEVICE,)
    source_is_optional = False
    parts_written: tuple[str, ...] = ("full",)

    def __init__(self, library: Library, index: int) -> None:
        self._library, self._index = library, index

    def requested(self, options: Options) -> Options:
        """Allow only the GPU backend, and no check="verify", which needs results on the host."""
        if options.backend not in ("auto", DEVICE):
            raise ValueError(
                f"backend is {options.backend!r}, but the operands are in GPU memory; use 'auto' "
                f"or {DEVICE!r}, or move them to the host (cupy.asnumpy(a), or a.cpu() of torch)"
            )
        if options.check == "verify":
            raise ValueError(
                "check='verify' works on the host; use falcon.verify on host copies, or "
                "check='finite'"
            )
        get_backend(DEVICE)
        return replace(options, backend=DEVICE)

    @contextmanager
    def current(self) -> Iterator[None]:
        with on(self._index), self._library.stream(self._index):
            yield

    def array(self, name: str, x: Any) -> Any:
        refuse_packed(name, x)
        return x

    def dtype(self, arrays: list[Any]) -> DType:
        """Return the wider floating type; there is none for float16 with bfloat16."""
        return promoted([self._library.dtype(x) for x in arrays])

    def element_type(self, x: Any) -> DType | None:
        return of(x.dtype) if isinstance(x, PackedOperand) else self._library.dtype(x)

    def type_named(self, dtype: Any) -> DType:
        row = type_named(dtype)
        if row.cuda is None:
            known = ", ".join(x.name for x in CUDA)
            raise TypeError(f"dtype is {row}; arrays in GPU memory are multiplied in {known}")
        return row

    def target(self, out: Any) -> Any:
        return out

    def scalars(self, dtype: DType) -> DType:
        return dtype.accumulator

    def check_cast(self, out: Any, dtype: DType) -> None:
        promoted([self._library.dtype(out)])

    def check_out(self, out: Any, shape: tuple[int, ...], dtype: DType) -> None:
        self.check_cast(out, dtype)
        if tuple(out.shape) != shape:
            raise ValueError(f"out has shape {tuple(out.shape)}; expected {shape}")

    def library_product(self, a: Any, b: Any, out: Any, dtype: Any, options: Options) -> Any:
        """Refuse scalars; falcon multiplies all other operands."""
        if min(len(a.shape), len(b.shape)) == 0:
            raise ValueError("matmul: an operand is a scalar; expected at least one axis")
        return NotImplemented

    def is_taken_over(self, named: Mapping[str, Any], out: Any, options: Options) -> bool:
        """All arrays are of one library, which falcon knows."""
        return False

    def scalar(self, x: Any) -> Any:
        return x

    def empty(self, shape: tuple[int, ...], dtype: DType, of: Sequence[Any] = ()) -> Any:
        """Make an array by rows; falcon's buffers are made so too, which a graph may need again."""
        return workspaces.keep(self._library, self._library.empty(shape, dtype, self._index))

    def problem(
        self,
        a: Any,
        b: Any,
        c: Any,
        out: Any,
        operand: DType,
        result: DType,
        options: Options,
        *,
        packed: bool = False,
        symmetric: str = "",
    ) -> Problem:
        shapes = [x if isinstance(x, tuple) else tuple(x.shape) for x in (a, b)]
        left, right, added, target = (
            None if x is None or isinstance(x, tuple) else self.operand(x)
            for x in (a, None if packed else b, c, out)
        )
        if target is None:  # it will be by rows, of the type of the result
            target = dense(0, (shapes[0][0], shapes[1][1]), result)
        copy_a, copy_b, copy_c, product = operands.copies(operand, left, right, added, target)
        return Problem.of(
            (shapes[0][0], shapes[1][1], shapes[0][1]),
            operand,
            options,
            result=result,
            device=self._index,
            buffered=copy_c,
            a_direct=not copy_a,
            b_direct=not copy_b,
            out_direct=not product,
            packed=packed,
        )

    def operand(self, x: Any) -> Matrix:
        return x if isinstance(x, Matrix) else self._library.matrix(x)

    def scale(self, c: Any, beta: Any, out: Any, dtype: DType) -> None:
        added, target = None if c is None else self.operand(c), self.operand(out)
        # A thread may overwrite what another one has yet to read, except at the same entry.
        if added is not None and added.overlaps(target) and not operands.same(added, target):
            added = operands.duplicate(added)
        run(kernels.copy(added, target, float(beta) if added is not None else 1.0))

    def copy(self, x: Any, out: Any, casting: Any = "same_kind") -> None:
        out[...] = x

    def overlap(self, x: Any, y: Any) -> bool:
        return meet(self._library.span(x), self._library.span(y))

    def same_memory(self, x: Any, y: Any) -> bool:
        """Whether the two are one object: for others, a copy is made."""
        return x is y

    def permuted(self, x: Any, axes: tuple[int, ...]) -> Any:
        return self._library.permuted(x, axes)

    def strides(self, x: Any) -> tuple[int, ...]:
        return self._library.strides(x)

    def einsum_operands(
        self, named: dict[str, Any], out: Any, dtype: Any, casting: Any
    ) -> tuple[list[Any], Any]:
        """Arrays stay as they are; all floating types cast to one another."""
        arrays = [self.array(name, x) for name, x in named.items()]
        wanted = self.dtype(arrays) if dtype is None else self.type_named(dtype)
        same = all(self.element_type(x) is wanted for x in arrays)
        return arrays, None if same else wanted.name

    def einsum(self, text: str, arrays: Sequence[Any], dtype: Any) -> Any:
        """Call the library's own einsum, for copies of arrays of another dtype."""
        cast = list(arrays)
        for i, x in enumerate(arrays):
            if dtype is not None and self.element_type(x) is not of(dtype):
                cast[i] = self.empty(tuple(x.shape), of(dtype))
                self.copy(x, cast[i])
        return self._library.einsum(text, cast)

    def folded(self, x: Any) -> None:
        """Batches are multiplied by one strided-batched product."""

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        return self._library.broadcast(x, shape)

    def in_one_call(
        self,
        a: Any,
        b: Any,
        out: Any,
        types: tuple[DType, DType],
        options: Options,
        plan: Plan | None,
    ) -> Plan | str:
        """Multiply a batch by one strided-batched product, unless the plan is an LCMA."""
        if len(out.shape) < 3 or options.workspace_limit is not None:
            return ""
        if plan is not None and plan.scheme is not None:
            return ""
        left, right, target = (self._library.batch(x) for x in (a, b, out))
        if left is None or right is None or target is None:
            return ""
        operand = types[0] if plan is None else plan.problem.operand
        count, (M, N), K = prod(out.shape[:-2]), out.shape[-2:], a.shape[-1]
        if 0 in (count, M, N, K) or (count > 1 and target.step == 0) or operand.parts > 1:
            return ""
        if not left.dtype is right.dtype is target.dtype:
            return ""
        product = cublas.products(M, N, K, left, right, target, batch=count, operand=operand)
        run(*product, workspace=workspaces.for_cublas(self._library))
        return "cuBLAS"
