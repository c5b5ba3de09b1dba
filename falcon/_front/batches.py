"""Batches and vectors in one call: of the array library, or of falcon's engine."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import prod
from time import perf_counter
from typing import Any

import numpy as np

from falcon._backends import host_engine
from falcon._core import observe
from falcon._core.options import Options, threads_of
from falcon._core.plan import Plan
from falcon._core.policy import are_for_loops, is_long_batch
from falcon._core.problem import Problem
from falcon._numpy import original
from falcon._numpy.backend import NumpyBackend
from falcon._numpy.threads import limited

from .execute import Product
from .fallback import why_not_by_library
from .planner import plan_for


def in_one_call(x: Product) -> Plan | str:
    """Multiply all matrices of a batch by one call, if falcon would use it for each of them.

    Returns what did: "np.matmul" for arrays as they stand, or the plan of one matrix, which are
    then remembered, or another word; "" if nothing did.

    `x`: its operands are broadcast to the batch of its `out`, which overlaps neither.
    """
    by_library = why_not_by_library(x.adapter, x.options) is None
    if x.options.check == "verify" or not (by_library or _is_for_engine(x.options)):
        return ""
    (M, K), N = x.a.shape[-2:], x.b.shape[-1]
    plan: Plan | None = None  # vectors for a BLAS need none: they are memory-bound
    if min(M, N) > 1 or not (x.operand.has_blas and by_library):
        if K == 0 or 0 in x.out.shape:
            return ""
        plan = _plan_of_first(x)
    return by_plan(x, plan)


def _is_for_engine(options: Options) -> bool:
    """Whether falcon's engine is asked for by name, as `reproducible` does."""
    asked = options.backend == host_engine().name and options.scheme in ("auto", "classical")
    return asked and options.modulus is None


def first_of(x: Product, out: Any = None) -> Problem:
    """Describe the first product of a batch, written to `out`, or to a new array."""
    at = (0,) * (len(x.a.shape) - 2)
    return replace(x, a=x.a[at], b=x.b[at], out=out).described()[0]


def _plan_of_first(x: Product) -> Plan:
    matrix, options = x.adapter.matrix, x.options
    problem = first_of(x)
    if problem.symmetric and not matrix(x.a).is_transpose(matrix(x.b)):
        problem = replace(problem, symmetric="")  # only some of the products are symmetric
    plan = plan_for(problem, options)
    if not plan.method.is_classical or options.backend != "auto" or not x.operand.has_blas:
        return plan
    engine = host_engine()
    if engine.why_not(problem) is None and engine.beats_blas(problem, prod(x.out.shape[:-2])):
        return plan_for(problem, replace(options, scheme="classical", backend=engine.name))
    return plan


def by_plan(x: Product, plan: Plan | None) -> Plan | str:
    """Multiply as `in_one_call`, by the plan of one of the matrices; None: of vectors."""
    if plan is not None and not plan.method.is_classical:
        return ""
    return _by_numpy(x, plan) if x.adapter.device is None else _by_cublas(x, plan)


def _by_numpy(x: Product, plan: Plan | None) -> Plan | str:
    """Multiply by np.matmul, or by the backend of the plan.

    np.matmul copies operands of another dtype (within the workspace limit), and multiplies types
    without BLAS in loops, which pays for tiny matrices and batches only.
    """
    a, b, out, operand, dtype, options = x.a, x.b, x.out, x.operand, x.dtype, x.options
    # NumPy selects its loops for types of other packages by the operands, not by dtype=.
    cast = [y for y in (a, b) if y.dtype != dtype.numpy]
    copied = sum(y.size for y in cast) * dtype.itemsize
    limit = options.workspace_limit
    able = not cast or (dtype.module == "numpy" and (limit is None or copied <= limit))
    count = prod(out.shape[:-2])
    is_short = plan is not None and (
        are_for_loops(plan.problem) or not is_long_batch(plan.problem, count)
    )
    if plan is not None and not (is_short and options.backend == "auto"):
        if not isinstance(plan.backend, NumpyBackend):
            if able:  # operands of two types, as np.matmul takes them
                a, b = np.asarray(a, operand.left.numpy), np.asarray(b, operand.right.numpy)
            start = perf_counter()
            if plan.backend.execute_batch(plan, a, b, out):
                seconds = perf_counter() - start
                for told in observe.observers:
                    told(plan, seconds, count)
                return plan
            if options.backend != "auto":
                return ""
        able = able and (operand.has_blas or operand.engine is None)
    if not able:
        return ""
    with limited(threads_of(options)), np.errstate(all="ignore"):
        original.matmul(a, b, out=out, dtype=dtype.numpy if cast else None)
    is_same = not cast or np.result_type(x.a.dtype, x.b.dtype) == dtype.numpy
    return "np.matmul" if is_same else "converted"


def _by_cublas(x: Product, plan: Plan | None) -> str:
    """Multiply by one strided-batched product."""
    from falcon._gpu import cublas, workspaces  # imported when first needed
    from falcon._gpu.steps import run

    adapter: Any = x.adapter
    if len(x.out.shape) < 3 or x.options.workspace_limit is not None:
        return ""
    left, right, target = map(adapter.library.batch, (x.a, x.b, x.out))
    if left is None or right is None or target is None:
        return ""
    operand = x.operand if plan is None else plan.operand
    count, (M, N), K = prod(x.out.shape[:-2]), x.out.shape[-2:], x.a.shape[-1]
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
    axes = zip(x.shape[:-1], x.strides[:-1], strict=True)
    long = [(n, stride) for n, stride in axes if n > 1]  # strides of other axes mean nothing
    even = all(stride == n * step for (_, stride), (n, step) in pairwise(long))
    return x.reshape(-1, x.shape[-1]) if even else None
