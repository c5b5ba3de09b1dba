"""`Bilinear`: U, V, W as proved data; what `Scheme` and `SymmetricScheme` have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from html import escape
from math import sqrt
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from . import metrics
from ._checks import SchemeError
from ._coefficients import exact_array
from .additions import Additions, SharedSums, naive_additions, share
from .drawing import draw
from .formulas import formulas, latex
from .writing import to_json


@dataclass(frozen=True, eq=False, repr=False)
class Bilinear:
    """R products of sums of blocks, ``h_r``, and sums of them: ``c[i,j] = sum_r W[r,i,j] h_r``.

    Two subclasses say what the products compute, and prove it on construction.
    """

    U: np.ndarray
    V: np.ndarray
    W: np.ndarray
    name: str = "unnamed"
    source: str = field(default="", kw_only=True)
    kind: str = field(default="plain", kw_only=True)

    # Of the blocks of the two operands, in formulas; where both are X, the second is transposed.
    letters: ClassVar[str] = "ab"

    def __post_init__(self) -> None:
        try:
            for factor in "UVW":
                object.__setattr__(self, factor, exact_array(getattr(self, factor), factor))
            self._verify()
        except SchemeError:
            raise
        except ValueError as error:
            raise SchemeError(f"{self.name!r}: {error}") from None

    def _verify(self) -> None:
        """Raise ValueError where the coefficients, or the facts, are not those of a scheme."""
        raise NotImplementedError

    @property
    def _signature(self) -> str:
        """Format and products, as printed: "2,2,2;7"."""
        raise NotImplementedError

    @property
    def _purpose(self) -> str:
        """What is printed before the speed-up bound."""
        return ": "

    @property
    def _classical_rank(self) -> int:
        """Products of the classical algorithm."""
        raise NotImplementedError

    @property
    def _combines(self) -> tuple[np.ndarray, ...]:
        """The coefficients of all sums, a matrix (outputs x inputs) per stage."""
        raise NotImplementedError

    @property
    def m(self) -> int:
        """Rows of the left operand and of C, in blocks."""
        return self.U.shape[1]

    @property
    def k(self) -> int:
        """Columns of the left operand, in blocks."""
        return self.U.shape[2]

    @property
    def rank(self) -> int:
        """Number of block products R."""
        return self.U.shape[0]

    @property
    def speedup_bound(self) -> float:
        """Work of the classical algorithm over that of one level of this scheme."""
        return self._classical_rank / self.rank

    @cached_property
    def nnz(self) -> tuple[int, int, int]:
        """Non-zero coefficients of U, V and W."""
        return tuple(int(np.count_nonzero(x)) for x in (self.U, self.V, self.W))  # type: ignore[return-value]

    @cached_property
    def phi(self) -> Fraction:
        """Second moment of the coefficients; see `falcon.schemes.metrics.phi`."""
        return metrics.phi(self.U, self.V, self.W)

    @cached_property
    def rms_growth(self) -> float:
        """RMS error on random data over that of the classical algorithm (Strassen: 2.0).

        The classical algorithm is that on the same blocks: one sum over all of K would be up to
        ``sqrt(k)`` times less accurate than this sum of k blocks.
        """
        return sqrt(self.phi / self._classical_rank)

    @cached_property
    def growth_factor(self) -> float:
        """Sum of products of 2-norms (Strassen: 14.83)."""
        u, v, w = (metrics.row_sums(x, square=True) for x in (self.U, self.V, self.W))
        return float(sum(sqrt(a * b * c) for a, b, c in zip(u, v, w, strict=True)))

    @cached_property
    def e_max(self) -> Fraction:
        """Factor of the norm-wise error bound (Strassen: 12)."""
        return metrics.e_max(self.U, self.V, self.W)

    @cached_property
    def shared_sums(self) -> tuple[SharedSums, ...]:
        """The sums of each stage after common-subexpression elimination."""
        return tuple(map(share, self._combines))

    @cached_property
    def additions(self) -> Additions:
        """Block additions, written out naively and after common-subexpression elimination."""
        naive = sum(map(naive_additions, self._combines))
        return Additions(naive, sum(sums.additions for sums in self.shared_sums))

    @cached_property
    def is_integral(self) -> bool:
        """Whether every coefficient is an integer (needed for integer dtypes)."""
        return all(x.dtype != object for x in (self.U, self.V, self.W))

    def error_bound(self, inner: int, unit_roundoff: float) -> float:
        """Factor f of the norm-wise bound ``max|C^ - C| <= f max|A| max|B|``, first order.

        Parameters
        ----------
        inner : int
            Length K of the whole inner dimension.
        unit_roundoff : float
            Unit round-off of the dtype (``np.finfo(dtype).eps / 2``).

        Notes
        -----
        ``f = e_max * (K/k) * (K/k + s) * unit_roundoff``: block products of inner length ``K/k``
        contribute ``K/k`` roundings each, and their sums s, the lengths of the longest sums of the
        three factors together (Higham, section 23.2.2; Ballard et al., theorem III.1).
        """
        block = -(-inner // self.k)
        u, v, w = (x.reshape(self.rank, -1) for x in (self.U, self.V, self.W))
        longest = sum(int(np.count_nonzero(x, axis=1).max()) for x in (u, v, w.T))
        return float(self.e_max) * block * (block + longest) * unit_roundoff

    def renamed(self, name: str, source: str) -> Self:
        """Return the same proved coefficients and sums under another name."""
        return self._changed(name=name, source=source)

    def _changed(self, **fields: Any) -> Self:
        """Return a copy that is not verified again."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **fields)
        return other

    def same_coefficients(self, other: Bilinear) -> bool:
        """Whether U, V and W are equal; the shared sums may differ."""
        return all(np.array_equal(getattr(self, x), getattr(other, x)) for x in "UVW")

    def _same_sums(self, other: Any) -> bool:
        """Whether schemes of equal coefficients share the same sums."""
        return True

    def __eq__(self, other: Any) -> bool:
        """Equal coefficients and equal shared sums; names and sources may differ.

        Equal schemes run alike in every process; caches per scheme rely on it.
        """
        if self is other:
            return True
        if type(other) is not type(self):
            return NotImplemented
        return self.same_coefficients(other) and self._same_sums(other)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        factors = self.U, self.V, self.W
        return hash(tuple((x.shape, *x.ravel().tolist()) for x in factors))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} <{self._signature}>>"

    @property
    def _head(self) -> str:
        naive, reduced = self.additions
        return (
            f"{self.name} <{self._signature}>{self._purpose}speed-up bound "
            f"{self.speedup_bound:.3f}, non-zeros {'+'.join(map(str, self.nnz))}, additions "
            f"{naive} (shared: {reduced}), RMS growth {self.rms_growth:.2f}, e_max {self.e_max}"
        )

    def __str__(self) -> str:
        source = f"\nsource: {self.source}" if self.source else ""
        return f"{self._head}{source}\n\n{formulas(self)}"

    def save(self, path: str | PathLike[str]) -> None:
        """Write the scheme as falcon JSON, which `falcon.schemes.load` reads and verifies.

        Examples
        --------
        >>> import falcon, tempfile
        >>> path = tempfile.mkdtemp() + "/mine.json"
        >>> falcon.schemes.get("strassen").save(path)
        >>> falcon.schemes.load(path) == falcon.schemes.get("strassen")
        True
        """
        Path(path).write_text(to_json(self), encoding="utf-8")

    def draw(self) -> Any:
        """Return a picture: for each product the coefficients of A, B and C as coloured grids.

        Blue is negative, orange positive, grey zero; small grids show the numbers too.

        Returns
        -------
        matplotlib.figure.Figure
            ``figure.savefig("scheme.svg")`` writes it; notebooks show it.

        Raises
        ------
        ImportError
            matplotlib is not installed.

        Examples
        --------
        >>> import falcon
        >>> falcon.schemes.get("strassen").draw().savefig("strassen.svg")  # doctest: +SKIP
        """
        return draw(self)

    def to_latex(self) -> str:
        r"""Return the formulas for a lecture: an ``aligned`` environment, for math mode.

        Examples
        --------
        >>> from falcon.schemes import symmetric
        >>> print(symmetric.classical(1, 1).to_latex().splitlines()[1])
        h_{1} &= x_{11} x_{11}^{\mathsf{T}} \\[1ex]
        """
        return latex(self)

    def _repr_html_(self) -> str:
        """Return what a notebook shows, with formulas up to a hundred products."""
        formula = f"$$\n{self.to_latex()}\n$$" if self.rank <= 100 else ""
        return f"<p>{escape(self._head)}</p>\n{formula}"
