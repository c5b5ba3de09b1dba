"""The `Scheme` value: U, V, W for a product A B as proved data, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from types import MappingProxyType
from typing import Any

import numpy as np

from . import brent
from ._bilinear import Bilinear
from ._checks import SchemeError, check_facts, check_shapes, implied_format, prove
from .additions import SharedSums, replay, share
from .formulas import latex
from .nesting import nested_sums
from .reading import coefficients


@dataclass(frozen=True, eq=False, repr=False)
class Scheme(Bilinear):
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

    sums: Mapping[str, Sequence[Sequence[int]]] | None = field(default=None, kw_only=True)
    levels: int = field(default=1, kw_only=True)
    # Outer and inner scheme of a composition.
    _composed: tuple[Scheme, Scheme] | None = field(default=None, kw_only=True)
    # `sums` replayed; an image takes over those of the original.
    _programs: Mapping[str, SharedSums] = field(default_factory=dict, kw_only=True)

    @classmethod
    def from_formulas(cls, text: str, name: str = "unnamed", *, source: str = "") -> Scheme:
        """Return the scheme that formulas describe, as papers and `print(scheme)` write them.

        Parameters
        ----------
        text : str
            Lines, or parts between semicolons, ``name = sum``: products such as
            ``h1 = (a11 + a22)(b11 + b22)``, named sums of entries or products, the entries of C.
            Entries are ``a12``, ``A12``, ``a_{12}`` or ``a[1,2]``; ``a1,12`` where an index has two
            digits. ``#`` begins a comment. In lines without names, ``(a11 + a22)(b11)(c12 - c22)``,
            c12 is entry 21 of C. The format is the smallest one that holds all entries.
        name, source : str
            As for `Scheme`.

        Raises
        ------
        SchemeError
            A formula cannot be read (the message quotes it), or a Brent equation fails;
            `falcon.schemes.check` says which, and what is nearest.
        TypeError
            `text` is no text.

        Examples
        --------
        >>> import falcon
        >>> falcon.Scheme.from_formulas("h1 = a11 b11; h2 = a12 b21; c11 = h1 + h2", "dot")
        <Scheme dot <1,2,1;2>>
        """
        return cls(*coefficients(text), name, source=source)

    def _verify(self) -> None:
        self._unflatten()
        check_shapes(self.U, self.V, self.W)
        check_facts(self.kind, self.levels)
        prove(self.U, self.V, self.W, self.name)
        self._adopt(self._programs or self._replayed(self.sums))

    def _unflatten(self) -> None:
        """Give rows of coefficients the shape of matrices, if all factors are such rows."""
        if not self.U.ndim == self.V.ndim == self.W.ndim == 2:
            return
        m, k, n = implied_format(self.U, self.V, self.W)
        for factor, shape in (("U", (m, k)), ("V", (k, n)), ("W", (m, n))):
            array = getattr(self, factor)
            object.__setattr__(self, factor, array.reshape(len(array), *shape))

    def _adopt(self, programs: Mapping[str, SharedSums]) -> None:
        held = {factor: program.temporaries for factor, program in programs.items()}
        object.__setattr__(self, "_programs", programs)
        object.__setattr__(self, "sums", MappingProxyType(held) if held else None)

    def _replayed(self, sums: Any) -> dict[str, SharedSums]:
        """Return the programs that `sums` describe; raises SchemeError."""
        if sums is None:
            return {}
        if not isinstance(sums, Mapping) or not sums.keys() <= set("UVW") or not self.is_integral:
            raise SchemeError(
                f"{self.name!r}: sums is {type(sums).__name__} {str(sums)[:40]!r}; expected lists "
                "of [x, y, ratio] by factor (U, V, W), of a scheme of integers"
            )
        programs = {}
        for factor, pairs in sums.items():
            if not isinstance(pairs, list | tuple) or not all(
                isinstance(pair, list | tuple) for pair in pairs
            ):
                raise SchemeError(
                    f"{self.name!r}: sums of {factor}: got {str(pairs)[:40]!r}; expected a list "
                    "of [x, y, ratio]"
                )
            try:
                programs[factor] = replay(getattr(self, factor).reshape(self.rank, -1), pairs)
            except ValueError as error:
                raise SchemeError(f"{self.name!r}: sums of {factor}: {error}") from None
        return programs

    @property
    def n(self) -> int:
        """Columns of B and C, in blocks."""
        return self.V.shape[2]

    @property
    def format(self) -> tuple[int, int, int]:
        """The format (m, k, n)."""
        return self.m, self.k, self.n

    @property
    def _signature(self) -> str:
        return f"{self.m},{self.k},{self.n};{self.rank}"

    @property
    def _classical_rank(self) -> int:
        return self.m * self.k * self.n

    @property
    def _combines(self) -> tuple[np.ndarray, ...]:
        u, v, w = (x.reshape(self.rank, -1) for x in (self.U, self.V, self.W))
        return u, v, w.T

    @cached_property
    def shared_sums(self) -> tuple[SharedSums, SharedSums, SharedSums]:
        """Combine A, Combine B and Combine H after common-subexpression elimination.

        Rows are outputs: the R sums of A, the R sums of B, and the m*n blocks of C. `sums` are used
        where they are given, a composition reuses those of its two schemes, and the others are
        searched. The result depends on the scheme alone and is the same in every process.
        """
        if self._composed is not None:
            made = nested_sums(*((x.format, x.shared_sums) for x in self._composed))
            if made is not None:
                return made
        (u, v, w), known = self._combines, self._programs
        return (
            known["U"] if "U" in known else share(u),
            known["V"] if "V" in known else share(v),
            known["W"].transposed() if "W" in known else share(w),
        )

    @property
    def is_classical(self) -> bool:
        """Whether nothing is saved: R >= m k n."""
        return self.rank >= self._classical_rank

    def with_facts(self, kind: str = "plain", levels: int = 1) -> Scheme:
        """Return the same proved coefficients and sums with another `kind` and `levels`."""
        check_facts(kind, levels)
        return self._changed(kind=kind, levels=levels)

    def with_sums(self, sums: Mapping[str, Sequence[Sequence[int]]] | None) -> Scheme:
        """Return the same proved coefficients with other shared sums: see the parameter `sums`."""
        other = self._changed(_composed=None)
        for derived in ("shared_sums", "additions"):
            other.__dict__.pop(derived, None)
        other._adopt(self._replayed(sums))
        return other

    def __matmul__(self, other: Scheme) -> Scheme:
        """Two levels as one flat scheme: this one outside, `other` inside."""
        if not isinstance(other, Scheme):
            return NotImplemented
        return compose(self, other)

    def __pow__(self, levels: int) -> Scheme:
        """Nest `levels` of this scheme as one flat scheme: ``x ** 2`` is ``x @ x``."""
        if not isinstance(levels, int):
            return NotImplemented
        if levels < 1:
            raise ValueError(f"the exponent is {levels}; expected at least one level")
        return reduce(compose, [self] * levels)

    def _same_sums(self, other: Scheme) -> bool:
        # These decide the shared sums, which are searched only if they differ.
        if (self.sums, self._composed) == (other.sums, other._composed):
            return True
        return self.shared_sums == other.shared_sums

    def __reduce__(self) -> tuple:
        """Pickle as coefficients and sums, a composition as its levels: loading verifies them."""
        if self._composed is not None:
            return _recomposed, (*self._composed, self.name, self.source, self.kind, self.levels)
        sums = None if self.sums is None else dict(self.sums)
        made = partial(Scheme, source=self.source, sums=sums, kind=self.kind, levels=self.levels)
        return made, (self.U, self.V, self.W, self.name)

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
        return latex(self, shared=shared)


def compose(outer: Scheme, inner: Scheme) -> Scheme:
    """Two levels as one flat scheme: the Kronecker product of the factors.

    Raises
    ------
    ValueError
        The composition would be too large to be verified.

    Examples
    --------
    >>> import falcon
    >>> strassen = falcon.schemes.get("strassen")
    >>> compose(strassen, strassen) == strassen @ strassen
    True
    >>> compose(strassen, strassen)
    <Scheme strassen@strassen <4,4,4;49>>
    """
    work = brent.work(outer.U, outer.V, outer.W) * brent.work(inner.U, inner.V, inner.W)
    brent.check_work(f"{outer.name}@{inner.name}", work)
    return Scheme(
        _kronecker(outer.U, inner.U),
        _kronecker(outer.V, inner.V),
        _kronecker(outer.W, inner.W),
        f"{outer.name}@{inner.name}",
        source=f"composition of {outer.name} (outer) and {inner.name} (inner)",
        levels=outer.levels + inner.levels,
        _composed=(outer, inner),
    )


def _kronecker(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Kronecker product of every block of x with every block of y."""
    product = x[:, None, :, None, :, None] * y[None, :, None, :, None, :]
    return product.reshape(
        x.shape[0] * y.shape[0], x.shape[1] * y.shape[1], x.shape[2] * y.shape[2]
    )


def _recomposed(outer: Scheme, inner: Scheme, name: str, source: str, *facts: Any) -> Scheme:
    return (outer @ inner).renamed(name, source).with_facts(*facts)
