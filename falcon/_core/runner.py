"""`Runner`: what runs a plan; and those that are made of others.

::

    Plan --> backend.runner --> Runner --bind--> BoundRun, for operands that lie alike --> C
             FallbackRunner     with less memory, where there is not enough
             BatchRunner        a batch, one product after the other
             SymmetricRunner    the parts of a symmetric product
             ResidueRunner      slices of a product modulo p (`residues.py`)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .symmetric import same_memory

# Runs a plan on a, b, c, out and, if it was bound to one, a mirror, that lie, and overlap, as those
# to which it was bound: of equal shapes, strides, types and alignment. Returns whether the product
# had to be made again, by the elements' own arithmetic, if a rung's (`sampled.py`) was.
BoundRun = Callable[..., bool | None]


class Runner:
    """Runs one plan; shared by threads, holds no operand."""

    def bind(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any = 1, beta: Any = 0, mirror: Any = None
    ) -> BoundRun:
        """Return what writes ``alpha a b + beta c`` to `out`, for operands like these.

        `b` may be packed. Of a batch, `a` and `b` broadcast to the batch of `out`. `c` is read only
        if `beta` is not 0. The result is also written to `mirror`, of the shape of `out`.
        """
        if len(out.shape) > 2:
            whole = self._bind_batch(a, b, out, alpha) if c is None else None
            return whole or BatchRunner(self._single).bind(a, b, c, out, alpha, beta)
        return self._bind_matrices(a, b, c, out, alpha, beta, mirror)

    def __call__(self, a: Any, b: Any, c: Any, out: Any, alpha: Any = 1, beta: Any = 0) -> None:
        """Bind, and run."""
        self.bind(a, b, c, out, alpha, beta)(a, b, c, out)

    def _bind_matrices(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any, beta: Any, mirror: Any
    ) -> BoundRun:
        raise NotImplementedError

    def _bind_batch(self, a: Any, b: Any, out: Any, alpha: Any) -> BoundRun | None:
        """Return what multiplies a batch in one call; None: its products run one by one."""
        return None

    @property
    def _single(self) -> Runner:
        """What runs one product of a batch."""
        return self


class PlanRunner(Runner):
    """Of one plan of a backend: the base of their runners."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan

    @property
    def _single(self) -> Runner:
        plan = self._plan
        return type(self)(plan.fitted(plan.problem.single))


class FallbackRunner(Runner):
    """A runner of the host, and the one that runs where it does not find the memory."""

    def __init__(self, runner: Runner, less: Callable[[], Runner | None]) -> None:
        self._runner, self._less = runner, less

    def bind(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any = 1, beta: Any = 0, mirror: Any = None
    ) -> BoundRun:
        usual = self._runner.bind(a, b, c, out, alpha, beta, mirror)

        def run(a: Any, b: Any, c: Any, out: Any, mirror: Any = None) -> bool | None:
            try:
                return usual(a, b, c, out, mirror)
            except MemoryError:
                less = self._less()
                if less is None:
                    raise
                return less.bind(a, b, c, out, alpha, beta, mirror)(a, b, c, out, mirror)

        return run


class BatchRunner(Runner):
    """Multiplies the matrices of a batch in turn, by the runner of one."""

    def __init__(self, one: Runner) -> None:
        self._one = one

    def bind(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any = 1, beta: Any = 0, mirror: Any = None
    ) -> BoundRun:
        batch = out.shape[:-2]
        at_a, at_b, first = _places(a, out), _places(b, out), (0,) * len(batch)
        added = None if c is None else c[first]
        one = self._one.bind(a[at_a(first)], b[at_b(first)], added, out[first], alpha, beta)

        def run(a: Any, b: Any, c: Any, out: Any, mirror: Any = None) -> None:
            for i in np.ndindex(*batch):
                one(a[at_a(i)], b[at_b(i)], None if c is None else c[i], out[i])

        return run


def _places(x: Any, out: Any) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """Return a function from a matrix's place in the batch of `out` to that in x's."""
    axes = tuple(x.shape[:-2])
    extra = len(out.shape) - len(x.shape)
    if extra == 0 and 1 not in axes:
        return lambda at: at
    return lambda at: tuple(0 if n == 1 else i for n, i in zip(axes, at[extra:], strict=True))


class SymmetricRunner(Runner):
    """The parts of a symmetric product."""

    def __init__(self, parts: Sequence[tuple[Runner, slice, slice]], *, is_full: bool) -> None:
        self._parts, self._is_full = parts, is_full

    def _bind_matrices(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any, beta: Any, mirror: Any
    ) -> BoundRun:
        # A part may overwrite entries of c that a later part reads.
        copies = c is not None and np.may_share_memory(c, out) and not same_memory(c, out)

        def cut(part: Any, a: Any, b: Any, c: Any, out: Any) -> tuple[Any, ...]:
            _, rows, columns = part
            added = None if c is None else c[rows, columns]
            found = a[rows], b[:, columns], added, out[rows, columns]
            is_off = self._is_full and rows != columns
            return (*found, out[columns, rows].T) if is_off else found

        of_parts = []
        for part in self._parts:
            x, y, z, to, *image = cut(part, a, b, c.copy() if copies else c, out)
            of_parts.append((part, part[0].bind(x, y, z, to, alpha, beta, *image)))

        def run(a: Any, b: Any, c: Any, out: Any, mirror: Any = None) -> None:
            c = c.copy() if copies else c
            for part, product in of_parts:
                product(*cut(part, a, b, c, out))

        return run
