"""Inspect U, V and W that need not be a scheme: which equations fail, and what is nearest."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from . import brent
from ._checks import SchemeError, as_matrices, of_multiple
from ._scheme import Scheme
from .loaders import FORMULAS, content_of, factors_of, is_name, text_of
from .reading import Formulas
from .repair import in_one_line, strays

# Coefficients of a repaired factor are fractions with at most this denominator.
_LARGEST_DENOMINATOR = 64


@dataclass(frozen=True, repr=False)
class Check:
    """What `check` found; true if all equations hold.

    Attributes
    ----------
    format : (int, int, int)
        m, k, n.
    rank : int
    equations : int
        How many there are: ``(m k n)^2``.
    violations : tuple of Violation
        Those that fail, with ``a``, ``b``, ``c`` (indices from 1), ``got`` and ``expected``.
    nearest : Scheme or None
        The same with another U, V or W, which differs least; None: no such.
    differences : tuple of str
        Where it differs: of formulas the line that is to be changed, "line s4: try a12 - s2", if
        one is enough; else the products, "h3: the coefficient of b22 is 1 in yours, -1 in the
        nearest"; or that all products are multiplied by a number, such as -1.
    factors : (U, V, W)
        As given, with shapes (R, m, k), (R, k, n), (R, m, n).
    notes : tuple of str
        What formulas lack, or have too much: "c22 is not given".

    Examples
    --------
    >>> import falcon
    >>> found = falcon.schemes.check("h1 = a11 b11; h2 = a12 b12; c11 = h1 + h2")
    >>> found.format, bool(found), len(found.violations)
    ((1, 2, 2), False, 4)
    >>> print(found.notes[0])
    a12 and b12 make it <1,2,2>, without b21, b22 and c12
    """

    format: tuple[int, int, int]
    rank: int
    equations: int
    violations: tuple[brent.Violation, ...]
    nearest: Scheme | None
    differences: tuple[str, ...]
    factors: tuple[np.ndarray, ...]
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.violations

    @property
    def scheme(self) -> Scheme:
        """The scheme, where all equations hold."""
        U, V, W = self.factors
        return Scheme(U, V, W)

    def __str__(self) -> str:
        m, k, n = self.format
        head = f"<{m},{k},{n};{self.rank}>: "
        if self:
            return f"{head}all {self.equations} Brent equations hold"
        lines = [f"{head}{len(self.violations)} of {self.equations} Brent equations fail"]
        lines += [f"  {x}" for x in (*self.notes, *self.violations[:8])]
        if len(self.violations) > 8:
            lines.append(f"  ... and {len(self.violations) - 8} more")
        if self.nearest is not None:
            lines.append(f"nearest: {self.nearest.name}; {'; '.join(self.differences)}")
        else:
            lines.append("no other U, V or W alone makes it a scheme: several places are wrong")
        return "\n".join(lines)

    __repr__ = __str__


def check(U: Any, V: Any = None, W: Any = None) -> Check:
    """Say whether U, V and W are a scheme, and if not, what is wrong, without an exception.

    Parameters
    ----------
    U, V, W : array_like
        As for `Scheme`; or U alone: the formulas as text (`Scheme.from_formulas`), or the path of
        a file that holds one scheme, or what is nearly one, as `load` reads it.

    Returns
    -------
    Check

    Raises
    ------
    SchemeError
        The shapes fit no format, a coefficient is no number, or the formulas cannot be read.
    TypeError
        U alone is neither text nor a path.
    OSError
        The file cannot be read.

    Notes
    -----
    Two factors determine the third by linear equations: if these have a solution, the nearest one
    by least squares is shown.

    Examples
    --------
    >>> import falcon
    >>> s = falcon.schemes.get("strassen")
    >>> V = s.V.copy()
    >>> V[2, 1, 1] = 1
    >>> print(str(falcon.schemes.check(s.U, V, s.W)).splitlines()[0])
    <2,2,2;7>: 2 of 64 Brent equations fail
    >>> falcon.schemes.check(s.U, V, s.W).differences
    ('h3: the coefficient of b22 is 1 in yours, -1 in the nearest',)
    """
    read = None
    if V is None and W is None:
        is_path = isinstance(U, PathLike) or (isinstance(U, str) and is_name(U))
        if not is_path:
            read = Formulas(U)
        elif str(U).lower().endswith(FORMULAS):
            with suppress(SchemeError):  # another format, or `factors_of` says why
                read = Formulas(text_of(content_of(Path(U)), Path(U)))
        U, V, W = factors_of(Path(U)) if read is None else read.factors()
    elif isinstance(U, str):
        raise SchemeError("formulas are given as U; V and W are then not expected")
    factors = as_matrices(U, V, W)
    (rank, m, k), n = factors[0].shape, factors[1].shape[2]
    wrong = brent.violations(*factors)
    violations, multiple = tuple(wrong), wrong.multiple if wrong else None
    near: list[tuple[Any, Scheme, tuple[str, ...]]] = []
    notes, formats = strays(read) if read is not None and wrong else ([], [(m, k, n)])
    if multiple is not None:
        scaled = Scheme(factors[0], factors[1] / multiple, factors[2], "the same, scaled")
        near = [(0, scaled, (of_multiple(multiple),))]
    elif violations:
        near = [x for format in formats for x in _near(factors, format, read)]
    _, nearest, differences = min(near, key=lambda x: x[0], default=(0, None, ()))
    size, found = (m * k * n) ** 2, (nearest, differences, factors, tuple(notes))
    return Check((m, k, n), rank, size, violations, *found)


def _near(
    factors: Sequence[np.ndarray], format: Sequence[int], read: Formulas | None
) -> list[tuple[Any, Scheme, tuple[str, ...]]]:
    """Return schemes with another factor, where they differ, and how far they are: least first."""
    m, k, n = format
    sizes = (m, k), (k, n), (m, n)
    cut = [x[:, :i, :j] for x, (i, j) in zip(factors, sizes, strict=True)]
    found: list[tuple[Any, Scheme, tuple[str, ...]]] = []
    for which in range(3):
        scheme = _repaired(cut, which)
        if scheme is None:
            continue
        change = getattr(scheme, "UVW"[which]) - cut[which]
        if read is not None and (line := in_one_line(read, which, change)) is not None:
            found.append(((0, line), scheme, line[2:]))
        elif [x.shape for x in cut] == [x.shape for x in factors]:
            texts = _differences(factors, scheme, read)
            found.append(((1, len(texts)), scheme, texts))
    return found


def _repaired(factors: Sequence[np.ndarray], which: int) -> Scheme | None:
    """Return the scheme with two of the factors and another third one, the nearest; or None."""
    m, k, n = factors[0].shape[1], *factors[1].shape[1:]
    rank, others = len(factors[0]), [x for i, x in enumerate(factors) if i != which]
    left, right = (x.reshape(rank, -1).astype(float) for x in others)
    tensor = np.zeros((m * k, k * n, m * n))
    for i, l, j in np.ndindex(m, k, n):
        tensor[i * k + l, l * n + j, i * n + j] = 1
    wanted = np.moveaxis(tensor, which, -1).reshape(-1, tensor.shape[which])
    known = (left[:, :, None] * right[:, None, :]).reshape(rank, -1).T
    given = factors[which].reshape(rank, -1).astype(float)
    change = np.linalg.lstsq(known, wanted - known @ given, rcond=None)[0]
    if not np.allclose(known @ (given + change), wanted, atol=1e-8):
        return None
    exact = [Fraction(x).limit_denominator(_LARGEST_DENOMINATOR) for x in (given + change).flat]
    made = list(factors)
    made[which] = np.array(exact, object).reshape(factors[which].shape)
    try:
        U, V, W = made
        return Scheme(U, V, W, f"the same with another {'UVW'[which]}")
    except SchemeError:  # its coefficients are no small fractions
        return None


def _differences(
    factors: Sequence[np.ndarray], scheme: Scheme, read: Formulas | None
) -> tuple[str, ...]:
    differences = []
    labels = [f"h{r + 1}" for r in range(scheme.rank)] if read is None else read.labels
    triples = zip("abc", factors, (scheme.U, scheme.V, scheme.W), strict=True)
    for letter, given, other in triples:
        for r, i, j in np.argwhere(given != other):
            entry = f"{letter}{i + 1}{',' if max(given.shape[1:]) > 9 else ''}{j + 1}"
            entry = entry if read is None else read.spelling(letter, (i, j))
            where, what = (entry, labels[r]) if letter == "c" else (labels[r], entry)
            values = f"{given[r, i, j]} in yours, {other[r, i, j]} in the nearest"
            differences.append((r, f"{where}: the coefficient of {what} is {values}"))
    return tuple(text for _, text in sorted(differences, key=lambda x: x[0]))
