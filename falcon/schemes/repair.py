"""What is wrong with formulas, in the names of who wrote them: a line, or an entry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import islice, product
from typing import Any

import numpy as np

from ._checks import BrentError
from .formulas import joined
from .reading import AXES, Formulas, Place, Written

# Coefficients of a sum: of A or B by place, of products by their numbers.
Terms = dict[Any, Fraction]
Parts = list[tuple[str, Fraction]]  # names, and their coefficients
Line = tuple[int, bool, str]  # what it may be, whether it is a factor's, and the line
# What a writer may have meant, the likeliest first: another sign, a term less, another term, a term
# more, another sum.
_SIGN, _LESS, _OTHER, _MORE, _ALL = range(5)
_MOST_NAMED = 6  # entries in a sentence


@contextmanager
def proving(text: str) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield U, V and W of formulas; the error of their proof names stray and missing entries."""
    read = Formulas(text)
    try:
        yield read.factors()
    except BrentError as error:
        error.args = ("; ".join([str(error), *strays(read)[0]]),)
        raise


def strays(read: Formulas) -> tuple[list[str], list[tuple[int, ...]]]:
    """Say which entries make the format larger, and which are missing.

    The entries of a last index are stray if at most half of them occur, and not all some of A, B or
    C. Also returns the formats with and without such indices, the whole one first.
    """
    used, size = read.used, dict(zip("mkn", read.format, strict=True))
    every: dict[tuple[str, int], set[tuple[str, Place]]] = defaultdict(set)  # by axis and index
    for letter, (x, y) in AXES.items():
        for i, j in np.ndindex(size[x], size[y]):
            every[x, i].add((letter, (i, j)))
            every[y, j].add((letter, (i, j)))
    stray: set[tuple[str, Place]] = set()
    absent: set[tuple[str, Place]] = set()
    for axis in "mkn":
        while size[axis] > 1:
            last = every[axis, size[axis] - 1] - stray - absent
            each = ({x for x in last if x[0] == letter} for letter in AXES)
            if 2 * len(last & used) > len(last) or any(len(x) > 1 and x <= used for x in each):
                break
            stray, absent, size[axis] = stray | last & used, absent | last - used, size[axis] - 1

    def listed(entries: set[tuple[str, Place]]) -> str:
        names = [read.spelling(*x) for x in sorted(entries)]
        if len(names) > _MOST_NAMED:
            names[_MOST_NAMED:] = [f"{len(names) - _MOST_NAMED} more"]
        return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))

    lost = set().union(*every.values()) - used - absent
    of_c = {x for x in lost if x[0] == "c"}
    whole = ",".join(map(str, read.format))
    told = [
        (stray, f"make{'s' * (len(stray) == 1)} it <{whole}>, without {listed(absent)}"),
        (lost - of_c, f"{'is' if len(lost - of_c) == 1 else 'are'} in no product"),
        (of_c, f"{'is' if len(of_c) == 1 else 'are'} not given"),
    ]
    sizes = [sorted({*x}, reverse=True) for x in zip(read.format, size.values(), strict=True)]
    return [f"{listed(x)} {text}" for x, text in told if x], [*product(*sizes)]


def in_one_line(read: Formulas, which: int, change: np.ndarray) -> Line | None:
    """Return the line that makes a change of U, V or W (`which`: 0, 1, 2), if one does.

    What is added to a sum as it is written arrives in all rows that are made of it, each time
    multiplied by its coefficient there: the change is that of one sum if its rows are multiples.
    """
    moved: dict[Any, Terms] = defaultdict(dict)
    for (r, i, j), x in np.ndenumerate(change.astype(object)):
        if x:
            row, term = ((i, j), r) if which == 2 else (r, (i, j))
            moved[row][term] = Fraction(x)
    rows: dict[Any, Any] = read.outputs
    if which < 2:
        rows = {r: pair[which] for r, pair in enumerate(read.products)}
    first: Any = next(iter(moved), None)
    if which == 2 and len(moved) == 1 and first not in rows:  # an entry that is not given
        parts = _Names(read, which, change.shape, len(read.names)).parts(moved[first])
        line = f"line {read.spelling('c', first)}: try {_text(parts)}"
        return (_MORE, False, line) if parts else None
    found: list[Line] = []
    for written in rows[first].terms if first in rows else ():
        if not isinstance(written, Written):
            continue
        times = {x: y.terms[written] for x, y in rows.items() if y.terms.get(written)}
        if times.keys() == moved.keys():
            needed, *others = ({t: c / times[x] for t, c in y.items()} for x, y in moved.items())
            if all(x == needed for x in others):
                names = _Names(read, which, change.shape, written.known)
                found += _rewritten(written, needed, names)
    return min(found, default=None)


class _Names:
    """The entries and sums that a line may name: those of a kind, of the first lines."""

    def __init__(self, read: Formulas, which: int, shape: tuple[int, ...], count: int) -> None:
        kind, names = "abh"[which], dict(islice(read.names.items(), count))
        self._own: dict[Any, str] = {r: x for r, x in enumerate(read.labels) if x in names}
        self._inside: Iterable[Any] = range(shape[0])
        if which < 2:
            self._inside = [*np.ndindex(shape[1:])]
            self._own = {x: read.spelling(kind, x) for x in self._inside}
        known = {x: self.plus({}, y.entries, 1) for x, y in names.items() if y.kind == kind}
        known |= {name: {x: Fraction(1)} for x, name in self._own.items()}
        self._known = {self._key(x): (name, x[min(x)]) for name, x in known.items() if x}

    def plus(self, x: Terms, y: Terms, times: int) -> Terms:
        """Return x and some times y, without entries beyond the format."""
        return {z: c for z in self._inside if (c := x.get(z, 0) + times * y.get(z, Fraction(0)))}

    def parts(self, terms: Terms) -> Parts:
        """Return names and coefficients, of a multiple of a named sum one; []: there are none."""
        if terms and (known := self._known.get(self._key(terms))):
            return [(known[0], terms[min(terms)] / known[1])]
        named = self._own.keys() >= terms.keys()
        return [(self._own[x], c) for x, c in sorted(terms.items())] if named else []

    def _key(self, terms: Terms) -> frozenset[tuple[Any, Fraction]]:  # that of all its multiples
        return frozenset((x, c / terms[min(terms)]) for x, c in terms.items())


def _rewritten(written: Written, change: Terms, names: _Names) -> Iterator[Line]:
    """Yield how a line may change a sum in it."""
    right, (begin, *_), (_, end, *_) = written.right, written.terms[0], written.terms[-1]
    old = [(right[x:y].lstrip(" +-").rstrip(), Fraction(s)) for x, y, s, _ in written.terms]
    options = [(_ALL, names.parts(names.plus(change, written.value.entries, 1)))]
    if len(more := names.parts(change)) == 1:
        options.append((_MORE, [*old, *more]))
    for i, (_, _, sign, value) in enumerate(written.terms):
        needed, mine = (names.plus(x, value.entries, sign) for x in (change, {}))
        if not needed:
            options.append((_LESS, [*old[:i], *old[i + 1 :]]))
        elif needed == {x: -c for x, c in mine.items()}:
            options.append((_SIGN, [*old[:i], (old[i][0], -old[i][1]), *old[i + 1 :]]))
        elif len(other := names.parts(needed)) == 1:
            options.append((_OTHER, [*old[:i], *other, *old[i + 1 :]]))
    for likely, parts in options:
        text = _text(parts)
        if written.is_factor and (" " in text or text.startswith("-")):
            text = f"({text})"
        if parts:
            line = f"{right[:begin]}{' ' * right[begin:].startswith(' ')}{text}{right[end:]}"
            yield likely, written.is_factor, f"line {written.name}: try {line}"


def _text(parts: Parts) -> str:
    return joined([(("", name), c) for name, c in parts], "".join, str)
