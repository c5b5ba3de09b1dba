"""What is wrong with formulas, in the names of who wrote them: a line, or an entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import islice, product
from typing import Any

import numpy as np

from ._checks import BrentError
from .formulas import joined
from .reading import Formulas, Place, Written

# Coefficients of a sum: of A or B by place, of products by their numbers.
Terms = dict[Any, Fraction]
_AXES = {"a": "mk", "b": "kn", "c": "mn"}
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
    stray: list[tuple[str, Place]] = []
    absent: list[tuple[str, Place]] = []
    for axis in "mkn":
        while size[axis] > 1:
            last: list[Any] = [
                (letter, tuple(size[axis] - 1 if x == axis else i for x in axes))
                for letter, axes in _AXES.items()
                if axis in axes
                for i in range(size[axes.replace(axis, "")])
            ]
            found = [x for x in last if x[1] in used[x[0]]]
            each = [{x for x in last if x[0] == letter} for letter in _AXES]
            if 2 * len(found) > len(last) or any(len(x) > 1 and x <= {*found} for x in each):
                break
            stray += found
            absent += [x for x in last if x not in found]
            size[axis] -= 1
    unused, of_c = (
        [
            (x, y)
            for x in some
            for y in np.ndindex(*map(size.__getitem__, _AXES[x]))
            if y not in used[x]
        ]
        for some in ("ab", "c")
    )
    notes = []
    if stray:
        makes = f"make{'s' if len(stray) == 1 else ''} it <{','.join(map(str, read.format))}>"
        notes = [f"{_listed(read, stray)} {makes}, without {_listed(read, absent)}"]
    if unused:
        notes.append(f"no product has {_listed(read, unused)}")
    if of_c:
        notes.append(f"{_listed(read, of_c)} {'is' if len(of_c) == 1 else 'are'} not given")
    sizes = [sorted({*x}, reverse=True) for x in zip(read.format, size.values(), strict=True)]
    return notes, [*product(*sizes)]


def in_one_line(
    read: Formulas, which: int, change: np.ndarray
) -> tuple[tuple[int, bool], str] | None:
    """Return the line that makes a change of U, V or W (`which`: 0, 1, 2), if one does.

    Before it, how likely it is what the writer meant: least first.

    What is added to a sum as it is written arrives in all rows that are made of it, each time
    multiplied by its coefficient there: the change is that of one sum if its rows are multiples.
    """
    moved: dict[Any, Terms] = {}
    for (r, i, j), x in np.ndenumerate(change.astype(object)):
        if not x:
            continue
        row, term = ((i, j), r) if which == 2 else (r, (i, j))
        moved.setdefault(row, {})[term] = Fraction(x)
    rows: dict[Any, Any] = read.outputs
    if which < 2:
        rows = {r: pair[which] for r, pair in enumerate(read.products)}
    first: Any = next(iter(moved), None)
    found: list[tuple[tuple[int, bool], str]] = []
    if which == 2 and len(moved) == 1 and first not in rows:  # an entry that is not given
        names = _Names(read, which, change.shape, len(read.names))
        if parts := names.parts(moved[first]):
            return (_MORE, False), f"line {read.spelling('c', first)}: try {_text(parts)}"
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
    """The entries and sums that a line of a kind may name."""

    def __init__(self, read: Formulas, which: int, shape: Sequence[int], count: int) -> None:
        self._shape, kind = shape[1:], "abh"[which]
        first = islice(read.names.items(), count)
        known = {x: self.within(y.entries) for x, y in first if y.kind == kind}
        self._own: dict[Any, str] = {r: x for r, x in enumerate(read.labels) if x in known}
        if which < 2:
            self._own = {x: read.spelling(kind, x) for x in np.ndindex(*self._shape)}
            known |= {name: {x: Fraction(1)} for x, name in self._own.items()}
        self._known = {_direction(x): (name, x[min(x)]) for name, x in known.items() if x}

    def within(self, terms: Terms) -> Terms:
        """Leave out entries beyond the format."""
        return {x: c for x, c in terms.items() if type(x) is int or all(np.less(x, self._shape))}

    def parts(self, terms: Terms) -> list[tuple[str, Fraction]]:
        """Return names and coefficients, of a multiple of a named sum one; []: there are none."""
        if terms and (known := self._known.get(_direction(terms))):
            return [(known[0], terms[min(terms)] / known[1])]
        named = self._own.keys() >= terms.keys()
        return [(self._own[x], c) for x, c in sorted(terms.items())] if named else []


def _rewritten(
    written: Written, change: Terms, names: _Names
) -> list[tuple[tuple[int, bool], str]]:
    """Return how a line may change a sum in it."""
    right, (begin, *_), (_, end, *_) = written.right, written.terms[0], written.terms[-1]
    old = [(right[x:y].lstrip(" +-").rstrip(), Fraction(s)) for x, y, s, _ in written.terms]
    options = [(_ALL, names.parts(_plus(names.within(written.value.entries), change, 1)))]
    if len(more := names.parts(change)) == 1:
        options.append((_MORE, [*old, *more]))
    for i, (_, _, sign, value) in enumerate(written.terms):
        mine = names.within(value.entries)
        needed = _plus(change, mine, sign)
        if not needed:
            options.append((_LESS, [*old[:i], *old[i + 1 :]]))
        elif needed == {x: -sign * c for x, c in mine.items()}:
            options.append((_SIGN, [*old[:i], (old[i][0], -old[i][1]), *old[i + 1 :]]))
        elif len(other := names.parts(needed)) == 1:
            options.append((_OTHER, [*old[:i], *other, *old[i + 1 :]]))
    found = []
    for likely, parts in options:
        text = _text(parts)
        if written.is_factor and (" " in text or text.startswith("-")):
            text = f"({text})"
        line = f"{right[:begin]}{' ' * right[begin:].startswith(' ')}{text}{right[end:]}"
        if parts:
            found.append(((likely, written.is_factor), f"line {written.name}: try {line}"))
    return found


def _text(parts: Sequence[tuple[str, Fraction]]) -> str:
    return joined([(("", name), c) for name, c in parts], "".join, str)


def _plus(x: Terms, y: Terms, times: int) -> Terms:
    total = {z: x.get(z, Fraction(0)) + times * y.get(z, Fraction(0)) for z in {**x, **y}}
    return {z: c for z, c in total.items() if c}


def _direction(terms: Terms) -> frozenset[tuple[Any, Fraction]]:
    """Return what all multiples of a sum have in common."""
    return frozenset((x, c / terms[min(terms)]) for x, c in terms.items())


def _listed(read: Formulas, entries: Sequence[tuple[str, Place]]) -> str:
    names = [read.spelling(*x) for x in entries[:_MOST_NAMED]]
    if len(entries) > _MOST_NAMED:
        names.append(f"{len(entries) - _MOST_NAMED} more")
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
