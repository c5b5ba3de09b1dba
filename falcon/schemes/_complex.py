"""`ComplexScheme`: complex matrices by three or four real products, alone and within schemes.

A matrix of complex numbers is two real ones, its components; so a complex product is a few real
products of sums of components. Their equations are those of one product of complex numbers, which
is no `Scheme`, but composes with every scheme.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np

from falcon._tools.lazy import lazy

from . import metrics
from ._scheme import Scheme
from .additions import SharedSums, share
from .nesting import IndivisibleError, nested

Pairs = tuple[tuple[int, int], ...]


class RealProducts(NamedTuple):
    """Real products that make a complex one.

    ``h_r = (U[r,0] re(a) + U[r,1] im(a)) (V[r,0] re(b) + V[r,1] im(b))``, and c's components
    are ``sum_r W[r,0] h_r`` and ``sum_r W[r,1] h_r``.

    >>> from falcon.schemes import M3
    >>> M3.name, len(M3.U)
    ('3M', 3)
    """

    name: str
    U: Pairs
    V: Pairs
    W: Pairs

    @property
    def factors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """U, V and W as arrays."""
        return np.array(self.U, object), np.array(self.V, object), np.array(self.W, object)


# Four products, as the definition says; and three: im(c) = (a0 + a1)(b0 + b1) - a0 b0 - a1 b1.
M4 = RealProducts(
    "4M",
    U=((1, 0), (0, 1), (1, 0), (0, 1)),
    V=((1, 0), (0, 1), (0, 1), (1, 0)),
    W=((1, 0), (-1, 0), (0, 1), (0, 1)),
)
M3 = RealProducts(
    "3M",
    U=((1, 0), (0, 1), (1, 1)),
    V=((1, 0), (0, 1), (1, 1)),
    W=((1, -1), (-1, -1), (0, 1)),
)

_ENTRY = np.ones((1, 1, 1), int)
_ONE = Scheme(_ENTRY, _ENTRY, _ENTRY)


@dataclass(frozen=True, repr=False)
class ComplexScheme:
    """A scheme for complex matrices by real products: `product` for every product of `scheme`.

    Attributes
    ----------
    product : `M3` or `M4`
    scheme : Scheme or None
        None: the classical algorithm.

    Notes
    -----
    Inputs and outputs are real components of blocks, 2x and 2x + 1 those of block x.

    Examples
    --------
    >>> import falcon
    >>> ComplexScheme(M3, falcon.schemes.get("strassen")).rank
    21
    """

    product: RealProducts
    scheme: Scheme | None = None

    @property
    def name(self) -> str:
        """Both names."""
        product = self.product.name
        return product if self.scheme is None else f"{product} {self.scheme.name}"

    @property
    def _blocks(self) -> Scheme:
        return _ONE if self.scheme is None else self.scheme

    @property
    def format(self) -> tuple[int, int, int]:
        """Blocks (m, k, n), of complex numbers."""
        return self._blocks.format

    @property
    def m(self) -> int:
        """Rows of A in blocks."""
        return self.format[0]

    @property
    def k(self) -> int:
        """Columns of A in blocks."""
        return self.format[1]

    @property
    def n(self) -> int:
        """Columns of B in blocks."""
        return self.format[2]

    @property
    def rank(self) -> int:
        """Number of real products."""
        return len(self.product.U) * self._blocks.rank

    @property
    def levels(self) -> int:
        """How many schemes are nested; `product` is no level."""
        return 0 if self.scheme is None else self.scheme.levels

    @lazy
    def rms_growth(self) -> float:
        """RMS error on random data over that of the classical algorithm."""
        own = sqrt(metrics.phi(*self.product.factors) / 4)
        return own * self._blocks.rms_growth

    @property
    def speedup_bound(self) -> float:
        """Real products of the classical algorithm over those of this one."""
        m, k, n = self.format
        return 4 * m * k * n / self.rank

    @property
    def is_classical(self) -> bool:
        """Whether nothing is saved: four classical products."""
        return self.scheme is None and self.product == M4

    @property
    def is_integral(self) -> bool:
        """Whether all coefficients are integers."""
        return self._blocks.is_integral

    def error_bound(self, inner: int, unit_roundoff: float) -> float:
        """Factor of the norm-wise bound, as `Scheme.error_bound`, of each component."""
        blocks, steps = self._blocks, -(-inner // self.k)
        longest = 2 + 2 + len(self.product.U)  # of the product's own sums
        sums = float(blocks.e_max) * steps * longest * unit_roundoff
        own = float(metrics.e_max(*self.product.factors))
        return own * (blocks.error_bound(inner, unit_roundoff) + sums)

    @lazy
    def shared_sums(self) -> tuple[SharedSums, SharedSums, SharedSums]:
        """Combine A, B and H: `product` within the scheme's sums, or the other way round."""
        rows_a, rows_b, rows_h = self.product.factors
        sums, rank = (share(rows_a), share(rows_b), share(rows_h.T)), len(rows_a)

        def block(x: int, y: int) -> int:
            return 2 * x + y

        def products(x: int, y: int) -> int:
            return rank * x + y

        u, v, w = self._blocks.shared_sums
        try:
            return (
                nested(u, sums[0], block, products),
                nested(v, sums[1], block, products),
                nested(w, sums[2], products, block),
            )
        except IndivisibleError:
            u_rows, v_rows, w_columns = self._blocks._combines
            a, b, c = map(np.kron, (u_rows, v_rows, w_columns.T), self.product.factors)
            return share(a), share(b), share(c.T)

    def __repr__(self) -> str:
        return f"<ComplexScheme {self.name} <{','.join(map(str, self.format))};{self.rank}>>"
