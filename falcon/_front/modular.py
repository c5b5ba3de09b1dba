"""Products modulo p: their types, their plan, and the passes before and after an ordinary product.

::

    gemm, matmul --> Product --> multiply: residues of a and b --> Plan.execute --> reduced to out
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np

from falcon._core.dtypes import FLOAT64, TABLE, DType
from falcon._core.modular import Residues
from falcon._core.options import Options
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._numpy.residues import reduce, residues

from .adapters import Adapter
from .arithmetic import result_type
from .planner import plan_for

# Shortest slice of K that is worth a pass over C.
_LEAST_SLICE = 256


def residue_type(
    adapter: Adapter, operands: Mapping[str, Any], dtype: Any, out: Any, modulus: int
) -> DType:
    """Return the type of a result modulo p: `dtype`, or that of `out`, or the operands' common one.

    Raises TypeError: it is no integer, or does not hold ``modulus - 1``; an operand is no integer.
    Raises ValueError: the operands are in GPU memory.
    """
    if adapter.device is not None:
        raise ValueError("modulus= multiplies arrays in host memory; these are in GPU memory")
    for name, x in operands.items():
        row = adapter.dtype(x)
        if row is None or not row.is_exact:
            raise TypeError(f"{name} has dtype {x.dtype}; modulus= multiplies integers")
    given = None if out is None else adapter.dtype(out)
    if dtype is None and given is not None and given.is_exact:
        wanted, what = given, "out has dtype"
    else:
        wanted = result_type(adapter, operands, dtype)
        what = "the operands' common type is" if dtype is None else "dtype is"
    if wanted.is_exact and _most(wanted) >= modulus - 1:
        return wanted
    able = [x for x in TABLE if x.is_exact and _most(x) >= modulus - 1]
    least = min(able, key=lambda x: (x.itemsize, x.is_unsigned))
    why = f"does not hold {modulus - 1}" if wanted.is_exact else "is no integer"
    raise TypeError(f"{what} {wanted}, which {why}; ask for dtype={least.name!r}")


def _most(row: DType) -> int:
    return int(np.iinfo(row.numpy).max)


def multiply(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray | None,
    out: np.ndarray,
    modulus: int,
    options: Options,
    alpha: int = 1,
    beta: int = 0,
) -> None:
    """Write ``(alpha a b + beta c) % modulus``; `out` may overlap any operand."""
    (M, K), N = a.shape, b.shape[1]
    if c is not None and np.may_share_memory(c, out):
        c = c.copy()
    if K == 0 or alpha == 0:
        empty = np.zeros((1, M, 1, N))
        reduce(empty, modulus, (1, 1), out, 1, c, beta)
        return
    way, length = _choice((M, N, K), modulus, options)
    (of_a, of_b), kind = way.parts, way.kind.numpy
    left = np.empty((of_a, M, K), kind)
    right = np.empty((K, of_b, N), kind)
    residues(a, modulus, way.bases[0], left)
    residues(b, modulus, way.bases[1], right.transpose(1, 0, 2))
    left, right = left.reshape(of_a * M, K), right.reshape(K, of_b * N)
    sums = np.empty((of_a * M, of_b * N), way.sums.numpy)
    for start in range(0, K, length):
        plan = _plan(way, (M, N, min(length, K - start)), options)
        part = slice(start, start + length)
        plan.execute(left[:, part], right[part], None, sums)
        reduce(sums.reshape(of_a, M, of_b, N), modulus, way.bases, out, alpha, c, beta)
        c, beta = out, 1


@lru_cache(maxsize=1024)
def _choice(sizes: tuple[int, int, int], modulus: int, options: Options) -> tuple[Residues, int]:
    """Return how to multiply, and the length of the slices of K."""
    K = sizes[2]
    for parts in range(1, 32):
        way = Residues(modulus, FLOAT64, (parts, 1))
        longest = int(way.room(1))
        if longest >= min(K, _LEAST_SLICE):
            slices = -(-K // longest)
            return way, -(-K // slices)
    raise AssertionError  # parts of one bit fit


def _plan(way: Residues, sizes: tuple[int, int, int], options: Options) -> Plan:
    """Plan the product of parts of that many rows, columns and steps of K."""
    M, N, K = sizes
    options = replace(options, max_growth=inf, check="none", scheme="classical", arithmetic="auto")
    layout = {"a_strided": True, "b_strided": True, "layout": (K == 1, True, False)}
    about: dict[str, Any] = {"result": way.sums, **layout}
    rows, columns = way.parts[0] * M, way.parts[1] * N
    return plan_for(Problem.of((rows, columns, K), way.kind, options, **about), options)
