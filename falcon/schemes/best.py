"""The best scheme of a format: stored, permuted, composed or a direct sum of smaller ones.

Dynamic programming over `Recipe` values, whose rank, non-zeros, second moment and additions follow
from their parts without building any array; only the winner is built (and thereby verified).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from . import algebra
from ._scheme import Scheme

Format = tuple[int, int, int]

# 16 x 16 x 16 already composes to ranks of several thousand; beyond that a flat scheme has no use.
LARGEST_VOLUME = 4096


@dataclass(frozen=True)
class Recipe:
    """How to build a scheme, and what it will measure.

    `adds` are the additions for U, V and W after common-subexpression elimination of the parts.
    """

    build: Callable[[], Scheme]
    rank: int
    nnz: tuple[int, int, int]
    phi: Fraction
    adds: Callable[[], tuple[int, int, int]]


def _rank_key(recipe: Recipe) -> tuple:
    return recipe.rank, sum(recipe.adds()), sum(recipe.nnz)


def _nnz_key(recipe: Recipe) -> tuple:
    return recipe.rank, sum(recipe.nnz), recipe.phi


def _growth_key(recipe: Recipe) -> tuple:
    return recipe.rank, recipe.phi, sum(recipe.nnz)


KEYS: dict[str, Callable[[Recipe], tuple]] = {
    "rank": _rank_key,
    "nnz": _nnz_key,
    "growth": _growth_key,
}


class BestTable:
    """Best recipes per format over a fixed set of stored schemes."""

    def __init__(self, stored: list[Scheme]) -> None:
        self._stored: dict[Format, list[Scheme]] = {}
        for scheme in stored:
            self._stored.setdefault(_sorted(scheme.format), []).append(scheme)
        self._memo: dict[tuple[Format, str], Recipe] = {}

    def best(self, m: int, k: int, n: int, by: str) -> Scheme:
        """Build the best scheme of the format; see `falcon.schemes.best`."""
        scheme = self._recipe((m, k, n), by).build()
        if scheme.name.startswith("(") or "@" in scheme.name:
            name = f"{m}x{k}x{n}:{scheme.rank}"
            return Scheme(scheme.U, scheme.V, scheme.W, name, source=f"built as {scheme.name}")
        return scheme

    def _recipe(self, form: Format, by: str) -> Recipe:
        if (form, by) not in self._memo:
            candidates = list(self._candidates(form, by))
            lowest = min(x.rank for x in candidates)
            self._memo[form, by] = min((x for x in candidates if x.rank == lowest), key=KEYS[by])
        return self._memo[form, by]

    def _candidates(self, form: Format, by: str) -> Iterator[Recipe]:
        yield _classical(form)
        for scheme in self._stored.get(_sorted(form), []):
            yield _leaf(scheme, form)
        for axis in range(3):
            for part in range(1, form[axis] // 2 + 1):
                first, second = list(form), list(form)
                first[axis], second[axis] = form[axis] - part, part
                yield _sum(
                    self._recipe(tuple(first), by), self._recipe(tuple(second), by), form, axis
                )
        for outer in _divisors(form):
            inner = tuple(x // y for x, y in zip(form, outer, strict=True))
            if outer != (1, 1, 1) and inner != (1, 1, 1):
                yield _product(self._recipe(outer, by), self._recipe(inner, by), inner)


def _sorted(form: Format) -> Format:
    return tuple(sorted(form))  # type: ignore[return-value]


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
        lambda: (0, 0, rank - m * n),
    )


def _leaf(scheme: Scheme, form: Format) -> Recipe:
    image = scheme if scheme.format == form else algebra.permuted(scheme, *form)
    return Recipe(
        lambda: image,
        image.rank,
        image.nnz,
        image.phi,
        cache(lambda: tuple(sums.additions for sums in image.shared_sums)),
    )


def _sum(first: Recipe, second: Recipe, form: Format, axis: int) -> Recipe:
    # Cut along k, both parts contribute to every block of C: m*n more additions.
    extra = (0, 0, form[0] * form[2] if axis == 1 else 0)
    return Recipe(
        lambda: algebra.direct_sum(first.build(), second.build(), "mkn"[axis]),
        first.rank + second.rank,
        tuple(x + y for x, y in zip(first.nnz, second.nnz, strict=True)),
        first.phi + second.phi,
        cache(
            lambda: tuple(
                x + y + z for x, y, z in zip(first.adds(), second.adds(), extra, strict=True)
            )
        ),
    )


def _product(outer: Recipe, inner: Recipe, inner_format: Format) -> Recipe:
    m, k, n = inner_format
    blocks = (m * k, k * n, m * n)  # sub-blocks that one outer addition runs over
    return Recipe(
        lambda: outer.build() @ inner.build(),
        outer.rank * inner.rank,
        tuple(x * y for x, y in zip(outer.nnz, inner.nnz, strict=True)),
        outer.phi * inner.phi,
        cache(
            lambda: tuple(
                x * size + outer.rank * y
                for x, y, size in zip(outer.adds(), inner.adds(), blocks, strict=True)
            )
        ),
    )
