"""The `SymmetricScheme` value: U, V, W for X X^T as proved data, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from math import log2
from typing import ClassVar

import numpy as np

from . import brent
from ._bilinear import Bilinear
from ._checks import SchemeError, check_facts


@dataclass(frozen=True, eq=False, repr=False)
class SymmetricScheme(Bilinear):
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

    letters: ClassVar[str] = "xx"

    def _verify(self) -> None:
        _check_shapes(self.U, self.V, self.W)
        check_facts(self.kind, 1)
        for factor, array in zip("VW", _aligned(self.U, self.V, self.W), strict=True):
            object.__setattr__(self, factor, array)
        violation = brent.first_symmetric_violation(self.U, self.V, self.W)
        if violation is not None:
            raise SchemeError(
                f"{self.name!r} as <{self.m},{self.k};{self.rank}> does not compute the upper "
                f"triangle of X X^T: {violation}"
            )

    def __reduce__(self) -> tuple:
        """Pickle as coefficients: loading verifies them."""
        made = partial(SymmetricScheme, source=self.source, kind=self.kind)
        return made, (self.U, self.V, self.W, self.name)

    @property
    def _signature(self) -> str:
        return f"{self.m},{self.k};{self.n_general}+{self.n_symmetric}"

    @property
    def _purpose(self) -> str:
        return f" for X X^T: {self.n_general} general and {self.n_symmetric} symmetric products, "

    @property
    def _classical_rank(self) -> int:
        return self.k * self.m * (self.m + 1) // 2

    @property
    def _combines(self) -> tuple[np.ndarray, ...]:
        """Sums of X, each formed once for both sides, and of products: c[i,j], i <= j, by rows."""
        return self.operands[0], self.W[:, *np.triu_indices(self.m)].T

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
