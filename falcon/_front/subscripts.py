"""Subscripts of `einsum`: labels of axes, sizes, the order of pairs; axes of `tensordot`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from string import ascii_letters, ascii_lowercase, ascii_uppercase
from typing import Any

import numpy as np

# Of labels that are numbers: sorted as the numbers are.
_LETTERS = ascii_uppercase + ascii_lowercase


@dataclass(frozen=True, slots=True)
class Steps:
    """How to evaluate a sum."""

    indices: tuple[Any, ...]  # per operand what removes its axes of size 1 that are broadcast
    inputs: tuple[str, ...]  # the labels of the axes that are left
    shape: tuple[int, ...]  # of the result
    # The operands of each step; its result goes to the end of their list.
    path: tuple[tuple[int, ...], ...]


def as_text(operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return the subscripts as text, and the arrays."""
    if len(operands) < 2:
        raise ValueError("einsum: expected subscripts and at least one operand")
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), operands[1:]
    end = len(operands) // 2 * 2
    text = ",".join(_from_list(labels) for labels in operands[1:end:2])
    if end < len(operands):
        text += "->" + _from_list(operands[-1])
    return text, operands[:end:2]


def _from_list(labels: Sequence[Any]) -> str:
    text = ""
    for label in labels:
        if label is not Ellipsis and not isinstance(label, int | np.integer):
            raise TypeError(f"einsum: label {label!r} is no integer, and no ellipsis")
        if label is not Ellipsis and not 0 <= label < len(_LETTERS):
            raise ValueError(f"einsum: label {label!r} is not within 0 to {len(_LETTERS) - 1}")
        text += "..." if label is Ellipsis else _LETTERS[label]
    return text


def is_view(text: str) -> bool:
    """Whether subscripts of one operand only move its axes, or take diagonals."""
    own, arrow, output = text.replace(".", "").partition("->")
    return {*own} == {*output} if arrow else len({*own}) == len(own)


@lru_cache(512)
def parsed(text: str, axes: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """Return the labels of the axes of operands with so many axes, and of the result's."""
    given, arrow, output = text.partition("->")
    terms = given.split(",")
    if len(terms) != len(axes):
        raise ValueError(f"einsum: {text!r} is for {len(terms)} operands; got {len(axes)}")
    for term in (*terms, output):
        unknown = set(term.replace("...", "", 1)) - set(ascii_letters)
        if unknown:
            raise ValueError(
                f"einsum: {min(unknown)!r} in the subscripts {text!r}; expected letters, commas, "
                "one '->', and one '...' per operand"
            )
    hidden = []  # axes that '...' stands for
    for i, (term, count) in enumerate(zip(terms, axes, strict=True)):
        hidden.append(count - len(term.replace("...", "")))
        if hidden[-1] < 0 or (hidden[-1] and "..." not in term):
            raise ValueError(
                f"einsum: operand {i} has {count} axes, but its subscripts are {term!r}"
            )
    most = max(hidden)
    spare = "".join(x for x in ascii_letters if x not in text)[:most]
    if len(spare) < most:
        raise ValueError(f"einsum: more than {len(ascii_letters)} labels")
    if not arrow:
        once = Counter(given.replace(".", "").replace(",", ""))
        output = "..." + "".join(sorted(x for x, count in once.items() if count == 1))
    if most and "..." not in output:
        raise ValueError(f"einsum: the result {output!r} needs '...', as the operands have it")
    inputs = tuple(
        term.replace("...", spare[most - n :]) for term, n in zip(terms, hidden, strict=True)
    )
    output = output.replace("...", spare)
    for label, count in Counter(output).items():
        if count > 1 or not any(label in own for own in inputs):
            why = "is there twice" if count > 1 else "is in no operand"
            raise ValueError(f"einsum: the result's label {label!r} in {text!r} {why}")
    return inputs, output


@lru_cache(512)
def planned(
    inputs: tuple[str, ...], output: str, shapes: tuple[tuple[int, ...], ...], optimize: Any
) -> Steps:
    """Return how to evaluate a sum over operands of these shapes."""
    sizes: dict[str, int] = {}
    for i, (own, shape) in enumerate(zip(inputs, shapes, strict=True)):
        here: dict[str, int] = {}
        for label, size in zip(own, shape, strict=True):
            known = sizes.setdefault(label, size)
            if here.setdefault(label, size) != size or (known != size and 1 not in (known, size)):
                raise ValueError(
                    f"einsum: axis {label!r} of operand {i}, of shape {shape}, has size {size}; "
                    f"elsewhere it is {here[label] if here[label] != size else known}"
                )
            if known == 1:
                sizes[label] = size
    indices: list[Any] = []
    kept = []
    for own, shape in zip(inputs, shapes, strict=True):
        wide = [size == sizes[label] for label, size in zip(own, shape, strict=True)]
        index = (*(slice(None) if x else 0 for x in wide), ...)
        indices.append(None if all(wide) else index)
        kept.append("".join(label for label, x in zip(own, wide, strict=True) if x))
    path: Any = [tuple(range(len(kept)))]
    if len(kept) > 2 and optimize is not False:
        # No size is 0: costs would be.
        path = _path(kept, output, [[max(sizes[x], 1) for x in own] for own in kept], optimize)
    shape = tuple(sizes[label] for label in output)
    return Steps(tuple(indices), tuple(kept), shape, tuple(map(tuple, path)))


def _path(inputs: list[str], output: str, shapes: list[list[int]], optimize: Any) -> Any:
    """Ask opt_einsum, or NumPy, in which order to contract pairs."""
    text = f"{','.join(inputs)}->{output}"
    try:
        if _has_opt_einsum() and (optimize is True or isinstance(optimize, str)):
            from opt_einsum import contract_path

            method = "auto" if optimize is True else optimize
            return contract_path(text, *shapes, shapes=True, optimize=method)[0]
        views = [np.broadcast_to(np.empty(()), shape) for shape in shapes]
        how = optimize if isinstance(optimize, bool | str) else list(optimize)
        return np.einsum_path(text, *views, optimize=how)[0][1:]
    except (KeyError, TypeError) as error:
        raise ValueError(f"einsum: optimize is {optimize!r}: {error}") from None


@cache
def _has_opt_einsum() -> bool:
    return find_spec("opt_einsum") is not None


def axes_to_sum(
    name: str, axes: Any, a: tuple[int, ...], b: tuple[int, ...]
) -> tuple[list[int], list[int]]:
    """Return the axes that `tensordot` sums over, counted from 0."""
    if isinstance(axes, int | np.integer):
        if not 0 <= axes <= min(len(a), len(b)):
            raise ValueError(f"{name}: axes is {axes}, but a has shape {a} and b {b}")
        axes = list(range(len(a) - int(axes), len(a))), list(range(int(axes)))
    found: list[list[int]] = []
    for given, shape in zip(axes, (a, b), strict=True):
        some = [int(i) for i in np.atleast_1d(np.asarray(given, np.intp))]
        for i in some:
            if not -len(shape) <= i < len(shape):
                raise np.exceptions.AxisError(i, len(shape), f"{name}: axes")
        found.append([i % len(shape) for i in some])
        if len(set(found[-1])) < len(some):
            raise ValueError(f"{name}: axes are {axes}; an axis is there twice")
    left, right = found
    if [a[i] for i in left] != [b[j] for j in right]:
        raise ValueError(
            f"{name}: a has shape {a} and b {b}; axes {left} and {right} differ in size"
        )
    return left, right
