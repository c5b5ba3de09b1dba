"""The best scheme of a format: stored, permuted, composed or a direct sum of smaller ones.

Dynamic programming over `Recipe` values, whose rank, non-zeros, second moment and additions follow
from their parts without building any array; only the winner is built (and thereby verified).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from math import prod

from . import algebra
from ._scheme import Scheme

Format = tuple[int, ...]  # always three sizes

# 16 x 16 x 16 already composes to ranks of several thousand; beyond that a flat scheme has no use.
LARGEST_VOLUME = 4096


@dataclass(frozen=True)
class Recipe:
    """How to build a scheme, and its metrics.

    `adds` are the additions for U, V and W after common-subexpression elimination of the parts.
    """

    build: Callable[[], Scheme]
    rank: int
    nnz: tuple[int, ...]
    phi: Fraction
    adds: tuple[int, ...]


# What decides, least first.
KEYS: dict[str, Callable[[Recipe], tuple]] = {
    "nnz": lambda x: (x.rank, sum(x.nnz), x.phi),
    "growth": lambda x: (x.rank, x.phi, sum(x.nnz)),
    "additions": lambda x: (x.rank, sum(x.adds), sum(x.nnz)),
}


class BestTable:
    """Best recipes per format over a fixed set of stored schemes."""

    def __init__(self, stored: list[Scheme]) -> None:
        self._stored: dict[Format, list[Scheme]] = {}
        for scheme in stored:
            self._stored.setdefault(tuple(sorted(scheme.format)), []).append(scheme)
        self._memo: dict[tuple[Format, str], Recipe] = {}

    def best(self, m: int, k: int, n: int, by: str) -> Scheme:
        """Build the best scheme of the format; see `falcon.schemes.best`."""
        # Smaller formats first, so that the recursion stays shallow.
        for form in product(*(range(1, size + 1) for size in (m, k, n))):
            self._recipe(form, by)
        scheme = self._recipe((m, k, n), by).build()
        if scheme.name.startswith("(") or "@" in scheme.name:
            return scheme.renamed(f"{m}x{k}x{n}:{scheme.rank}", f"built as {scheme.name}")
        return scheme

    def _recipe(self, form: Format, by: str) -> Recipe:
        if (form, by) not in self._memo:
            candidates = list(self._candidates(form, by))
            lowest = min(rank for rank, _ in candidates)
            recipes = (make() for rank, make in candidates if rank == lowest)
            self._memo[form, by] = min(recipes, key=KEYS[by])
        return self._memo[form, by]

    def _candidates(self, form: Format, by: str) -> Iterator[tuple[int, Callable[[], Recipe]]]:
        """Every way to build the format: its rank, and a function that makes the recipe."""
        yield prod(form), partial(_classical, form)
        for scheme in self._stored.get(tuple(sorted(form)), []):
            yield scheme.rank, partial(_leaf, scheme, form)
        if 1 in form:  # no scheme multiplies a matrix by a vector in fewer products
            return
        for axis in range(3):
            for part in range(1, form[axis] // 2 + 1):
                sizes = list(form), list(form)
                sizes[0][axis], sizes[1][axis] = form[axis] - part, part
                first, second = (self._recipe(tuple(x), by) for x in sizes)
                yield first.rank + second.rank, partial(_sum, first, second, form, axis)
        for outer in _divisors(form):
            inner = tuple(x // y for x, y in zip(form, outer, strict=True))
            if outer != (1, 1, 1) and inner != (1, 1, 1):
                first, second = self._recipe(outer, by), self._recipe(inner, by)
                yield first.rank * second.rank, partial(_product, first, second, inner)


def _divisors(form: Format) -> Iterator[Format]:
    m, k, n = ([d for d in range(1, x + 1) if x % d == 0] for x in form)
    yield from ((a, b, c) for a in m for b in k for c in n)


def _classical(form: Format) -> Recipe:
    m, k, n = form
    rank = m * k * n
    return Recipe(
        lambda: algebra.classical(m, k, n),
        rank,
        (rank, rank, rank),
        Fraction(rank),
        (0, 0, rank - m * n),
    )


def _leaf(scheme: Scheme, form: Format) -> Recipe:
    image = scheme if scheme.format == form else algebra.permuted(scheme, *form)
    return Recipe(
        lambda: image,
        image.rank,
        image.nnz,
        image.phi,
        tuple(sums.additions for sums in image.shared_sums),
    )


def _sum(first: Recipe, second: Recipe, form: Format, axis: int) -> Recipe:
    # Cut along k, both parts contribute to every block of C: m*n more additions.
    extra = (0, 0, form[0] * form[2] if axis == 1 else 0)
    return Recipe(
        lambda: algebra.direct_sum(first.build(), second.build(), "mkn"[axis]),
        first.rank + second.rank,
        tuple(x + y for x, y in zip(first.nnz, second.nnz, strict=True)),
        first.phi + second.phi,
        tuple(map(sum, zip(first.adds, second.adds, extra, strict=True))),
    )


def _product(outer: Recipe, inner: Recipe, inner_format: Format) -> Recipe:
    m, k, n = inner_format
    blocks = (m * k, k * n, m * n)  # sub-blocks that one outer addition runs over
    return Recipe(
        lambda: outer.build() @ inner.build(),
        outer.rank * inner.rank,
        tuple(x * y for x, y in zip(outer.nnz, inner.nnz, strict=True)),
        outer.phi * inner.phi,
        tuple(
            x * size + outer.rank * y
            for x, y, size in zip(outer.adds, inner.adds, blocks, strict=True)
        ),
    )
