"""Batches and vectors in one call: of the array library, or of falcon's engine."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from falcon._backends import host_engine
from falcon._core.dtypes import DType
from falcon._core.options import Options, threads_of
from falcon._core.plan import Plan
from falcon._numpy import original
from falcon._numpy.backend import NumpyBackend
from falcon._numpy.threads import limited

from .adapters import Adapter
from .execute import Product
from .fallback import why_not_by_library
from .planner import plan_for

# Whether np.matmul copies matrices of a batch whose strides no BLAS takes: twice as fast as
# falcon's engine up to 48 x 48. It used to multiply them in loops.
_COPIES = np.lib.NumpyVersion(np.__version__) >= "2.4.0"
# Up to this 2MNK np.matmul's loops without BLAS take less time than a call of falcon's engine, for
# floats (float16 is converted) and integers (Zen 4: 8 x 8, for x.T @ x 10 x 10). Up to the last one
# of all integers of a batch: it takes 12 microseconds to call the engine, 2 to call NumPy.
_TINY_FLOPS, _TINY_BATCH = (100, 1500), 40_000


def in_one_call(
    adapter: Adapter, a: Any, b: Any, out: Any, types: tuple[DType, DType], options: Options
) -> Plan | str:
    """Multiply all matrices by one call, if falcon would use it for each of them.

    Returns what did: "np.matmul" for arrays as they stand, or the plan of one matrix, which are
    then remembered, or another word; "" if nothing did.

    `a`, `b`: broadcast to the batch of `out`, which overlaps neither.
    `types`: those of `Product`.
    """
    if options.check == "verify" or why_not_by_library(adapter, options):
        return ""
    (M, K), N = a.shape[-2:], b.shape[-1]
    plan: Plan | None = None  # vectors for a BLAS need none: they are memory-bound
    if min(M, N) > 1 or not types[0].has_blas:
        if K == 0 or 0 in out.shape:
            return ""
        plan = _plan_of_first(adapter, a, b, types, options)
    return by_plan(adapter, a, b, out, types, options, plan)


def _plan_of_first(
    adapter: Adapter, a: Any, b: Any, types: tuple[DType, DType], options: Options
) -> Plan:
    first = (0,) * (len(a.shape) - 2)
    problem, _ = Product(adapter, a[first], b[first], None, None, *types, options).described()
    if problem.symmetric and not adapter.matrix(a).is_transpose(adapter.matrix(b)):
        problem = replace(problem, symmetric="")  # only some of the products are symmetric
    plan = plan_for(problem, options)
    other = host_engine()
    strided = problem.a_strided and problem.b_strided
    strided = strided and not ((problem.a_direct and problem.b_direct) or types[0].is_complex)
    strided = strided and not _COPIES
    if plan.scheme is None and strided and other.why_not(problem) is None:
        # Strides that no BLAS takes: falcon's engine reads them as they are.
        wanted = other.name if options.backend == "auto" else options.backend
        plan = plan_for(problem, replace(options, scheme="classical", backend=wanted))
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
    if plan is not None and plan.scheme is not None:
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
    flops, exact = 2 * a.shape[-2] * a.shape[-1] * b.shape[-1], operand.is_exact
    is_tiny = flops <= _TINY_FLOPS[exact]
    is_tiny = is_tiny or (exact and 2 * out.size * a.shape[-1] <= _TINY_BATCH)
    if plan is not None and not is_tiny:
        if not isinstance(plan.backend, NumpyBackend):
            if able and operand.is_exact:  # integers of two types, as np.matmul takes them
                a, b = np.asarray(a, operand.left.numpy), np.asarray(b, operand.right.numpy)
            return plan if plan.backend.execute_batch(plan, a, b, out) else ""
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
