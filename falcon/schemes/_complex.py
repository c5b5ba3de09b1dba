"""`ComplexProduct`: how complex numbers are multiplied by real products, as proved data.

A matrix of complex numbers is two real ones, its components; so a complex product is a few real
products of sums of components. The equations of a `ComplexProduct` are those of one product of
complex numbers: it is no `Scheme`. It composes with every scheme: `ComplexScheme`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np

from falcon._core.lazy import lazy

from . import metrics
from ._checks import SchemeError
from ._coefficients import exact_array
from ._scheme import Scheme
from .additions import SharedSums, share
from .nesting import IndivisibleError, nested

Pair = tuple[int, int]

# Of (a0 + i a1)(b0 + i b1): c0 = a0 b0 - a1 b1, c1 = a0 b1 + a1 b0.  [c, a, b]
_EQUATIONS = np.array([[[1, 0], [0, -1]], [[0, 1], [1, 0]]])


@dataclass(frozen=True, repr=False)
class ComplexProduct:
    """Real products that make a complex one.

    ``h_r = (U[r,0] re(a) + U[r,1] im(a)) (V[r,0] re(b) + V[r,1] im(b))``, and c's components
    are ``sum_r W[r,0] h_r`` and ``sum_r W[r,1] h_r``. Construction verifies the equations exactly.

    Parameters
    ----------
    U, V, W : tuple of (int, int)
        Of length R.
    name : str

    Raises
    ------
    SchemeError
        Shapes do not fit together, or an equation fails (the message names the first).

    Examples
    --------
    >>> from falcon.schemes import M3, M4
    >>> M3.rank, round(M3.rms_growth, 2), M4.rank, M4.rms_growth
    (3, 1.41, 4, 1.0)
    """

    U: tuple[Pair, ...]
    V: tuple[Pair, ...]
    W: tuple[Pair, ...]
    name: str

    def __post_init__(self) -> None:
        shapes = [x.shape for x in self.factors]
        if len({*shapes}) != 1 or len(shapes[0]) != 2 or shapes[0][1] != 2:
            raise SchemeError(f"{self.name!r}: U, V, W have shapes {shapes}; expected one, (R, 2)")
        sums = np.einsum("ra,rb,rc->cab", *self.factors)
        if (sums != _EQUATIONS).any():
            c, a, b = (int(x[0]) for x in np.nonzero(sums != _EQUATIONS))
            raise SchemeError(
                f"{self.name!r} does not multiply complex numbers: component {c} of the product "
                f"holds {sums[c, a, b]} times component {a} by component {b}; "
                f"expected {_EQUATIONS[c, a, b]}"
            )

    @lazy
    def factors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """U, V and W as arrays."""
        return exact_array(self.U, "U"), exact_array(self.V, "V"), exact_array(self.W, "W")

    @property
    def rank(self) -> int:
        """Number of real products."""
        return len(self.U)

    @lazy
    def rms_growth(self) -> float:
        """RMS error on random data over that of four real products."""
        return sqrt(metrics.phi(*self.factors) / 4)

    @lazy
    def e_max(self) -> Fraction:
        """Factor of the norm-wise error bound, as of a scheme."""
        return metrics.e_max(*self.factors)

    @lazy
    def shared_sums(self) -> tuple[SharedSums, SharedSums, SharedSums]:
        """The sums of A's components, of B's, and of products."""
        u, v, w = self.factors
        return share(u), share(v), share(w.T)

    def __repr__(self) -> str:
        return f"<ComplexProduct {self.name}: {self.rank} real products>"

    def __reduce__(self) -> tuple[type, tuple]:
        """Pickle as coefficients: loading verifies them."""
        return ComplexProduct, (self.U, self.V, self.W, self.name)


# Four products, as the definition says; and three: im(c) = (a0 + a1)(b0 + b1) - a0 b0 - a1 b1.
M4 = ComplexProduct(
    U=((1, 0), (0, 1), (1, 0), (0, 1)),
    V=((1, 0), (0, 1), (0, 1), (1, 0)),
    W=((1, 0), (-1, 0), (0, 1), (0, 1)),
    name="4M",
)
M3 = ComplexProduct(
    U=((1, 0), (0, 1), (1, 1)),
    V=((1, 0), (0, 1), (1, 1)),
    W=((1, -1), (-1, -1), (0, 1)),
    name="3M",
)


_ENTRY = np.ones((1, 1, 1), int)
_ONE = Scheme(_ENTRY, _ENTRY, _ENTRY)


@dataclass(frozen=True, repr=False)
class ComplexScheme:
    """A scheme for complex matrices by real products: `product` for every product of `scheme`.

    Attributes
    ----------
    product : ComplexProduct
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

    product: ComplexProduct
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
        return self.product.rank * self._blocks.rank

    @property
    def levels(self) -> int:
        """How many schemes are nested; `product` is no level."""
        return 0 if self.scheme is None else self.scheme.levels

    @property
    def rms_growth(self) -> float:
        """RMS error on random data over that of the classical algorithm."""
        return self.product.rms_growth * self._blocks.rms_growth

    @property
    def speedup_bound(self) -> float:
        """Real products of the classical algorithm over those of this one."""
        m, k, n = self.format
        return 4 * m * k * n / self.rank

    @property
    def is_classical(self) -> bool:
        """Whether nothing is saved: four classical products."""
        return self.scheme is None and self.product.rank == 4

    @property
    def is_integral(self) -> bool:
        """Whether all coefficients are integers."""
        return self._blocks.is_integral

    def error_bound(self, inner: int, unit_roundoff: float) -> float:
        """Factor of the norm-wise bound, as `Scheme.error_bound`, of each component."""
        blocks, steps = self._blocks, -(-inner // self.k)
        longest = 2 + 2 + self.product.rank  # of the product's own sums
        sums = float(blocks.e_max) * steps * longest * unit_roundoff
        return float(self.product.e_max) * (blocks.error_bound(inner, unit_roundoff) + sums)

    @lazy
    def shared_sums(self) -> tuple[SharedSums, SharedSums, SharedSums]:
        """Combine A, B and H: `product` within the scheme's sums, or the other way round."""
        sums, rank = self.product.shared_sums, self.product.rank

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
