"""Batches and vectors in one call: of the array library, or of falcon's engine."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from time import perf_counter
from typing import Any

import numpy as np

from falcon._backends import host_engine
from falcon._core import observe
from falcon._core.dtypes import DType
from falcon._core.options import Options, threads_of
from falcon._core.plan import Plan
from falcon._core.policy import is_long_batch
from falcon._numpy import original
from falcon._numpy.backend import NumpyBackend
from falcon._numpy.threads import limited

from .adapters import Adapter
from .execute import Product
from .fallback import why_not_by_library
from .planner import plan_for


def in_one_call(
    adapter: Adapter, a: Any, b: Any, out: Any, types: tuple[DType, DType], options: Options
) -> Plan | str:
    """Multiply all matrices by one call, if falcon would use it for each of them.

    Returns what did: "np.matmul" for arrays as they stand, or the plan of one matrix, which are
    then remembered, or another word; "" if nothing did.

    `a`, `b`: broadcast to the batch of `out`, which overlaps neither.
    `types`: those of `Product`.
    """
    by_library = why_not_by_library(adapter, options) is None
    if options.check == "verify" or not (by_library or _is_for_engine(options)):
        return ""
    (M, K), N = a.shape[-2:], b.shape[-1]
    plan: Plan | None = None  # vectors for a BLAS need none: they are memory-bound
    if min(M, N) > 1 or not (types[0].has_blas and by_library):
        if K == 0 or 0 in out.shape:
            return ""
        plan = _plan_of_first(adapter, a, b, types, options, prod(out.shape[:-2]))
    return by_plan(adapter, a, b, out, types, options, plan)


def _is_for_engine(options: Options) -> bool:
    """Whether falcon's engine is asked for by name, as `reproducible` does."""
    asked = options.backend == host_engine().name and options.scheme in ("auto", "classical")
    return asked and options.modulus is None


def _plan_of_first(
    adapter: Adapter, a: Any, b: Any, types: tuple[DType, DType], options: Options, count: int
) -> Plan:
    first = (0,) * (len(a.shape) - 2)
    problem, _ = Product(adapter, a[first], b[first], None, None, *types, options).described()
    if problem.symmetric and not adapter.matrix(a).is_transpose(adapter.matrix(b)):
        problem = replace(problem, symmetric="")  # only some of the products are symmetric
    plan = plan_for(problem, options)
    if not plan.method.is_classical or options.backend != "auto" or not types[0].has_blas:
        return plan
    engine = host_engine()
    if engine.why_not(problem) is None and engine.beats_blas(problem, count):
        return plan_for(problem, replace(options, scheme="classical", backend=engine.name))
    return plan


def by_plan(
    adapter: Adapter,
    a: Any,
    b: Any,
    out: Any,
    types: tuple[DType, DType],
    options: Options,
    plan: Plan | None,
) -> Plan | str:
    """Multiply as `in_one_call`, by the plan of one of the matrices; None: of vectors."""
    if plan is not None and not plan.method.is_classical:
        return ""
    if adapter.device is not None:
        return _by_cublas(adapter, a, b, out, types, options, plan)
    return _by_numpy(a, b, out, types, options, plan)


def _by_numpy(
    a: Any, b: Any, out: Any, types: tuple[DType, DType], options: Options, plan: Plan | None
) -> Plan | str:
    """Multiply by np.matmul, or by the backend of the plan.

    np.matmul copies operands of another dtype (within the workspace limit), and multiplies types
    without BLAS in loops, which pays for tiny matrices and batches only.
    """
    operand, dtype = types
    # NumPy selects its loops for types of other packages by the operands, not by dtype=.
    cast = [x for x in (a, b) if x.dtype != dtype.numpy]
    copied = sum(x.size for x in cast) * dtype.itemsize
    limit = options.workspace_limit
    able = not cast or (dtype.module == "numpy" and (limit is None or copied <= limit))
    count = prod(out.shape[:-2])
    is_short = plan is not None and not is_long_batch(plan.problem, count)
    if plan is not None and not (is_short and options.backend == "auto"):
        if not isinstance(plan.backend, NumpyBackend):
            if able:  # operands of two types, as np.matmul takes them
                a, b = np.asarray(a, operand.left.numpy), np.asarray(b, operand.right.numpy)
            start = perf_counter()
            if plan.backend.execute_batch(plan, a, b, out):
                seconds = perf_counter() - start
                for told in observe.observers:
                    told(plan, seconds, count, (a, b, None, out, 1, 0))
                return plan
            if options.backend != "auto":
                return ""
        able = able and (operand.has_blas or operand.engine is None)
    if not able:
        return ""
    with limited(threads_of(options)), np.errstate(all="ignore"):
        original.matmul(a, b, out=out, dtype=dtype.numpy if cast else None)
    return "converted" if cast else "np.matmul"


def _by_cublas(
    adapter: Any,
    a: Any,
    b: Any,
    out: Any,
    types: tuple[DType, DType],
    options: Options,
    plan: Plan | None,
) -> str:
    """Multiply by one strided-batched product."""
    from falcon._gpu import cublas, workspaces  # imported when first needed
    from falcon._gpu.steps import run

    if len(out.shape) < 3 or options.workspace_limit is not None:
        return ""
    left, right, target = (adapter.library.batch(x) for x in (a, b, out))
    if left is None or right is None or target is None:
        return ""
    operand = types[0] if plan is None else plan.operand
    count, (M, N), K = prod(out.shape[:-2]), out.shape[-2:], a.shape[-1]
    if 0 in (count, M, N, K) or (count > 1 and target.step == 0) or operand.parts > 1:
        return ""
    if not left.dtype is right.dtype is target.dtype:
        return ""
    product = cublas.products(M, N, K, left, right, target, batch=count, operand=operand)
    run(*product, workspace=workspaces.for_cublas(adapter.library))
    return "cuBLAS"


def folded(x: Any) -> np.ndarray | None:
    """Return a view of a batch in host memory as one matrix with all rows; None: there is none.

    (Batches on a GPU are multiplied by one strided-batched product.)
    """
    if not isinstance(x, np.ndarray) or not x.size:
        return None
    even = all(
        x.shape[i] == 1 or x.strides[i] == x.strides[i + 1] * x.shape[i + 1]
        for i in range(x.ndim - 2)
    )
    return x.reshape(-1, x.shape[-1]) if even else None
