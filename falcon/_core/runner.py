"""`Runner`: what runs a plan; and those that are made of others.

::

    Plan --> backend.runner --> Runner --bound--> Bound, for operands that lie alike --> C
             Sparing     with less memory, where there is not enough
             Each        a batch, one product after the other
             Cut         the parts of a symmetric product
             Residual    slices of a product modulo p: residues, products, sums
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from threading import get_ident
from typing import Any

import numpy as np

from .cpus import kept_bytes
from .modular import Residues
from .packed import PackedOperand
from .pool import Pool
from .symmetric import same_memory

# Runs a plan on a, b, c, out and, if it was bound to one, a mirror, that lie, and overlap, as those
# to which it was bound: of equal shapes, strides, types and alignment.
Bound = Callable[..., None]
# Small products modulo p that are kept with their memory, by what runs them and its thread, and
# their most bytes each.
_MOST_READY, _SMALL = 32, 2**18
_ready: dict[Any, Callable[..., None]] = {}


class Runner:
    """Runs one plan; shared by threads, holds no operand."""

    def bound(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any = 1, beta: Any = 0, mirror: Any = None
    ) -> Bound:
        """Return what writes ``alpha a b + beta c`` to `out`, for operands like these.

        `b` may be packed. Of a batch, `a` and `b` broadcast to the batch of `out`. `c` is read only
        if `beta` is not 0. The result is also written to `mirror`, of the shape of `out`.
        """
        if len(out.shape) > 2:
            whole = self._of_batch(a, b, out, alpha) if c is None else None
            return whole or Each(self._single).bound(a, b, c, out, alpha, beta)
        return self._of_matrices(a, b, c, out, alpha, beta, mirror)

    def __call__(self, a: Any, b: Any, c: Any, out: Any, alpha: Any = 1, beta: Any = 0) -> None:
        """Bind, and run."""
        self.bound(a, b, c, out, alpha, beta)(a, b, c, out)

    def _of_matrices(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any, beta: Any, mirror: Any
    ) -> Bound:
        raise NotImplementedError

    def _of_batch(self, a: Any, b: Any, out: Any, alpha: Any) -> Bound | None:
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


class Sparing(Runner):
    """A runner of the host, and the one that runs where it does not find the memory."""

    def __init__(self, runner: Runner, less: Callable[[], Runner | None]) -> None:
        self._runner, self._less = runner, less

    def bound(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any = 1, beta: Any = 0, mirror: Any = None
    ) -> Bound:
        usual = self._runner.bound(a, b, c, out, alpha, beta, mirror)

        def run(a: Any, b: Any, c: Any, out: Any, mirror: Any = None) -> None:
            try:
                usual(a, b, c, out, mirror)
            except MemoryError:
                less = self._less()
                if less is None:
                    raise
                less.bound(a, b, c, out, alpha, beta, mirror)(a, b, c, out, mirror)

        return run


class Each(Runner):
    """Multiplies the matrices of a batch in turn, by the runner of one."""

    def __init__(self, one: Runner) -> None:
        self._one = one

    def bound(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any = 1, beta: Any = 0, mirror: Any = None
    ) -> Bound:
        batch = out.shape[:-2]
        at_a, at_b, first = _places(a, out), _places(b, out), (0,) * len(batch)
        added = None if c is None else c[first]
        one = self._one.bound(a[at_a(first)], b[at_b(first)], added, out[first], alpha, beta)

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


class Cut(Runner):
    """The parts of a symmetric product."""

    def __init__(self, parts: Sequence[tuple[Runner, slice, slice]], *, is_full: bool) -> None:
        self._parts, self._is_full = parts, is_full

    def _of_matrices(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any, beta: Any, mirror: Any
    ) -> Bound:
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
            of_parts.append((part, part[0].bound(x, y, z, to, alpha, beta, *image)))

        def run(a: Any, b: Any, c: Any, out: Any, mirror: Any = None) -> None:
            c = c.copy() if copies else c
            for part, product in of_parts:
                product(*cut(part, a, b, c, out))

        return run


class Residual(Runner):
    """Slices of a product modulo p: residues of A and of B, their product, and the sums, reduced.

    `reduce`: that of the backend.
    """

    def __init__(
        self,
        way: Residues,
        slices: Sequence[tuple[Runner, slice]],
        reduce: Callable[..., None],
        threads: int,
    ) -> None:
        self._way, self._slices = way, slices
        self._reduce, self._threads = reduce, threads

    def bound(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any = 1, beta: Any = 0, mirror: Any = None
    ) -> Bound:
        if len(self._way.results) > 1:
            return self._of_matrices(a, b, c, out, alpha, beta, mirror)
        return super().bound(a, b, c, out, alpha, beta, mirror)

    def _of_matrices(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any, beta: Any, mirror: Any
    ) -> Bound:
        """Return what writes ``(alpha a b + beta c) % modulus``; `out` may overlap all operands.

        With several results, `out` holds one matrix for each.
        """
        several, packed = len(self._slices) > 1, isinstance(b, PackedOperand)
        count = len(self._way.moduli)
        read = [x for x in (a, b) if several and isinstance(x, np.ndarray)]
        read += [] if c is None or same_memory(c, out) else [c]
        overlaps = any(np.may_share_memory(out, x) for x in read)
        longest = len(range(a.shape[1])[self._slices[0][1]])
        nbytes = self._way.nbytes(out.shape[-2], out.shape[-1], longest)

        def run(a: Any, b: Any, c: Any, out: Any) -> None:
            target = np.empty(out.shape, out.dtype) if overlaps else out
            memory, added, factor = memory_of_residues().take(nbytes), c, beta
            try:
                for i, (part, at) in enumerate(self._slices):
                    x = a[:, at]
                    y = b.payload.packed[i * count : (i + 1) * count] if packed else b[at]
                    product = self._product(part, memory, x, y, target, alpha)
                    product(x, y, added, target, factor)
                    added, factor = target, 1
            finally:
                memory_of_residues().give(memory)
            if overlaps:
                out[...] = target

        def run_small(a: Any, b: Any, c: Any, out: Any) -> None:
            key = run_small, get_ident()
            product = _ready.pop(key, None)
            if product is None:
                product = self._product(self._slices[0][0], _memory(nbytes), a, b, out, alpha)
            product(a, b, c, out, beta)
            if len(_ready) >= _MOST_READY:
                _ready.clear()
            _ready[key] = product

        return run if several or packed or overlaps or nbytes > _SMALL else run_small

    def _product(
        self, part: Runner, memory: Any, a: Any, b: Any, out: np.ndarray, alpha: int
    ) -> Callable[..., None]:
        """Return what writes ``(alpha a b + beta c) % modulus`` for slices that lie as these."""
        way, threads, reduce = self._way, self._threads, self._reduce
        of_a, end = residues_like(a, way, memory)
        of_b, packed = b, isinstance(b, tuple)
        if not packed:
            of_b, end = residues_like(b, way, memory, end)
        shape = len(way.moduli), *out.shape[-2:]
        sums = np.frombuffer(memory, way.sums.numpy, prod(shape), end).reshape(shape)
        each = packed or len(sums) == 1
        batches = [*zip(of_a, of_b, sums, strict=True)] if each else [(of_a, of_b, sums)]
        products = [(part.bound(x, y, None, z), x, y, None, z) for x, y, z in batches]
        left, right = way.of_operand(of_a), () if packed else way.of_operand(of_b)
        results = [(p, *way.of_sums(sums, p, alpha)) for p in way.results]

        def product(a: Any, b: Any, c: Any, out: Any, beta: int) -> None:
            reduce([(a, 1, 0, 0)], *left, threads=threads)
            if right:
                reduce([(b, 1, 0, 0)], *right, threads=threads)
            for multiply, *operands in products:
                multiply(*operands)
            targets = out if out.ndim > 2 else [out]
            for (p, terms, carry), target in zip(results, targets, strict=True):
                added = [] if c is None else [(target if c is out else c, beta, 0, 0)]
                reduce([*terms, *added], [(target, 0)], p, carry, threads)

        return product


def residues_like(
    x: np.ndarray, way: Residues, memory: Any, place: int = 0
) -> tuple[np.ndarray, int]:
    """Return matrices for the residues of x, which lie as x does, and where they end in memory."""
    rows, columns = x.shape
    by_columns = abs(x.strides[0]) < abs(x.strides[1])
    shape = (columns, rows) if by_columns else (rows, columns)
    count = len(way.moduli)
    made = np.frombuffer(memory, way.kind.numpy, count * x.size, place).reshape(count, *shape)
    end = place + -(-made.nbytes // 64) * 64
    return made.swapaxes(1, 2) if by_columns else made, end


def _memory(nbytes: int) -> np.ndarray:
    """Return bytes that begin with a line of the cache."""
    given = np.empty(nbytes + 64, np.uint8)
    return given[-given.__array_interface__["data"][0] % 64 :][:nbytes]


@cache
def memory_of_residues() -> Pool:
    """Return the pool of residues and sums, beside those of the backends' workspaces."""
    return Pool(kept_bytes(), _memory)


def release() -> None:
    """Free what is kept between calls."""
    _ready.clear()
    memory_of_residues().clear()
