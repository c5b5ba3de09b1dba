"""The named schemes: data files in `falcon/schemes/data`, plus those that a user registers.

To add a scheme to falcon, put its JSON (see `loaders`) into that folder.
"""

from __future__ import annotations

import json
import re
from functools import cache, reduce
from itertools import permutations
from math import prod
from pathlib import Path

import numpy as np

from falcon._tools.locks import importing

from . import algebra, brent, facts
from ._scheme import Scheme
from .best import KEYS, LARGEST_VOLUME, BestTable
from .records import SUFFIXES, from_record

_FORMAT = re.compile(r"(\d{1,4})x(\d{1,4})x(\d{1,4})(?::(\d{1,9}))?(.*)", re.ASCII)
# The name that printed plans give to an image of a scheme whose name does not say its format.
_IMAGE = re.compile(r"(.+)\[(\d{1,4})x(\d{1,4})x(\d{1,4})\]", re.ASCII)
_LONGEST_NAME = 200
_FOLDER = Path(__file__).parent / "data"
_registered: dict[str, Scheme] = {}
_generation = 0


def generation() -> int:
    """Return a number that grows with every `register`: plans made before may be outdated."""
    return _generation


@cache
def _files() -> dict[str, str]:
    """File name per catalogue name; the name of a file is the name of its scheme."""
    names = (entry.name for entry in _FOLDER.iterdir() if entry.name.endswith(".json"))
    # Some systems allow no colon in a file name: "2x3x3_15" holds "2x3x3:15".
    return {name.removesuffix(".json").replace("_", ":"): name for name in names}


@cache
def _stored(name: str) -> Scheme:
    record = json.loads((_FOLDER / _files()[name]).read_bytes())
    return from_record(record)


def is_for_additions(name: str) -> bool:
    """Whether a scheme was stored for its few additions; False for what a user registered."""
    return name not in _registered and facts_of(name)[0].kind == "additions"


def facts_table() -> str:
    """Return what ``facts.csv`` must hold: ``print(facts_table(), end="")`` makes it."""
    return facts.table({name: _stored(name) for name in _files()})


def facts_of(name: str) -> tuple[facts.Facts, ...]:
    """Return the facts of the six images of a stored or registered scheme."""
    known = None if name in _registered else facts.stored().get(name)
    return _worked_out(get(name)) if known is None else known


_worked_out = cache(facts.images)


@cache
def _table() -> BestTable:
    # Of equal schemes the first wins: named ones ("strassen") before "2x2x2:7".
    order = sorted(_files(), key=lambda name: (name[0].isdigit(), name))
    return BestTable([_stored(name) for name in order] + list(_registered.values()))


def names() -> list[str]:
    """Names of all stored and registered schemes, in alphabetical order.

    Every permutation of their formats and every composition ``"x@y"`` is available to `get` too.

    Examples
    --------
    >>> "strassen" in names()
    True
    """
    return sorted(_files().keys() | _registered.keys())


def get(name: str) -> Scheme:
    """Return a scheme by name.

    Parameters
    ----------
    name : str
        One of `names`; a permutation of a stored format (``"4x3x4:38"``, with the stored
        ``"3x4x4:38"``; ``"hopcroft-kerr[2x3x3]"``); a bare format (``"3x3x6"``, its
        `best`); or a composition of these, outermost first (``"strassen@3x3x3:23"``).

    Raises
    ------
    TypeError
        The name is not a string.
    ValueError
        There is no such scheme; the message lists what there is.

    Examples
    --------
    >>> get("strassen@4x3x4:38").format
    (8, 6, 8)
    """
    if not isinstance(name, str):
        raise TypeError(f"scheme name is of type {type(name).__name__}; expected a str")
    if len(name) > _LONGEST_NAME:
        raise ValueError(
            f"the scheme name {name[:40] + '...'!r} has {len(name)} characters; at most "
            f"{_LONGEST_NAME} are read"
        )
    return _get(name)


@cache
def _get(name: str) -> Scheme:
    if name in _registered:
        return _registered[name]
    if name in _files():
        return _stored(name)
    levels = _levels(name)
    if len(levels) > 1:
        nested = [get(level.strip()) for level in levels]
        brent.check_work(name, prod(brent.work(x.U, x.V, x.W) for x in nested))  # before composing
        return reduce(lambda inner, outer: outer @ inner, reversed(nested))
    if name.startswith("(") and name.endswith(")"):
        return get(name[1:-1])
    image = _IMAGE.fullmatch(name)
    if image:
        return algebra.permuted(get(image[1]), *map(int, image.group(2, 3, 4)))
    match = _FORMAT.fullmatch(name)
    if match:
        m, k, n = wanted = int(match[1]), int(match[2]), int(match[3])
        if match[4] is None and not match[5]:
            return best(m, k, n)
        suffix = f":{match[4]}{match[5]}" if match[4] else match[5]
        for form in sorted(set(permutations(wanted))):
            base = "x".join(map(str, form)) + suffix
            if base in _registered or base in _files():
                return algebra.permuted(get(base), *wanted)
        if match[4] and not match[5] and 0 < prod(wanted) <= LARGEST_VOLUME:
            if int(match[4]) == prod(wanted):
                return algebra.classical(*wanted)
            if int(match[4]) == best(m, k, n).rank:
                return best(m, k, n)
    raise ValueError(_unknown(name))


def _unknown(name: str) -> str:
    """Return the message for an unknown name, with a similar name or those of its format."""
    with importing():  # most processes need it never
        from difflib import get_close_matches

    known = {x.lower(): x for x in names()}
    close = get_close_matches(name.lower(), known, 1, 0.75)
    image = _FORMAT.fullmatch(name)
    if name.lower() in ("classical", "standard", "naive"):
        hint = "falcon.schemes.classical(m, k, n) makes that of a format"
    elif image:
        form = sorted(image.group(1, 2, 3))
        matches = ((x, _FORMAT.fullmatch(x)) for x in names())
        held = [x for x, match in matches if match and sorted(match.group(1, 2, 3)) == form]
        if not held:
            m, k, n = (int(x) for x in image.group(1, 2, 3))
            if 0 < m * k * n <= LARGEST_VOLUME:
                held = [f"{m}x{k}x{n}:{best(m, k, n).rank}"]
        hint = f"of its format there are: {', '.join(held) or 'none'}"
    elif name.lower().endswith(SUFFIXES):
        hint = f"a file is loaded by falcon.schemes.load({name!r})"
    elif close:
        hint = f"did you mean {known[close[0]]!r}?"
    else:
        hint = (
            "falcon.schemes.names() lists those that there are; permutations of their formats, "
            'bare formats such as "3x3x6" and compositions such as "strassen@winograd" are others'
        )
    return f"there is no scheme {name!r}; {hint}"


def _levels(name: str) -> list[str]:
    """Cut a composition at every ``@`` outside parentheses, outermost first."""
    depth, start, levels = 0, 0, []
    for position, character in enumerate(name):
        depth += (character == "(") - (character == ")")
        if character == "@" and depth == 0:
            levels.append(name[start:position])
            start = position + 1
    return [*levels, name[start:]]


def register(scheme: Scheme, *, overwrite: bool = False) -> Scheme:
    """Make a scheme available by its name, to `get`, to `best` and to ``falcon.gemm(scheme=)``.

    Parameters
    ----------
    scheme : Scheme
        Its name must not contain ``@ ( ) [ ]`` and must not be "auto", "classical" or "unnamed".
    overwrite : bool
        Replace a scheme that was registered under the same name.

    Raises
    ------
    ValueError
        The name is taken or reserved.

    Examples
    --------
    >>> mine = register(get("strassen").renamed("mine", "a copy"), overwrite=True)
    >>> get("mine") is mine
    True
    """
    if not isinstance(scheme, Scheme):
        raise TypeError(f"scheme is of type {type(scheme).__name__}; expected a falcon Scheme")
    name = scheme.name
    if not name or set(name) & set("@()[]") or name in ("auto", "classical", "unnamed"):
        raise ValueError(
            f"scheme name {name!r} is reserved; give the scheme another one, without @ ( ) [ ]"
        )
    if name in _files():
        raise ValueError(f"there is a scheme named {name!r} already, which falcon brings")
    if name in _registered and not overwrite:
        raise ValueError(f"there is a scheme named {name!r} already; overwrite=True replaces it")
    _registered[name] = scheme
    global _generation
    _generation += 1
    _get.cache_clear()
    _table.cache_clear()
    return scheme


def best(m: int, k: int, n: int, by: str = "nnz") -> Scheme:
    """Return the best known scheme of the format <m,k,n>.

    Where no scheme is stored for a format, the best composition or direct sum of smaller ones is
    built. The lowest rank always comes first; `by` decides among schemes of that rank.

    Parameters
    ----------
    m, k, n : int
        The format; its volume ``m*k*n`` is at most 4096.
    by : {"nnz", "growth", "additions"}
        "nnz": fewest non-zero coefficients; "growth": least RMS growth of the rounding error;
        "additions": fewest after sharing common subexpressions, mostly with larger errors.

    Raises
    ------
    ValueError
        A dimension is not positive, the format is too large, or `by` is unknown.

    Examples
    --------
    >>> best(2, 2, 2).rank, best(9, 3, 2).rank
    (7, 45)
    """
    if by not in KEYS:
        raise ValueError(f"by is {by!r}; expected one of {', '.join(map(repr, KEYS))}")
    for axis, size in zip("mkn", (m, k, n), strict=True):
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"{axis} is {size!r}; expected a positive integer")
    if int(m) * int(k) * int(n) > LARGEST_VOLUME:
        raise ValueError(
            f"the format {(m, k, n)} has the volume {m * k * n}; at most {LARGEST_VOLUME} is "
            "supported: compose two schemes with @ instead"
        )
    return _table().best(int(m), int(k), int(n), by)
