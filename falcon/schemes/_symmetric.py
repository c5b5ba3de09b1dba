"""The `SymmetricScheme` value: U, V, W for X X^T as proved data, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from html import escape
from math import log2, sqrt
from typing import Any

import numpy as np

from . import brent, metrics
from ._checks import SchemeError, check_facts
from ._coefficients import exact_array
from .additions import Additions, SharedSums, naive_additions, share
from .formulas import symmetric_formulas, symmetric_latex


@dataclass(frozen=True, eq=False, repr=False)
class SymmetricScheme:
    """A bilinear algorithm for C = X X^T, X of m x k blocks: general and symmetric products.

    ``h_r = (sum U[r,i,l] x[i,l]) (sum V[r,j,p] x[j,p])^T`` and ``c[i,j] = sum_r W[r,i,j] h_r`` for
    i <= j; the rest of C mirrors it. Where both sums are the same, h_r = Y Y^T is symmetric itself:
    half the work, and recursive. Construction verifies the equations exactly, for blocks that do
    not commute (`falcon.schemes.brent.first_symmetric_violation`): an object of this class is a
    proof. No product is used transposed.

    Parameters
    ----------
    U, V : array_like, shape (R, m, k)
        Coefficients of the blocks of X. Where ``V[r] == -U[r]``, the sign is moved to W.
    W : array_like, shape (R, m, m)
        Integers or fractions, zero below the diagonal.
    name : str
    source : str
        Where the scheme was published or how it was found.
    kind : {"plain", "additions", "growth"}
        What it was chosen for among schemes of its format and cost.

    Raises
    ------
    SchemeError
        Shapes do not fit together, a coefficient is not finite or too large, W has entries below
        the diagonal, or an equation fails (the message names the first).
    TypeError
        A coefficient is not a number.

    Examples
    --------
    >>> from falcon.schemes import symmetric
    >>> symmetric.classical(2, 2)
    <SymmetricScheme 2x2:2+4 <2,2;2+4>>
    """

    U: np.ndarray
    V: np.ndarray
    W: np.ndarray
    name: str = "unnamed"
    source: str = field(default="", kw_only=True)
    kind: str = field(default="plain", kw_only=True)

    def __post_init__(self) -> None:
        try:
            arrays = {x: exact_array(getattr(self, x), x) for x in "UVW"}
            _check_shapes(*arrays.values())
            check_facts(self.kind, 1)
            arrays["V"], arrays["W"] = _aligned(*arrays.values())
            for name, array in arrays.items():
                object.__setattr__(self, name, array)
            violation = brent.first_symmetric_violation(self.U, self.V, self.W)
        except ValueError as error:  # SchemeError is one
            raise SchemeError(f"{self.name!r}: {error}") from None
        if violation is not None:
            raise SchemeError(
                f"{self.name!r} as <{self.m},{self.k};{self.rank}> does not compute the upper "
                f"triangle of X X^T: {violation}"
            )

    @property
    def m(self) -> int:
        """Rows of X, and rows and columns of C, in blocks."""
        return self.U.shape[1]

    @property
    def k(self) -> int:
        """Columns of X, in blocks."""
        return self.U.shape[2]

    @property
    def rank(self) -> int:
        """Number of products, general and symmetric."""
        return self.U.shape[0]

    @property
    def format(self) -> tuple[int, int]:
        """The format (m, k)."""
        return self.m, self.k

    @cached_property
    def symmetric(self) -> np.ndarray:
        """Whether the two operands of a product are the same sum, shape (R,), bool."""
        same = (self.U == self.V).reshape(self.rank, -1).all(axis=1)
        same.flags.writeable = False
        return same

    @cached_property
    def off_diagonal(self) -> np.ndarray:
        """Whether a product is needed off the block diagonal of C, shape (R,), bool.

        If a symmetric product is not, one triangle of it suffices.
        """
        needed = np.triu(self.W != 0, 1).any(axis=(1, 2))
        needed.flags.writeable = False
        return needed

    @property
    def n_symmetric(self) -> int:
        """Number of symmetric products."""
        return int(self.symmetric.sum())

    @property
    def n_general(self) -> int:
        """Number of general products."""
        return self.rank - self.n_symmetric

    @property
    def cost(self) -> Fraction:
        """General products plus half the symmetric ones (classically ``m * m * k / 2``)."""
        return self.n_general + Fraction(self.n_symmetric, 2)

    @property
    def triangle_cost(self) -> Fraction:
        """`cost` if symmetric products that are needed off the diagonal of C are formed whole."""
        halved = int((self.symmetric & ~self.off_diagonal).sum())
        return self.rank - Fraction(halved, 2)

    @property
    def speedup_bound(self) -> float:
        """Work of the classical algorithm (syrk) over that of one level of this scheme."""
        return float(Fraction(self.m * self.m * self.k, 2) / self.cost)

    def recursive_ratio(self, exponent: float = log2(7)) -> float:
        """Work relative to a general product, at infinite depth: ``g / (m**exponent - s)``.

        The s symmetric products are done by this scheme again (2 x 2 blocks: 2/3; 4 x 4 of 26 + 8:
        0.634).

        Parameters
        ----------
        exponent : float
            Of the algorithm for the g general products; log2(7) is Strassen's.

        Raises
        ------
        ValueError
            X has not as many rows of blocks as columns.
        """
        if self.m != self.k:
            raise ValueError(f"{self!r} is of {self.m} x {self.k} blocks; expected a square")
        return self.n_general / (self.m**exponent - self.n_symmetric)

    @cached_property
    def nnz(self) -> tuple[int, int, int]:
        """Non-zero coefficients of U, V and W."""
        return metrics.nnz(self.U, self.V, self.W)

    @cached_property
    def rms_growth(self) -> float:
        """RMS error of the blocks formed, on random data, over that of the classical algorithm."""
        classical = self.k * self.m * (self.m + 1) // 2
        return sqrt(metrics.phi(self.U, self.V, self.W) / classical)

    @cached_property
    def growth_factor(self) -> float:
        """Sum of products of 2-norms."""
        return metrics.growth_factor(self.U, self.V, self.W)

    @cached_property
    def e_max(self) -> Fraction:
        """Factor of the norm-wise error bound; see `falcon.schemes.metrics.e_max`."""
        return metrics.e_max(self.U, self.V, self.W)

    @cached_property
    def is_integral(self) -> bool:
        """Whether every coefficient is an integer (needed for integer dtypes)."""
        return all(x.dtype != object for x in (self.U, self.V, self.W))

    @cached_property
    def operands(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The distinct sums of X that are multiplied: (sums, left, right).

        Sums have the shape (S, m*k); the operands of product r are rows ``left[r]`` and
        ``right[r]`` of them. Sums that differ in sign count as two.
        """
        rows = np.concatenate([x.reshape(self.rank, -1) for x in (self.U, self.V)])
        places: dict[tuple, int] = {}
        where = np.array([places.setdefault(tuple(row), len(places)) for row in rows.tolist()])
        _, first = np.unique(where, return_index=True)
        return rows[first], where[: self.rank], where[self.rank :]

    @cached_property
    def shared_sums(self) -> tuple[SharedSums, SharedSums]:
        """Combine X (`operands`) and Combine H after common-subexpression elimination.

        Outputs of the latter are the m*(m+1)/2 blocks c[i,j] with i <= j, by rows.
        """
        upper = np.triu_indices(self.m)
        return share(self.operands[0]), share(self.W[:, *upper].T)

    @cached_property
    def additions(self) -> Additions:
        """Block additions, naive and shared; every sum of X is formed once, for both sides."""
        sums, *_ = self.operands
        upper = np.triu_indices(self.m)
        naive = naive_additions(sums) + naive_additions(self.W[:, *upper].T)
        return Additions(naive, sum(x.additions for x in self.shared_sums))

    @cached_property
    def plain(self) -> PlainProducts:
        """The same products as a list for A = X and B = X^T: what the engine runs."""
        return PlainProducts(self)

    def error_bound(self, inner: int, unit_roundoff: float) -> float:
        """Factor f of ``max|C^ - C| <= f max|X|**2``, first order; see `Scheme.error_bound`."""
        return metrics.error_bound(self.U, self.V, self.W, inner, unit_roundoff)

    def renamed(self, name: str, source: str) -> SymmetricScheme:
        """Return the same proved coefficients under another name."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, name=name, source=source)
        other.__dict__.pop("plain", None)
        return other

    def __eq__(self, other: Any) -> bool:
        """Equal coefficients; names and sources may differ."""
        if not isinstance(other, SymmetricScheme):
            return NotImplemented
        return self is other or (
            self.format == other.format
            and all(np.array_equal(getattr(self, x), getattr(other, x)) for x in "UVW")
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        rows = (tuple(getattr(self, factor).ravel().tolist()) for factor in "UVW")
        return hash((self.format, *rows))

    def __reduce__(self) -> tuple:
        """Pickle as coefficients: loading verifies them."""
        return _unpickled, (self.U, self.V, self.W, self.name, self.source, self.kind)

    def __repr__(self) -> str:
        return (
            f"<SymmetricScheme {self.name} <{self.m},{self.k};{self.n_general}+{self.n_symmetric}>>"
        )

    @property
    def _head(self) -> str:
        naive, reduced = self.additions
        return (
            f"{self.name} <{self.m},{self.k};{self.n_general}+{self.n_symmetric}> for X X^T: "
            f"{self.n_general} general and {self.n_symmetric} symmetric products, speed-up bound "
            f"{self.speedup_bound:.3f}, non-zeros {'+'.join(map(str, self.nnz))}, additions "
            f"{naive} (shared: {reduced}), RMS growth {self.rms_growth:.2f}, e_max {self.e_max}"
        )

    def __str__(self) -> str:
        source = f"\nsource: {self.source}" if self.source else ""
        return f"{self._head}{source}\n\n{symmetric_formulas(self)}"

    def to_latex(self) -> str:
        r"""Return the formulas for a lecture: an ``aligned`` environment, for math mode.

        Examples
        --------
        >>> from falcon.schemes import symmetric
        >>> print(symmetric.classical(1, 1).to_latex().splitlines()[1])
        h_{1} &= x_{11} x_{11}^{\mathsf{T}} \\[1ex]
        """
        return symmetric_latex(self)

    def _repr_html_(self) -> str:
        """Return what a notebook shows, with formulas up to a hundred products."""
        formula = f"$$\n{self.to_latex()}\n$$" if self.rank <= 100 else ""
        return f"<p>{escape(self._head)}</p>\n{formula}"


@dataclass(frozen=True)
class PlainProducts:
    """A symmetric scheme as products of blocks of A = X and B = X^T, as a `Scheme` numbers them.

    It is no `Scheme`: the blocks of C below the diagonal are not formed.

    Parameters
    ----------
    scheme : SymmetricScheme
    """

    scheme: SymmetricScheme

    @property
    def m(self) -> int:
        """Rows of A and C, in blocks."""
        return self.scheme.m

    @property
    def k(self) -> int:
        """Columns of A and rows of B, in blocks."""
        return self.scheme.k

    @property
    def n(self) -> int:
        """Columns of B and C, in blocks: as many as rows."""
        return self.scheme.m

    @property
    def rank(self) -> int:
        """Number of products."""
        return self.scheme.rank

    @property
    def U(self) -> np.ndarray:
        """Coefficients of A, shape (R, m, k)."""
        return self.scheme.U

    @cached_property
    def V(self) -> np.ndarray:
        """Coefficients of B = X^T, shape (R, k, m)."""
        return self.scheme.V.transpose(0, 2, 1)

    @property
    def W(self) -> np.ndarray:
        """Coefficients of C, shape (R, m, m), zero below the diagonal."""
        return self.scheme.W

    @property
    def symmetric(self) -> np.ndarray:
        """Products P = Y Y^T, of which one triangle is computed, shape (R,), bool."""
        return self.scheme.symmetric

    @cached_property
    def shared_sums(self) -> tuple[SharedSums, SharedSums, SharedSums]:
        """Combine A, Combine B and Combine H; no sums for the m*m blocks below the diagonal."""
        u, v, w = (x.reshape(self.rank, -1) for x in (self.U, self.V, self.W))
        return share(u), share(v), share(w.T)


def _check_shapes(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> None:
    for name, x, axes in (("U", U, "R, m, k"), ("V", V, "R, m, k"), ("W", W, "R, m, m")):
        if x.ndim != 3 or 0 in x.shape:
            raise SchemeError(
                f"{name} has shape {x.shape}; expected three axes ({axes}), none of them zero"
            )
    rank, m, _ = U.shape
    if V.shape != U.shape:
        raise SchemeError(f"V has shape {V.shape}; expected {U.shape}, the shape of U")
    if W.shape != (rank, m, m):
        raise SchemeError(f"W has shape {W.shape}; expected {(rank, m, m)} to fit U {U.shape}")
    if np.tril(W != 0, -1).any():
        r, i, j = (int(x[0]) for x in np.nonzero(np.tril(W != 0, -1)))
        raise SchemeError(
            f"W[{r}, {i}, {j}] is {W[r, i, j]}; expected zeros below the diagonal, since only "
            "c[i,j] with i <= j are formed"
        )


def _aligned(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return V and W, signs moved so that no product multiplies a sum by its negative."""
    turned = (U == -V).reshape(len(U), -1).all(axis=1)
    if not turned.any():
        return V, W
    sign = np.where(turned, -1, 1)[:, None, None]
    V, W = V * sign, W * sign
    V.flags.writeable = W.flags.writeable = False
    return V, W


def _unpickled(
    U: np.ndarray, V: np.ndarray, W: np.ndarray, name: str, source: str, kind: str
) -> SymmetricScheme:
    return SymmetricScheme(U, V, W, name, source=source, kind=kind)
