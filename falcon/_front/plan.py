"""`plan`: what `gemm` would do, without doing it."""

from __future__ import annotations

import sys
from dataclasses import replace
from math import prod
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from falcon._backends import DEVICE, LIBRARY, available_backends, get_backend
from falcon._core.dtypes import FLOAT64, DType, dtype_of
from falcon._core.keywords import PlanningOptions, takes_options
from falcon._core.options import PLANNING, Options, merge_keywords
from falcon._core.packed import PackedOperand
from falcon._core.plan import Candidate, Plan
from falcon._core.problem import Problem
from falcon.decision.rates import rates
from falcon.decision.search import search_for

from .adapters import Adapter, adapt_operands
from .adapters.host import NUMPY
from .arithmetic import operand_type, result_type
from .execute import Product
from .gemm import check_packed, options_for, packed_type
from .planner import plan_for, predicted, resolve_options
from .validate import check_matrix, matmul_shape
from .views import folds


@takes_options(*PLANNING)
def plan(
    a: Any, b: Any, dtype: npt.DTypeLike | None = None, **options: Unpack[PlanningOptions]
) -> Plan:
    """Decide how ``a @ b`` would be multiplied, without multiplying.

    Parameters
    ----------
    a, b : array_like or tuple of int
        Matrices, or their shapes (M, K) and (K, N); or batches, as for `matmul`; or `b` a
        `PackedOperand`, whose scheme is compared with the choice for one that is not packed.
    dtype : dtype, optional
        Of the result, as in `gemm`. Default: ``np.result_type`` of the arrays; float64 for shapes,
        and int64 with `modulus`.
    {options}

    Returns
    -------
    Plan
        Printable, callable on operands of these shapes, with `Plan.explain`.

    Raises
    ------
    ValueError, TypeError
        As `gemm`.

    Examples
    --------
    >>> import falcon
    >>> p = falcon.plan((60, 70), (70, 80), "float32", scheme="strassen")
    >>> p.growth
    2.0
    """
    if isinstance(b, PackedOperand):
        return _of_packed(a, b, dtype, options)
    left: Any = _shape("a", a)
    right: Any = _shape("b", b)
    adapter: Adapter = NUMPY
    arrays: dict[str, Any] = {}
    if left is None or right is None:
        named = (("a", a, left), ("b", b, right))
        arrays = {name: x for name, x, shape in named if shape is None}
        adapter, *views = adapt_operands(**arrays)
        arrays = _matrices(adapter, dict(zip(arrays, views, strict=True)))
        left, right = arrays.get("a", left), arrays.get("b", right)
    elif merge_keywords("plan", PLANNING, options).backend == DEVICE:
        get_backend(DEVICE)  # raises
        from falcon._gpu.adapter import current_device  # imported when first needed: 30 ms

        adapter = current_device()
    first: tuple[int, ...] = left if type(left) is tuple else tuple(left.shape)
    second: tuple[int, ...] = right if type(right) is tuple else tuple(right.shape)
    if first[-1] != second[-2]:
        raise ValueError(f"a has shape {first} and b {second}: a's columns must equal b's rows")
    batch, (M, N) = matmul_shape(first, second, None)
    if len(first) > 2 == len(second) and (type(left) is tuple or folds(left)):
        M, batch = M * prod(batch), ()  # all rows are one matrix
        left = (M, first[-1]) if type(left) is tuple else left.reshape(M, first[-1])
    chosen = resolve_options("plan", PLANNING, options, adapter.device)
    native = FLOAT64 if chosen.modulus is None else dtype_of("int64")
    if arrays or dtype is not None:
        native = result_type(adapter, arrays, dtype, None, chosen.one_modulus)
    _check_bytes(M, first[-1], N, native)
    operand = operand_type(adapter, list(arrays.values()), native, chosen)
    with adapter.current():
        if arrays:
            product = Product(adapter, left, right, None, None, operand, native, chosen)
            return product.plan
        about: dict[str, Any] = {"result": native, "device": adapter.device, "count": prod(batch)}
        return plan_for(Problem.of_sizes((M, N, first[-1]), operand, chosen, **about), chosen)


def _matrices(adapter: Adapter, given: dict[str, Any]) -> dict[str, Any]:
    """Return operands that are no shapes as arrays.

    Raises TypeError: one is a number. Raises ValueError: one has fewer than two axes.
    """
    if any(isinstance(x, int | np.integer) for x in given.values()):
        raise TypeError(
            "plan takes two matrices or their shapes, as in falcon.plan((M, K), (K, N)); got "
            + " and ".join(f"{name} = {x!r}" for name, x in given.items())
        )
    arrays = {}
    for name, x in given.items():
        arrays[name] = adapter.array(name, x)
        if len(arrays[name].shape) < 2:
            check_matrix(name, arrays[name])  # raises
    return arrays


def _of_packed(a: Any, b: PackedOperand, dtype: Any, options: PlanningOptions) -> Plan:
    """Plan products by a packed operand, and compare them with those by B itself."""
    shape = _shape("a", a)
    if shape is not None and len(shape) > 2:
        raise ValueError(f"a is the shape {shape}; expected a matrix, as b is packed")
    adapter, array, _ = adapt_operands(a=None if shape else a, b=b)
    left: Any = shape or check_matrix("a", adapter.array("a", array))
    first = shape or tuple(left.shape)
    if first[1] != b.shape[0]:
        raise ValueError(f"a has shape {first} and b {b.shape}: a's columns must equal b's rows")
    chosen = options_for(b, "plan", PLANNING, options, adapter.device)
    result = result_type(
        adapter, {"b": b} if shape else {"a": left, "b": b}, dtype, None, chosen.one_modulus
    )
    check_packed(b, result, options.get("backend") or "auto", options.get("scheme") or "auto")
    kind = dtype_of(b.dtype if b.panels is None else b.panels) if shape else adapter.dtype(left)
    operand = packed_type(b, left, kind, result)
    if not b.is_packed:
        product = Product(adapter, left, b.source, None, None, operand, result, chosen)
        made = product.plan
        named = replace(made.method, name=f"{made.label}, not packed")
        return replace(made, method=named)
    with adapter.current():
        operands = left, b.shape, None, None
        made = Product(adapter, *operands, operand, result, chosen, packed=b).plan
        problem, best = made.problem, predicted(made)
        plain = replace(problem, packed=False)
        backend = "auto" if problem.device is None else b.backend
        other = plan_for(plain, replace(chosen, backend=backend, scheme="auto"))
    lost = predicted(other)
    named = replace(lost.method, name=f"{other.label}, not packed")
    ratio = lost.total / best.total if best.total else 1.0  # empty ones take no time
    slower = f"{ratio:.2f} x as long"
    table = best, replace(lost, method=named, refused=slower)
    why = f"b was packed for it; {named.name}: {slower}"
    return replace(made, why=why, seconds=best.seconds, table=lambda: table)


def by_numpy(plan: Plan) -> Candidate | None:
    """Return how NumPy's BLAS multiplies a plan's problem, with predicted seconds; None: not."""
    problem, backends = plan.problem, available_backends()
    if problem.device is not None or not problem.operand.has_blas or LIBRARY.why_not(problem):
        return None
    (option,) = LIBRARY.candidates(problem, (None,), None)
    search = search_for(replace(problem, packed=False), Options(), backends)
    if search.library is not None:  # as plans of these matrices see it
        return search.predicted(search.library, option)
    return LIBRARY.predicted(problem, option, rates(LIBRARY, problem, backends))


def _shape(name: str, x: Any) -> tuple[int, ...] | None:
    """Return `x` if it is a shape; None for anything else."""
    if not isinstance(x, tuple):
        return None
    for size in x:
        if type(size) is not int and not isinstance(size, int | np.integer):
            return None
    if len(x) < 2 or min(x) < 0:
        raise ValueError(f"{name} is the shape {x}; expected at least two sizes >= 0")
    return tuple(map(int, x))


def _check_bytes(M: int, K: int, N: int, dtype: DType) -> None:
    """Raise ValueError if an operand or the result would be larger than any array can be."""
    for name, rows, columns in (("a", M, K), ("b", K, N), ("the result", M, N)):
        if rows * columns * dtype.itemsize > sys.maxsize:
            raise ValueError(
                f"{name} has shape {(rows, columns)}: {dtype} matrices have at most "
                f"{sys.maxsize // dtype.itemsize} entries"
            )
