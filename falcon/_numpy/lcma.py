r"""The stages of a scheme, over all chunks of a product.

::

    A --Combine A--> At (R blocks) --\
                                      np.matmul --> H (R blocks) --Combine H--> C
    B --Combine B--> Bt (R blocks) --/

Each combine reads every input element once (strip by strip, see `codegen.numpy_exec`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from math import inf, prod
from typing import Any

import numpy as np

from falcon._core.centring import may_centre
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._core.scaling import Scaling
from falcon._core.settle import choose_scaling, settled, units_of
from falcon._core.units import Units
from falcon.codegen import combine_a, combine_b, combine_c
from falcon.codegen.numpy_exec import run, scratch_slots, strip_rows
from falcon.schemes import Scheme

from . import original
from .norms import measure_norms

_log = logging.getLogger("falcon")

# Chunks are not cut below blocks of this size: the limit is then refused.
_SMALLEST_BLOCK = 2
# The limit is also refused if it needs more chunks: each costs some tenths of a millisecond.
_MOST_CHUNKS = 2**14
# Steps of K whose lines may have a mean of their own.
_SEGMENT = 512

Sizes = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Stages:
    """How a problem is cut for a scheme, and the memory that its stages share."""

    chunks: Sizes  # rows, columns and inner length that are multiplied at a time
    block: Sizes  # the same of a block of a chunk
    cuts: Sizes  # how many chunks there are
    buffers: tuple[Sizes, Sizes, Sizes]  # shapes of At, Bt and H
    scratch: tuple[Sizes, Sizes, Sizes]  # strips of Combine A, B, H, which take turns
    itemsize: int

    @classmethod
    def of(cls, problem: Problem, scheme: Scheme, chunks: Sizes) -> Stages:
        m, k, n = scheme.format
        sizes, formats = (problem.M, problem.N, problem.K), (m, n, k)
        axes = list(zip(sizes, chunks, formats, strict=True))
        rows, columns, inner = (-(-chunk // n_blocks) for _, chunk, n_blocks in axes)
        cuts = tuple(-(-size // max(chunk, 1)) for size, chunk, _ in axes)
        # The last chunk of a dimension may be smaller, so any block may turn out ragged.
        is_ragged = any(not c or size % c or c % n_blocks for size, c, n_blocks in axes)
        combines = (
            (combine_a(scheme), m * k, rows, inner, False),
            (combine_b(scheme), k * n, inner, columns, False),
            (combine_c(scheme), m * n, rows, columns, cuts[2] > 1),
        )
        item, buffers, scratch = problem.operand.itemsize, [], []
        for program, blocks, height, width, adds in combines:
            buffers.append((scheme.rank, height, width))
            slots = scratch_slots(program, blocks * is_ragged, accumulate=adds)
            scratch.append((slots, strip_rows(program.n_inputs, height, width, item), width))
        block = rows, columns, inner
        return cls(chunks, block, cuts, tuple(buffers), tuple(scratch), item)  # type: ignore[arg-type]

    @classmethod
    def within(cls, problem: Problem, scheme: Scheme, workspace_bytes: int) -> Stages | None:
        """Halve the largest dimension until the workspace fits; None if it never does."""
        chunks, formats = [problem.M, problem.N, problem.K], (scheme.m, scheme.n, scheme.k)
        while (
            stages := cls.of(problem, scheme, tuple(chunks))  # type: ignore[arg-type]
        ).workspace > workspace_bytes:
            sizes = [chunk / n_blocks for chunk, n_blocks in zip(chunks, formats, strict=True)]
            largest = max(range(3), key=lambda axis: sizes[axis])
            if sizes[largest] < 2 * _SMALLEST_BLOCK:
                return None
            half = -(-chunks[largest] // 2)
            chunks[largest] = -(-half // formats[largest]) * formats[largest]
        return None if prod(stages.cuts) > _MOST_CHUNKS else stages

    @property
    def workspace(self) -> int:
        """Bytes of At, Bt, H and the largest scratch."""
        return (sum(map(prod, self.buffers)) + max(map(prod, self.scratch))) * self.itemsize

    def carve(self, memory: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return At, Bt and H, and the scratch of each combine, in the workspace."""
        views = []
        for shape in self.buffers:
            views.append(memory[: prod(shape)].reshape(shape))
            memory = memory[prod(shape) :]
        return views, [memory[: prod(shape)].reshape(shape) for shape in self.scratch]


def multiply(
    plan: Plan, a: np.ndarray, b: np.ndarray | PackedOperand, out: np.ndarray, alpha: Any
) -> bool:
    """Scale the operands if necessary, and run the stages over all chunks.

    Returns False if the product must be classical: the norms of the operands are too uneven and
    cannot be scaled within the limit, or a non-finite value was found.
    """
    stages: Stages = plan.method.layout
    dtype = plan.problem.operand.numpy
    units = units_of(plan, a, b, measure_norms)
    memory = np.empty(stages.workspace // stages.itemsize, dtype)
    passes = [[*range(_SEGMENT, plan.problem.K, _SEGMENT), plan.problem.K]]
    if not may_centre(plan) or not _has_room(plan, max(a.size, plan.problem.K * plan.problem.N)):
        passes = []
    limit = plan.options.workspace_limit
    spare = inf if limit is None else limit - plan.workspace
    right: np.ndarray = b.payload if isinstance(b, PackedOperand) else b
    given, evened = (a, right), (a, right)

    def scaled(units: Units) -> Scaling | None:
        nonlocal evened
        if not _has_room(plan, _copied(plan, Scaling(units=units))):
            return None
        evened = units.times(given[0], 0, dtype), units.times(given[1], 1, dtype)
        of_b = b if isinstance(b, PackedOperand) else evened[1]
        how = (measure_norms, memory, memory.nbytes, spare, passes, stages.block[:2])
        return choose_scaling(plan, evened[0], of_b, *how)

    scaling = settled(plan, a, b, measure_norms, scaled, units)
    a, right = evened
    if scaling is not None and not _has_room(plan, _copied(plan, scaling)):
        _log.debug("falcon: %s is multiplied classically: a scaled copy does not fit", plan.problem)
        return False
    if scaling is None:
        return False
    centring = scaling.centring
    if centring is not None:
        a, right = centring.without(a, right, passes)
    a = scaling.of_rows(a, dtype)
    right = right if isinstance(b, PackedOperand) else scaling.of_columns(right, dtype)
    as_it_is = not scaling and centring is None
    if not _run_stages(plan, stages, memory, a, right, out, alpha if as_it_is else 1):
        return False
    if as_it_is:
        return True
    scaling.undo(out)
    if centring is not None:
        centring.add_to(out)
    if alpha != 1:
        np.multiply(out, alpha, out=out)
    return True


def _copied(plan: Plan, scaling: Scaling) -> int:
    """Return how many elements of operands are copied, scaled or centred."""
    p, centring = plan.problem, scaling.centring
    of_a = scaling.rows is not None or (centring is not None and centring.a_means is not None)
    of_b = scaling.columns is not None or (centring is not None and centring.b_means is not None)
    copies = bool(scaling.units)
    return (copies + of_a) * p.M * p.K + (not p.packed) * (copies + of_b) * p.K * p.N


def _has_room(plan: Plan, copied: int) -> bool:
    """Whether copies of so many elements keep the workspace limit."""
    limit, needed = plan.options.workspace_limit, copied * plan.problem.operand.itemsize
    return limit is None or not needed or plan.workspace + needed <= limit


def _run_stages(
    plan: Plan,
    stages: Stages,
    memory: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
    alpha: Any,
) -> bool:
    problem, scheme = plan.problem, plan.scheme
    rows, columns, inner = stages.chunks
    height, width, depth = stages.block
    (at, bt, h), (scratch_a, scratch_b, scratch_c) = stages.carve(memory)
    m, k, n = scheme.format
    check = plan.options.check != "none" and not problem.is_exact
    finish = partial(_finish, alpha=alpha, check=check)
    for i in range(0, problem.M, rows):
        for l in range(0, problem.K, inner):
            a_blocks = _blocks(a[i : i + rows, l : l + inner], m, k, height, depth)
            run(combine_a(scheme), a_blocks, list(at), scratch_a)
            is_last = l + inner >= problem.K
            for j in range(0, problem.N, columns):
                b_blocks = _blocks(b[l : l + inner, j : j + columns], k, n, depth, width)
                run(combine_b(scheme), b_blocks, list(bt), scratch_b)
                original.matmul(at, bt, out=h)
                c_blocks = _blocks(out[i : i + rows, j : j + columns], m, n, height, width)
                how: Any = {"accumulate": l > 0, "finish": finish if is_last else None}
                if not run(combine_c(scheme), list(h), c_blocks, scratch_c, **how):
                    return False
    return True


def _blocks(x: np.ndarray, p: int, q: int, height: int, width: int) -> list[np.ndarray]:
    """Return p x q views of blocks of nominal size; those at the edge may be smaller or empty."""
    return [
        x[i * height : (i + 1) * height, j * width : (j + 1) * width]
        for i in range(p)
        for j in range(q)
    ]


def _finish(strip: np.ndarray, alpha: Any, check: bool) -> bool:
    """Scale a finished strip of C by alpha; False if a value is not finite.

    A non-finite input or an overflowed sum always leaves a trace here, because NaN and Inf never
    cancel to a finite number; the whole product is then redone classically.
    """
    if check and not np.isfinite(strip).all():
        return False
    if alpha != 1:
        np.multiply(strip, alpha, out=strip)
    return True
