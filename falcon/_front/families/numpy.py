"""NumPy arrays, and objects that convert to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from falcon._core.arrays import takes_over, to_array, to_target
from falcon._core.dtypes import DType, find, native, of
from falcon._core.options import Options, threads_of
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._core.symmetric import is_transpose, same_memory
from falcon._numpy import original
from falcon._numpy.threads import limited

from ..validate import (
    check_numeric,
    describe,
    is_direct,
    is_numeric,
    is_strided,
    overlap,
    plain,
    refuse_packed,
    type_named,
)

# Up to this 2MNK np.matmul's loops without BLAS take less time than a call of falcon's engine, for
# floats (float16 is converted) and integers (Zen 4: 8 x 8, for x.T @ x 10 x 10). Up to the last one
# of all integers of a batch: it takes 12 microseconds to call the engine, 2 to call NumPy.
_TINY_FLOPS, _TINY_BATCH = (100, 1500), 40_000
_HERE = nullcontext()


class NumpyFamily:
    """See the module's docstring; `falcon._front.families.Family` is the interface."""

    library_backends: tuple[str, ...] = ("auto", "numpy")
    source_is_optional = True
    parts_written: tuple[str, ...] = ("full", "lower", "upper")

    def requested(self, options: Options) -> Options:
        return options

    def current(self) -> AbstractContextManager[Any]:
        return _HERE

    def array(self, name: str, x: Any) -> np.ndarray:
        if type(x) is not np.ndarray:
            refuse_packed(name, x)
            x = to_array(name, x)
        check_numeric(name, x.dtype)
        return x

    def dtype(self, arrays: list[Any]) -> DType:
        return of(np.result_type(*(x.dtype for x in arrays)))

    def element_type(self, x: Any) -> DType | None:
        return find(x.dtype) if hasattr(x, "dtype") else None

    def type_named(self, dtype: Any) -> DType:
        return type_named(dtype)

    def scalars(self, dtype: DType) -> DType:
        return dtype

    def target(self, out: Any) -> Any:
        return to_target(out)

    def check_cast(self, out: Any, dtype: DType) -> None:
        if not np.can_cast(dtype.numpy, out.dtype, "same_kind"):
            raise TypeError(
                f"out has dtype {out.dtype}, to which the result's {dtype.numpy} does not cast "
                "(same_kind)"
            )

    def check_out(self, out: Any, shape: tuple[int, ...], dtype: DType) -> None:
        self.check_cast(out, dtype)
        if out.shape != shape:
            raise ValueError(f"out has shape {out.shape}; expected {shape}")
        if not out.flags.writeable:
            raise ValueError("out is read-only")

    def library_product(self, a: Any, b: Any, out: Any, dtype: Any, options: Options) -> Any:
        """Pass booleans, objects, array subclasses and other array types to np.matmul."""
        a, b = plain("a", a), plain("b", b)
        ordinary = all(type(x) is np.ndarray for x in (a, b)) and (
            out is None or type(out) in (np.ndarray, np.memmap)
        )
        if ordinary and min(a.ndim, b.ndim) and all(is_numeric(x.dtype) for x in (a, b)):
            return NotImplemented
        self._check_not_by_name({"a": a, "b": b, "out": out}, options)
        given = {} if out is None else {"out": out}
        if dtype is not None:
            given["dtype"] = _any_type(dtype)
        with limited(threads_of(options)):
            return original.ufunc(a, b, **given)

    def is_taken_over(self, named: Mapping[str, Any], out: Any, options: Options) -> bool:
        """Whether a class runs NumPy's functions in its own way; not by a scheme or backend."""
        taken = any(map(takes_over, (*named.values(), out)))
        if taken:
            self._check_not_by_name({**named, "out": out}, options)
        return taken

    def _check_not_by_name(self, operands: Mapping[str, Any], options: Options) -> None:
        by_name = options.backend not in self.library_backends
        if by_name or options.scheme not in ("auto", "classical"):
            what = f"backend {options.backend!r}" if by_name else f"{options.scheme!r}"
            got = (f"{name} {describe(x)}" for name, x in operands.items() if x is not None)
            raise TypeError(
                f"{what} needs plain numeric arrays of at least one axis; got {', '.join(got)}"
            )

    def scalar(self, x: Any) -> Any:
        return x[()]

    def empty(self, shape: tuple[int, ...], dtype: DType, of: Sequence[Any] = ()) -> np.ndarray:
        kind = native(np.result_type(*(x.dtype for x in of))) if of else dtype.numpy
        return np.empty(shape, kind if kind == dtype.numpy else dtype.numpy)

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
        a_shape, b_shape = (x if isinstance(x, tuple) else x.shape for x in (a, b))
        written = result.numpy
        left = _Operand(a, operand.left.numpy)
        right = _Operand(b_shape if packed else b, operand.right.numpy)
        fresh = out is None
        sources = [x for x in (a, b) if isinstance(x, np.ndarray)]
        out_direct = fresh or (
            is_strided(out, written) and not any(self.overlap(out, x) for x in sources)
        )
        size = operand.itemsize
        K = a_shape[1]
        if not symmetric and len(sources) == 2 and c is None and not packed:
            symmetric = _symmetric(a, b, operand, options)
        return Problem.of(
            (a_shape[0], b_shape[1], K),
            operand,
            options,
            result=result,
            buffered=c is not None
            or symmetric in ("lower", "upper")
            or not (out_direct and (fresh or is_direct(out, written))),
            a_direct=left.direct,
            b_direct=right.direct,
            a_strided=left.strided,
            b_strided=right.strided,
            layout=(  # copies are by rows; a single column has a unit stride both ways
                left.strides[0] == size if left.strided else K == 1,
                not right.strided or right.strides[1] == size,
                not fresh and out_direct and out.strides[0] == result.itemsize != out.strides[1],
            ),
            out_direct=out_direct,
            out_overlaps_c=c is not None and not fresh and self.overlap(out, c),
            packed=packed,
            symmetric=symmetric,
        )

    def operand(self, x: Any) -> Any:
        return x

    def scale(self, c: Any, beta: Any, out: Any, dtype: DType) -> None:
        if c is None:
            out[...] = 0
            return
        with np.errstate(all="ignore"):
            np.multiply(c, beta, out=out, dtype=dtype.numpy, casting="same_kind")

    def copy(self, x: Any, out: Any, casting: Any = "same_kind") -> None:
        """Write `x` to `out`, without warnings."""
        with np.errstate(all="ignore"):
            np.copyto(out, x, casting=casting)

    def overlap(self, x: Any, y: Any) -> bool:
        return overlap(x, y)

    def same_memory(self, x: Any, y: Any) -> bool:
        return same_memory(x, y)

    def permuted(self, x: Any, axes: tuple[int, ...]) -> np.ndarray:
        return x.transpose(axes)

    def strides(self, x: Any) -> tuple[int, ...]:
        return x.strides

    def einsum_operands(
        self, named: dict[str, Any], out: Any, dtype: Any, casting: Any
    ) -> tuple[list[Any], Any]:
        """Convert to arrays; booleans and others that falcon does not multiply are cast here."""
        for name, x in named.items():
            refuse_packed(name, x)
        arrays = [to_array(name, x) for name, x in named.items()]
        known = [x.dtype for x in (*arrays, out) if x is not None]
        wanted = np.result_type(*known) if dtype is None else _any_type(dtype)
        wanted = native(wanted)
        for name, x in zip(named, arrays, strict=True):
            if not np.can_cast(x.dtype, wanted, casting):
                raise TypeError(f"{name} has dtype {x.dtype}; no cast to {wanted} ({casting})")
        if out is not None and not np.can_cast(wanted, out.dtype, casting):
            raise TypeError(f"out has dtype {out.dtype}; no cast from {wanted} ({casting})")
        for i, x in enumerate(arrays):
            left = is_numeric(wanted) and is_numeric(x.dtype)
            left = left and np.can_cast(x.dtype, wanted, "same_kind")
            with np.errstate(all="ignore"):
                arrays[i] = x if left else x.astype(wanted, copy=False)
        return arrays, None if all(x.dtype == wanted for x in arrays) else wanted

    def einsum(self, text: str, arrays: Sequence[Any], dtype: Any) -> Any:
        """Call np.einsum, in float32 for types of other packages, which it does not know."""
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

    def folded(self, x: Any) -> np.ndarray | None:
        even = all(
            x.shape[i] == 1 or x.strides[i] == x.strides[i + 1] * x.shape[i + 1]
            for i in range(x.ndim - 2)
        )
        return x.reshape(-1, x.shape[-1]) if even and x.size else None

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(x, shape)

    def in_one_call(
        self,
        a: Any,
        b: Any,
        out: Any,
        types: tuple[DType, DType],
        options: Options,
        plan: Plan | None,
    ) -> Plan | str:
        """Multiply a batch by np.matmul, or by the backend of the first product's plan.

        Returns "np.matmul" for operands as they stand, "converted", the plan, or "".
        np.matmul copies operands of another dtype (within the workspace limit), and multiplies
        types without BLAS in loops, which pays for tiny matrices and batches only.
        """
        if plan is not None and plan.scheme is not None:
            return ""
        operand, dtype = types
        # NumPy selects its loops for types of other packages by the operands, not by dtype=.
        cast = [x for x in (a, b) if x.dtype != dtype.numpy]
        copied = sum(x.size for x in cast) * dtype.itemsize
        limit = options.workspace_limit
        able = not cast or (dtype.module == "numpy" and (limit is None or copied <= limit))
        flops, exact = 2 * a.shape[-2] * a.shape[-1] * b.shape[-1], operand.is_exact
        is_tiny = flops <= _TINY_FLOPS[exact]
        is_tiny = is_tiny or (exact and 2 * out.size * a.shape[-1] <= _TINY_BATCH)
        if plan is not None and not is_tiny:
            backend = plan.backend
            if not backend.is_library:
                if able and operand.is_exact:  # integers of two types, as np.matmul takes them
                    a, b = (
                        np.asarray(x, kind.numpy)
                        for x, kind in ((a, operand.left), (b, operand.right))
                    )
                return plan if backend.execute_batch(plan, a, b, out) else ""
            able = able and (operand.has_blas or operand.engine is None)
        if not able:
            return ""
        with limited(threads_of(options)), np.errstate(all="ignore"):
            original.matmul(a, b, out=out, dtype=dtype.numpy if cast else None)
        return "converted" if cast else "np.matmul"


NUMPY = NumpyFamily()


def _any_type(dtype: Any) -> np.dtype:
    """Return a dtype of NumPy, ml_dtypes or torch."""
    try:
        return type_named(dtype).numpy
    except TypeError:  # booleans, objects
        of_torch = type(dtype).__module__ == "torch"
        return np.dtype(str(dtype).removeprefix("torch.") if of_torch else dtype)


def _symmetric(a: np.ndarray, b: np.ndarray, dtype: DType, options: Options) -> str:
    """Return "full" for ``x.T @ x``, unless a scheme was given by name, which computes all of C."""
    wanted = options.scheme in ("auto", "classical") and not dtype.is_complex and len(a) > 1
    return "full" if wanted and is_transpose(a, b) else ""


class _Operand:
    """How an operand lies in memory; by rows if only its shape is known."""

    __slots__ = ("direct", "strided", "strides")

    def __init__(self, x: Any, dtype: np.dtype) -> None:
        known = isinstance(x, np.ndarray)
        self.direct = not known or is_direct(x, dtype)
        self.strided = not known or is_strided(x, dtype)
        size = dtype.itemsize
        self.strides = x.strides if known else (x[1] * size, size)
