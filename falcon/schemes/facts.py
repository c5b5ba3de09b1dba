"""Format, cost and error growth of schemes and their images, without building them.

Building a scheme proves it, and counting its additions searches common subexpressions: some
milliseconds each, which the first choice of a process would spend on the whole catalogue. The table
``facts.csv`` holds these figures for every file in ``data``; for a scheme that it lacks they are
computed. `catalogue.facts_table` makes its text.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import sqrt
from pathlib import Path
from typing import NamedTuple

from ._scheme import Scheme
from .algebra import formats, symmetry
from .metrics import one_sign_growth, sum_growth

_TABLE = Path(__file__).with_name("facts.csv")
# The factors that become U, V and W in the images, in the order of `algebra.symmetries`.
_PLACES = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 0, 2), (2, 1, 0), (0, 2, 1))


class Facts(NamedTuple):
    """Format, cost and error growth of one image of a scheme."""

    image: int  # number of the image among `algebra.symmetries`
    m: int
    k: int
    n: int
    rank: int
    # Additions of Combine A, Combine B and Combine H.
    u: int
    v: int
    w: int
    phi: Fraction
    # Growth of errors in general, and on entries of one sign (`metrics`).
    growth: float
    one_sign: float
    sums: float  # growth of sums of integers
    is_integral: bool
    kind: str  # `Scheme.kind`

    @property
    def additions(self) -> float:
        """Additions per element of square operands and result."""
        return self.u / (self.m * self.k) + self.v / (self.k * self.n) + self.w / (self.m * self.n)


class Row(NamedTuple):
    """A row of the table, from which the facts of all six images follow.

    `additions` are those of U, V and W with the products as outputs; `one_sign` and `sums` are the
    growths of the scheme and its two rotations.
    """

    format: tuple[int, int, int]
    rank: int
    phi: Fraction
    is_integral: bool
    additions: tuple[int, int, int]
    one_sign: tuple[float, float, float]
    sums: tuple[float, float, float]
    kind: str


def images(scheme: Scheme) -> tuple[Facts, ...]:
    """Return the facts of the six images of a scheme."""
    return _images(_row(scheme))


def table(schemes: dict[str, Scheme]) -> str:
    """Return the text of the table for these schemes."""
    lines = ["name,kind,m,k,n,rank,phi,integral,u,v,w,one_sign,one_sign,one_sign,sums,sums,sums"]
    for name, scheme in sorted(schemes.items()):
        x = _row(scheme)
        cells = (name, x.kind, *x.format, x.rank, x.phi, int(x.is_integral))
        lines.append(",".join(map(str, (*cells, *x.additions, *x.one_sign, *x.sums))))
    return "\n".join(lines) + "\n"


def _row(scheme: Scheme) -> Row:
    u, v, w = (sums.additions for sums in scheme.shared_sums)
    w -= _transposition(scheme.format, scheme.rank)
    rotated = [(x.U, x.V, x.W) for image in range(3) for x in [symmetry(scheme, image)]]
    ones, sums = ([round(f(*x), 6) for x in rotated] for f in (one_sign_growth, sum_growth))
    return Row(
        scheme.format, scheme.rank, scheme.phi, scheme.is_integral,
        (u, v, w), (ones[0], ones[1], ones[2]), (sums[0], sums[1], sums[2]), scheme.kind,
    )  # fmt: skip


def _transposition(form: tuple[int, int, int], rank: int) -> int:
    """Additions that the sums of W take more with the blocks of C as outputs than as inputs."""
    return rank - form[0] * form[2]


def _images(row: Row) -> tuple[Facts, ...]:
    m, k, n = row.format
    growth = sqrt(row.phi / (m * k * n))
    made = []
    for image, (places, form) in enumerate(zip(_PLACES, formats(m, k, n), strict=True)):
        u, v, w = (row.additions[x] for x in places)
        w += _transposition(form, row.rank)
        growths = growth, row.one_sign[image % 3], row.sums[image % 3]
        cost = row.rank, u, v, w
        made.append(Facts(image, *form, *cost, row.phi, *growths, row.is_integral, row.kind))
    return tuple(made)


@cache
def stored() -> dict[str, tuple[Facts, ...]]:
    """Return the facts of the images of every scheme in the table, by name."""
    _, *lines = _TABLE.read_text(encoding="utf-8").splitlines()
    by_name = {}
    for name, kind, m, k, n, rank, phi, integral, u, v, w, *grown in (x.split(",") for x in lines):
        ones, sums = [float(x) for x in grown[:3]], [float(x) for x in grown[3:]]
        by_name[name] = _images(Row(
            (int(m), int(k), int(n)), int(rank), Fraction(phi), integral == "1", (int(u), int(v),
            int(w)), (ones[0], ones[1], ones[2]), (sums[0], sums[1], sums[2]), kind,
        ))  # fmt: skip
    return by_name
