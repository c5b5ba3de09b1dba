"""`ResidueRunner`: what runs a product modulo p, slice by slice, and the memory of its residues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from threading import get_ident
from typing import Any

import numpy as np

from falcon._tools.cpus import kept_bytes
from falcon._tools.pool import Pool

from .modular import Residues
from .packed import PackedOperand
from .runner import BoundRun, Runner
from .symmetric import same_memory

# Small products modulo p that are kept with their memory, by what runs them and its thread, and
# their most bytes each.
_MOST_READY, _SMALL = 32, 2**18
_ready: dict[Any, Callable[..., None]] = {}


class ResidueRunner(Runner):
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

    def bind(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any = 1, beta: Any = 0, mirror: Any = None
    ) -> BoundRun:
        if len(self._way.results) > 1:
            return self._bind_matrices(a, b, c, out, alpha, beta, mirror)
        return super().bind(a, b, c, out, alpha, beta, mirror)

    def _bind_matrices(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any, beta: Any, mirror: Any
    ) -> BoundRun:
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
        products = [(part.bind(x, y, None, z), x, y, None, z) for x, y, z in batches]
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
