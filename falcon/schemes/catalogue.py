"""The named schemes: data files in `falcon/schemes/data`, plus those that a user registers.

To add a scheme to falcon, put its JSON (see `loaders`) into that folder; nothing else to do.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources

from . import algebra
from ._scheme import Scheme
from .best import KEYS, LARGEST_VOLUME, BestTable
from .loaders import from_record

_FORMAT = re.compile(r"(\d+)x(\d+)x(\d+)(?::(\d+))?(.*)")
_registered: dict[str, Scheme] = {}


@cache
def _files() -> dict[str, str]:
    """File name per catalogue name; the name of a file is the name of its scheme."""
    folder = resources.files(__package__) / "data"
    names = (entry.name for entry in folder.iterdir() if entry.name.endswith(".json"))
    # A colon is no good in a file name: "2x3x3_15" holds "2x3x3:15".
    return {name.removesuffix(".json").replace("_", ":"): name for name in names}


@cache
def _stored(name: str) -> Scheme:
    text = (resources.files(__package__) / "data" / _files()[name]).read_text(encoding="utf-8")
    return from_record(json.loads(text), f"catalogue file {_files()[name]}")


@cache
def _table() -> BestTable:
    # Of equal schemes the first wins: named ones ("strassen") before "2x2x2:7".
    order = sorted(_files(), key=lambda name: (name[0].isdigit(), name))
    return BestTable([_stored(name) for name in order] + list(_registered.values()))


def names() -> list[str]:
    """Names of all stored and registered schemes, in alphabetical order.

    Every permutation of their formats and every composition ``"x@y"`` is available to `get` too.
    """
    return sorted(_files().keys() | _registered.keys())


@cache
def get(name: str) -> Scheme:
    """Return a scheme by name.

    Parameters
    ----------
    name : str
        One of `names`; a permutation of a stored format (``"4x3x4:38"``, with the stored
        ``"3x4x4:38"``); a bare format (``"3x3x6"``, the best by rank); or a composition of these,
        outermost first (``"strassen@3x3x3:23"``).

    Raises
    ------
    ValueError
        There is no such scheme; the message lists what there is.

    Examples
    --------
    >>> get("strassen@4x3x4:38").format
    (8, 6, 8)
    """
    if not isinstance(name, str):
        raise TypeError(f"scheme name is a {type(name).__name__}; expected a str")
    if name in _registered:
        return _registered[name]
    if name in _files():
        return _stored(name)
    if "@" in name:
        outer, inner = name.split("@", 1)
        return get(outer.strip()) @ get(inner.strip())
    match = _FORMAT.fullmatch(name)
    if match:
        wanted = tuple(int(x) for x in match.group(1, 2, 3))
        if match[4] is None and not match[5]:
            return best(*wanted)
        suffix = f":{match[4]}{match[5]}" if match[4] else match[5]
        for form in algebra.formats(*wanted):
            base = "x".join(map(str, form)) + suffix
            if base in _registered or base in _files():
                return algebra.permuted(get(base), *wanted)
        if match[4] and not match[5]:
            rank = int(match[4])
            if rank == wanted[0] * wanted[1] * wanted[2]:
                return algebra.classical(*wanted)
            if best(*wanted).rank == rank:
                return best(*wanted)
    raise ValueError(
        f"there is no scheme {name!r}; known: {', '.join(names())}, every permutation of these "
        'formats, bare formats such as "3x3x6", and compositions such as "strassen@winograd"'
    )


def register(scheme: Scheme, *, overwrite: bool = False) -> Scheme:
    """Make a scheme available by its name, to `get`, to `best` and to ``falcon.gemm(scheme=)``.

    Parameters
    ----------
    scheme : Scheme
        Its name must not contain ``@`` and must not be "auto" or "classical".
    overwrite : bool
        Replace a scheme that was registered under the same name.

    Raises
    ------
    ValueError
        The name is taken or reserved.
    """
    if not isinstance(scheme, Scheme):
        raise TypeError(f"scheme is a {type(scheme).__name__}; expected a falcon Scheme")
    name = scheme.name
    if not name or "@" in name or name in ("auto", "classical", "unnamed"):
        raise ValueError(f"scheme name {name!r} is reserved; give the scheme another one")
    if name in _files() or (name in _registered and not overwrite):
        raise ValueError(f"there is a scheme named {name!r} already")
    _registered[name] = scheme
    get.cache_clear()
    _table.cache_clear()
    return scheme


def best(m: int, k: int, n: int, by: str = "rank") -> Scheme:
    """Return the best known scheme of the format <m,k,n>.

    Where no scheme is stored for a format, the best composition or direct sum of smaller ones is
    built. The lowest rank always comes first; `by` decides among schemes of that rank.

    Parameters
    ----------
    m, k, n : int
        The format; its volume ``m*k*n`` is at most 4096.
    by : {"rank", "nnz", "growth"}
        "rank": fewest additions after sharing common subexpressions; "nnz": fewest non-zero
        coefficients; "growth": least RMS growth of the rounding error.

    Raises
    ------
    ValueError
        A dimension is not positive, the format is too large, or `by` is unknown.

    Examples
    --------
    >>> best(2, 2, 2).rank, best(6, 3, 3).rank
    (7, 40)
    """
    if by not in KEYS:
        raise ValueError(f"by is {by!r}; expected one of {', '.join(map(repr, KEYS))}")
    for axis, size in zip("mkn", (m, k, n), strict=True):
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{axis} is {size!r}; expected a positive integer")
    if m * k * n > LARGEST_VOLUME:
        raise ValueError(
            f"the format {(m, k, n)} has the volume {m * k * n}; at most {LARGEST_VOLUME} is "
            "supported: compose two schemes with @ instead"
        )
    return _table().best(m, k, n, by)
