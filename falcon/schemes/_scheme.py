"""The `Scheme` value: U, V, W for a product A B as proved data, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial, reduce
from math import prod, sqrt
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from falcon._tools.lazy import lazy
from falcon._tools.locks import importing

from . import brent, metrics
from ._checks import SchemeError, as_matrices, check_facts, prove, replayed
from .additions import Additions, SharedSums, naive_additions, share
from .drawing import draw as draw_scheme
from .nesting import IndivisibleError, kronecker, nested_sums


@dataclass(frozen=True, eq=False, repr=False)
class Scheme:
    """A bilinear algorithm <m, k, n; R> that multiplies m x k by k x n matrices in R products.

    ``h_r = (sum U[r,i,l] a[i,l]) (sum V[r,l,j] b[l,j])`` and ``c[i,j] = sum_r W[r,i,j] h_r``.
    Construction verifies the Brent equations exactly: an object of this class is a proof.

    Parameters
    ----------
    U : array_like, shape (R, m, k)
    V : array_like, shape (R, k, n)
    W : array_like, shape (R, m, n)
        Integers or fractions; W belongs to C itself, not to its transpose. All three may also be
        rows of mk, kn and mn coefficients, as in files.
    name : str
        What `falcon.gemm(..., scheme=name)` and printed plans call it.
    source : str
        Where the scheme was published or how it was found.
    sums : mapping of str to list of (x, y, ratio), optional
        Which sums to share, for any of the factors "U", "V" and "W" as R rows of inputs:
        temporary t is ``x + ratio * y`` (`falcon.schemes.additions.replay`). The sums of other
        factors are searched. Integer schemes only.
    kind : {"plain", "additions", "growth"}
        What it was chosen for among schemes of its format and rank.
    levels : int
        How many schemes are nested in it.

    Raises
    ------
    SchemeError
        Shapes do not fit together, a coefficient is not finite or too large, a Brent equation
        fails (the message names the first), or `sums` do not fit the coefficients.
    TypeError
        A coefficient is not a number.

    Examples
    --------
    >>> import falcon
    >>> falcon.schemes.get("strassen")
    <Scheme strassen <2,2,2;7>>
    """

    U: np.ndarray
    V: np.ndarray
    W: np.ndarray
    name: str = "unnamed"
    source: str = field(default="", kw_only=True)
    kind: str = field(default="plain", kw_only=True)
    sums: Mapping[str, Sequence[Sequence[int]]] | None = field(default=None, kw_only=True)
    levels: int = field(default=1, kw_only=True)
    _composed: tuple[Scheme, Scheme] | None = field(default=None, kw_only=True)  # outer, inner
    _programs: Mapping[str, SharedSums] = field(init=False)  # `sums` replayed

    @classmethod
    def from_formulas(cls, text: str, name: str = "unnamed", *, source: str = "") -> Scheme:
        """Return the scheme that formulas describe, as papers and `to_formulas` write them.

        Parameters
        ----------
        text : str
            Lines, or parts between semicolons, ``name = sum``: products such as
            ``h1 = (a11 + a22)(b11 + b22)``, also with ``*`` or ``@``, named sums, the entries of C.
            They are ``a12``, ``A12``, ``a_{12}``, ``a[1,2]``; ``a1,12`` if an index has two digits.
            ``#`` begins a comment. In lines without names, ``(a11 + a22)(b11)(c12 - c22)``, c12 is
            entry 21 of C. The format is the smallest one that holds all entries.
        name, source : str
            As for `Scheme`.

        Raises
        ------
        SchemeError
            A formula cannot be read, or an equation fails: `falcon.schemes.check` says which.
        TypeError
            `text` is no text.

        Examples
        --------
        >>> import falcon
        >>> falcon.Scheme.from_formulas("h1 = a11 b11; h2 = a12 b21; c11 = h1 + h2", "dot")
        <Scheme dot <1,2,1;2>>
        """
        with importing():
            from .repair import proving
        with proving(text) as factors:
            return cls(*factors, name, source=source)

    def __post_init__(self) -> None:
        try:
            self.__dict__.update(zip("UVW", as_matrices(self.U, self.V, self.W), strict=True))
            check_facts(self.kind, self.levels)
            prove(self.U, self.V, self.W, self.name)
            self._adopt(self.sums)
        except SchemeError:
            raise
        except ValueError as error:
            raise SchemeError(f"{self.name!r}: {error}") from None

    def _adopt(self, sums: Any) -> None:
        programs = replayed(self, sums)
        held = {factor: program.temporaries for factor, program in programs.items()}
        self.__dict__.update(_programs=programs, sums=MappingProxyType(held) if held else None)

    @property
    def m(self) -> int:
        """Rows of A and C, in blocks."""
        return self.U.shape[1]

    @property
    def k(self) -> int:
        """Columns of A, in blocks."""
        return self.U.shape[2]

    @property
    def n(self) -> int:
        """Columns of B and C, in blocks."""
        return self.V.shape[2]

    @property
    def format(self) -> tuple[int, int, int]:
        """The format (m, k, n)."""
        return self.m, self.k, self.n

    @property
    def rank(self) -> int:
        """Number of block products R."""
        return self.U.shape[0]

    @property
    def speedup_bound(self) -> float:
        """Work of the classical algorithm over that of one level of this scheme."""
        return prod(self.format) / self.rank

    @lazy
    def nnz(self) -> tuple[int, int, int]:
        """Non-zero coefficients of U, V and W."""
        return tuple(int(np.count_nonzero(x)) for x in (self.U, self.V, self.W))  # type: ignore[return-value]

    @lazy
    def phi(self) -> Fraction:
        """Second moment of the coefficients; see `falcon.schemes.metrics.phi`."""
        return metrics.phi(self.U, self.V, self.W)

    @lazy
    def rms_growth(self) -> float:
        """RMS error on random data over that of the classical algorithm (Strassen: 2.0).

        The classical algorithm is that on the same blocks: one sum over all of K would be up to
        ``sqrt(k)`` times less accurate than this sum of k blocks.
        """
        return sqrt(self.phi / prod(self.format))

    @lazy
    def growth_factor(self) -> float:
        """Sum of products of 2-norms (Strassen: 14.83)."""
        return metrics.growth_factor(self.U, self.V, self.W)

    @lazy
    def e_max(self) -> Fraction:
        """Factor of the norm-wise error bound (Strassen: 12)."""
        return metrics.e_max(self.U, self.V, self.W)

    @property
    def _combines(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The coefficients of all sums, a matrix (outputs x inputs) per stage."""
        u, v, w = (x.reshape(self.rank, -1) for x in (self.U, self.V, self.W))
        return u, v, w.T

    @lazy
    def shared_sums(self) -> tuple[SharedSums, SharedSums, SharedSums]:
        """Combine A, Combine B and Combine H after common-subexpression elimination.

        Rows are outputs: the R sums of A, the R sums of B, and the m*n blocks of C. `sums` are used
        where they are given, a composition reuses those of its two schemes, and the others are
        searched. The result depends on the scheme alone and is the same in every process.
        """
        if self._composed is not None:
            with suppress(IndivisibleError):
                return nested_sums(*((x.format, x.shared_sums) for x in self._composed))
        (u, v, w), known = self._combines, self._programs
        return (
            known["U"] if "U" in known else share(u),
            known["V"] if "V" in known else share(v),
            known["W"].transposed() if "W" in known else share(w),
        )

    @lazy
    def additions(self) -> Additions:
        """Block additions, written out naively and after common-subexpression elimination."""
        naive = sum(map(naive_additions, self._combines))
        return Additions(naive, sum(sums.additions for sums in self.shared_sums))

    @lazy
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
        longest = sum(int(np.count_nonzero(x, axis=1).max()) for x in self._combines)
        return float(self.e_max) * block * (block + longest) * unit_roundoff

    @property
    def is_classical(self) -> bool:
        """Whether nothing is saved: R >= m k n."""
        return self.rank >= prod(self.format)

    def renamed(self, name: str, source: str) -> Scheme:
        """Return the same proved coefficients and sums under another name."""
        return self._changed(name=name, source=source)

    def with_facts(self, kind: str = "plain", levels: int = 1) -> Scheme:
        """Return the same proved coefficients and sums with another `kind` and `levels`."""
        check_facts(kind, levels)
        return self._changed(kind=kind, levels=levels)

    def with_sums(self, sums: Mapping[str, Sequence[Sequence[int]]] | None) -> Scheme:
        """Return the same proved coefficients with other shared sums: see the parameter `sums`."""
        other = self._changed(_composed=None)
        for derived in ("shared_sums", "additions"):
            other.__dict__.pop(derived, None)
        other._adopt(sums)
        return other

    def _changed(self, **fields: Any) -> Scheme:
        """Return a copy that is not verified again."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **fields)
        return other

    def __matmul__(self, other: Scheme) -> Scheme:
        """Two levels as one flat scheme: this one outside, `other` inside."""
        if not isinstance(other, Scheme):
            return NotImplemented
        name = f"{self.name}@{other.name}"
        brent.check_work(name, prod(brent.work(x.U, x.V, x.W) for x in (self, other)))
        U, V, W = (kronecker(getattr(self, x), getattr(other, x)) for x in "UVW")
        return Scheme(
            *(U, V, W, name),
            source=f"composition of {self.name} (outer) and {other.name} (inner)",
            levels=self.levels + other.levels,
            _composed=(self, other),
        )

    def __pow__(self, levels: int) -> Scheme:
        """Nest `levels` of this scheme as one flat scheme: ``x ** 2`` is ``x @ x``."""
        if not isinstance(levels, int):
            return NotImplemented
        if levels < 1:
            raise ValueError(f"the exponent is {levels}; expected at least one level")
        return reduce(Scheme.__matmul__, [self] * levels)

    def same_coefficients(self, other: Scheme) -> bool:
        """Whether U, V and W are equal; the shared sums may differ."""
        return all(np.array_equal(getattr(self, x), getattr(other, x)) for x in "UVW")

    def __eq__(self, other: Any) -> bool:
        """Equal coefficients and equal shared sums; names and sources may differ.

        Equal schemes run alike in every process; caches per scheme rely on it.
        """
        if not isinstance(other, Scheme):
            return NotImplemented
        return self.same_coefficients(other) and (
            # These decide the shared sums, which are searched only if they differ.
            (self.sums, self._composed) == (other.sums, other._composed)
            or self.shared_sums == other.shared_sums
        )

    def __hash__(self) -> int:
        return self._hash

    @lazy
    def _hash(self) -> int:
        return hash(tuple((x.shape, *x.ravel().tolist()) for x in (self.U, self.V, self.W)))

    def __reduce__(self) -> tuple:
        """Pickle as coefficients and sums, a composition as its levels: loading verifies them."""
        if self._composed is not None:
            return _recomposed, (*self._composed, self.name, self.source, self.kind, self.levels)
        sums = None if self.sums is None else dict(self.sums)
        made = partial(Scheme, source=self.source, sums=sums, kind=self.kind, levels=self.levels)
        return made, (self.U, self.V, self.W, self.name)

    def __repr__(self) -> str:
        return f"<Scheme {self.name} <{self._signature}>>"

    @property
    def _signature(self) -> str:
        """Format and products, as printed: "2,2,2;7"."""
        return f"{self.m},{self.k},{self.n};{self.rank}"

    def __str__(self) -> str:
        return str(_in_words().printed(self))

    def save(self, path: str | PathLike[str]) -> None:
        """Write falcon JSON, or formulas to ``.txt`` and ``.exp``; `schemes.load` reads them.

        Examples
        --------
        >>> import falcon, tempfile
        >>> path = tempfile.mkdtemp() + "/mine.json"
        >>> falcon.schemes.get("strassen").save(path)
        >>> falcon.schemes.load(path) == falcon.schemes.get("strassen")
        True
        """
        with importing():
            from .writing import as_file
        Path(path).write_text(as_file(self, Path(path)), encoding="utf-8")

    draw = draw_scheme

    def to_formulas(self, *, shared: bool = False) -> str:
        """Return the formulas as text, which `from_formulas` reads, a product or sum per line.

        Parameters
        ----------
        shared : bool
            With the sums that `additions.reduced` counts: s of A, t of B, u of the products h.
        """
        return str(_in_words().formulas(self, shared=shared))

    def to_latex(self, *, shared: bool = False) -> str:
        r"""Return the formulas for a lecture: an ``aligned`` environment, for math mode.

        Parameters
        ----------
        shared : bool
            With the sums that `additions.reduced` counts: s of A, t of B, u of the products h.

        Examples
        --------
        >>> import falcon
        >>> print(falcon.schemes.get("strassen").to_latex().splitlines()[1])
        h_{1} &= (a_{11} + a_{22})(b_{11} + b_{22}) \\
        """
        return str(_in_words().latex(self, shared=shared))

    def _repr_html_(self) -> str:
        """Return what a notebook shows, with formulas up to a hundred products."""
        return str(_in_words().html(self))


def _in_words() -> Any:
    """Return the module that writes formulas, which no product needs."""
    with importing():
        from . import formulas
    return formulas


def _recomposed(outer: Scheme, inner: Scheme, name: str, source: str, *facts: Any) -> Scheme:
    return (outer @ inner).renamed(name, source).with_facts(*facts)
