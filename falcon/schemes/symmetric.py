"""Schemes for X X^T: those of the catalogue (`falcon/schemes/data/gram`), constructions, files.

To add one, put its JSON (`dump`) into that folder.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from . import catalogue
from ._checks import SchemeError
from ._coefficients import exact_array
from ._scheme import Scheme
from ._symmetric import SymmetricScheme
from .loaders import head_of, parsed
from .writing import GRAM

_CLASSICAL = re.compile(r"(\d{1,2})x(\d{1,2}):(\d{1,5})\+(\d{1,5})", re.ASCII)
# Limit of m and k: far more than any scheme that can be verified.
_MOST_BLOCKS = 99


@cache
def _files() -> dict[str, str]:
    """File name per scheme: "4x4_24+10.json" holds "4x4:24+10"."""
    folder = resources.files(__package__) / "data" / "gram"
    found = (entry.name for entry in folder.iterdir() if entry.name.endswith(".json"))
    return {name.removesuffix(".json").replace("_", ":"): name for name in found}


def names() -> list[str]:
    """Names of all stored schemes for X X^T, in alphabetical order; `get` knows more."""
    return sorted(_files())


@cache
def is_for_gram(name: str) -> bool:
    """Whether a name, known or not, has the form of a scheme for X X^T: "4x4:19+16".

    Direct sums of ordinary schemes, "(strassen+m+winograd)", have a plus in parentheses.
    """
    return "+" in name and "(" not in name


def get(name: str) -> SymmetricScheme:
    """Return a scheme for X X^T by name.

    Parameters
    ----------
    name : str
        One of `names`; the classical algorithm (``"2x2:2+4"``: X of 2 x 2 blocks, 2 general and 4
        symmetric products); or ``"x@y"``: `compose` of such a scheme x with the scheme y of the
        ordinary catalogue for the general products (``"2x1:1+2@strassen"``).

    Raises
    ------
    TypeError
        The name is not a string.
    ValueError
        There is no such scheme, or the composition is too large.

    Examples
    --------
    >>> get("2x1:1+2@strassen")
    <SymmetricScheme 2x1:1+2@strassen <4,2;11+8>>
    """
    if not isinstance(name, str):
        raise TypeError(f"scheme name is of type {type(name).__name__}; expected a str")
    if name in _files():
        file = resources.files(__package__) / "data" / "gram" / _files()[name]
        return from_record(json.loads(file.read_text(encoding="utf-8")), f"catalogue file {name}")
    outer, at, general = name.partition("@")
    if at:
        return compose(get(outer), catalogue.get(general))
    match = _CLASSICAL.fullmatch(name)
    if match:
        m, k, *products = map(int, match.groups())
        if m and k and products == [m * (m - 1) // 2 * k, m * k]:
            return classical(m, k)
    raise ValueError(
        f"there is no scheme {name!r} for X X^T; there are {', '.join(names()) or 'none'}, "
        'classical ones such as "2x2:2+4", and compositions such as "2x1:1+2@strassen"'
    )


def classical(m: int, k: int) -> SymmetricScheme:
    """Return the classical algorithm for X of m x k blocks, its diagonal products symmetric.

    Examples
    --------
    >>> print(classical(2, 1))
    2x1:1+2 <2,1;1+2> for X X^T: 1 general and 2 symmetric products, speed-up bound 1.000, \
non-zeros 3+3+3, additions 0 (shared: 0), RMS growth 1.00, e_max 1
    source: definition of the matrix product
    <BLANKLINE>
    h1 = x11 x11^T
    h2 = x11 x21^T
    h3 = x21 x21^T
    <BLANKLINE>
    c11 = h1
    c12 = h2
    c22 = h3
    """
    i, j, l = (x.ravel() for x in np.indices((m, m, k)))
    i, j, l = (x[i <= j] for x in (i, j, l))
    r = np.arange(len(i))
    U, V, W = (np.zeros((len(i), m, n), np.int64) for n in (k, k, m))
    U[r, i, l] = V[r, j, l] = W[r, i, j] = 1
    name = f"{m}x{k}:{m * (m - 1) // 2 * k}+{m * k}"
    return SymmetricScheme(U, V, W, name, source="definition of the matrix product")


def from_general(
    scheme: Scheme, parts: int = 2, diagonal: SymmetricScheme | None = None
) -> SymmetricScheme:
    """Cut the rows of X in parts, and multiply different parts by an ordinary scheme.

    Parameters
    ----------
    scheme : Scheme
        Of a format <m,k,m>, for the blocks of C off its diagonal.
    parts : int
    diagonal : SymmetricScheme, optional
        Of the format (m, k), for the diagonal blocks; classical if not given.

    Examples
    --------
    >>> import falcon
    >>> from_general(falcon.schemes.get("strassen")).cost, classical(4, 2).cost
    (Fraction(15, 1), Fraction(16, 1))
    """
    return compose(classical(parts, 1), scheme, diagonal)


def compose(
    outer: SymmetricScheme, general: Scheme, inner: SymmetricScheme | None = None
) -> SymmetricScheme:
    """Two levels as one flat scheme: `general` and `inner` do the products of `outer`.

    Parameters
    ----------
    outer : SymmetricScheme
    general : Scheme
        Of a format <m,k,m>, for the general products.
    inner : SymmetricScheme, optional
        Of the format (m, k), for the symmetric products; classical if not given. A symmetric
        product that is needed off the diagonal of C is done by `general`: `inner` would form only
        one triangle of it.

    Raises
    ------
    ValueError
        The formats do not fit, or the composition would be too large to be verified.
    """
    if general.m != general.n:
        raise ValueError(f"{general!r} is of the format {general.format}; expected <m,k,m>")
    if inner is not None and inner.format != (general.m, general.k):
        raise ValueError(f"{inner!r} does not fit {general!r}; expected {general.m, general.k}")
    within = classical(general.m, general.k) if inner is None else inner
    halved = outer.symmetric & ~outer.off_diagonal
    full = (general.U, general.V.transpose(0, 2, 1), general.W)
    parts = [
        [
            np.kron(getattr(outer, factor)[r], block)
            for r in range(outer.rank)
            for block in (getattr(within, factor) if halved[r] else full[place])
        ]
        for place, factor in enumerate("UVW")
    ]
    U, V, W = (np.array(x) for x in parts)
    W = np.triu(W)
    needed = W.astype(bool).any(axis=(1, 2))
    name = f"{outer.name}@{general.name}"
    source = f"composition of {outer.name} (outer) and {general.name}"
    if inner is not None:
        name += f"|{inner.name}"
        source += f" (general products) and {inner.name} (symmetric ones)"
    return SymmetricScheme(U[needed], V[needed], W[needed], name, source=source)


def load(path: str | PathLike[str]) -> SymmetricScheme:
    """Load a scheme that `dump` has written; it is verified.

    Raises
    ------
    SchemeError
        The file is no scheme file, or is damaged, or violates an equation.
    OSError
        The file cannot be read.
    """
    path = Path(path)
    return from_record(parsed(head_of(path), path), str(path))


def dump(scheme: SymmetricScheme, path: str | PathLike[str]) -> None:
    """Write a scheme as JSON, which `load` reads; fractions become strings such as ``"1/2"``."""
    scheme.save(path)


def from_record(record: Any, where: str = "record") -> SymmetricScheme:
    """Build a scheme from parsed JSON; raises SchemeError."""
    if not isinstance(record, dict) or record.get("product") != GRAM:
        raise SchemeError(f'{where}: expected a JSON object with "product": "{GRAM}"')
    missing = [x for x in ("m", "k", "rank", "U", "V", "W") if x not in record]
    if missing:
        raise SchemeError(f"{where}: the field {missing[0]!r} is missing")
    m, k, rank = sizes = [record[x] for x in ("m", "k", "rank")]
    if not all(type(x) is int and x > 0 for x in sizes) or max(m, k) > _MOST_BLOCKS:
        raise SchemeError(
            f"{where}: m, k and rank are {sizes}; expected positive integers, m and k at most "
            f"{_MOST_BLOCKS}"
        )
    facts = {x: record.get(x, default) for x, default in (("name", "unnamed"), ("source", ""))}
    if not all(isinstance(x, str) for x in facts.values()):
        raise SchemeError(f"{where}: name and source must be strings")
    factors = []
    for factor, columns in (("U", k), ("V", k), ("W", m)):
        try:
            array = exact_array(record[factor], factor)
        except (TypeError, ValueError) as error:
            raise SchemeError(f"{where}: {error}") from None
        if array.shape != (rank, m * columns):
            raise SchemeError(
                f"{where}: {factor} has shape {array.shape}; expected {(rank, m * columns)}"
            )
        factors.append(array.reshape(rank, m, columns))
    U, V, W = factors
    try:
        return SymmetricScheme(U, V, W, **facts, kind=record.get("kind", "plain"))
    except SchemeError as error:
        raise SchemeError(f"{where}: {error}") from None
