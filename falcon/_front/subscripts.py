"""Subscripts of `einsum`, parsed and planned by opt_einsum; axes of `tensordot`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from string import ascii_letters
from typing import Any

import numpy as np

from falcon._tools.locks import importing

# Of axes that `tensordot` sums over or keeps.
_LABELS = "".join(map(chr, range(ord("A"), ord("A") + 256)))


@dataclass(frozen=True, slots=True)
class Steps:
    """How to evaluate a sum."""

    indices: tuple[Any, ...]  # per operand what removes its axes of size 1 that are broadcast
    inputs: tuple[str, ...]  # the labels of the axes that are left
    output: str  # the labels of the result
    shape: tuple[int, ...]  # of the result
    # The operands of each step; its result goes to the end of their list.
    path: tuple[tuple[int, ...], ...]


def as_text(operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return the subscripts as text, and the arrays."""
    if len(operands) < 2:
        raise ValueError("einsum: expected subscripts and at least one operand")
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), operands[1:]
    with importing():  # when needed: 8 ms
        from opt_einsum.parser import convert_interleaved_input

    try:
        text, arrays = convert_interleaved_input(operands)
    except KeyError as error:
        raise ValueError(f"einsum: the result's label {error} is in no operand") from None
    return text, arrays


def is_view(text: str) -> bool:
    """Whether subscripts of one operand only move its axes, or take diagonals."""
    own, arrow, output = text.replace(".", "").partition("->")
    return {*own} == {*output} if arrow else len({*own}) == len(own)


def has_product(text: str) -> bool:
    """Whether a sum contains a product of matrices: a summed label, and one of each operand."""
    given, arrow, output = text.replace(" ", "").replace(".", "").partition("->")
    kept = output if arrow else "".join(x for x in given if given.count(x) == 1)
    pairs = combinations(map(set, given.split(",")), 2)
    return any((a & b) - {*kept} and a - b and b - a for a, b in pairs)


@lru_cache(512)
def planned(text: str, shapes: tuple[tuple[int, ...], ...], optimize: Any) -> Steps:
    """Return how to evaluate a sum over operands of these shapes."""
    with importing():
        from opt_einsum import contract_path

    unknown = set(text) - set(ascii_letters + ",->.")
    if unknown:
        raise ValueError(f"einsum: {min(unknown)!r} in the subscripts {text!r}; expected letters")
    method, limit = ("auto" if optimize is True else optimize), None
    if isinstance(optimize, tuple) and optimize[:1] == ("einsum_path",):  # as NumPy returns it
        method = optimize[1:]
    elif isinstance(optimize, tuple) and len(optimize) == 2 and isinstance(optimize[0], str):
        method, limit = optimize
    try:
        path, found = contract_path(
            text, *shapes, shapes=True, optimize=method, memory_limit=limit, use_blas=False
        )
    except KeyError as error:
        raise ValueError(f"einsum: optimize is {optimize!r}: {error}") from None
    except (ValueError, TypeError, IndexError) as error:
        of = ", ".join(map(str, shapes))
        raise ValueError(f"einsum: {text!r} for arrays of shape {of}: {error}") from None
    inputs, output = found.input_subscripts.split(","), found.output_subscript
    sizes = found.size_dict
    if sum(len(step) - 1 for step in path) != len(inputs) - 1:
        raise ValueError(f"einsum: optimize is {optimize!r}, which leaves more than one array")
    given, arrow, result = text.partition("->")
    labels = sum(x in ascii_letters for x in given)
    if arrow and "..." not in result and sum(map(len, inputs)) > labels:
        raise ValueError(f"einsum: the result {result!r} needs '...', as the operands have it")
    indices: list[Any] = []
    kept = []
    for i, (own, shape) in enumerate(zip(inputs, shapes, strict=True)):
        wide = [size == sizes[label] for label, size in zip(own, shape, strict=True)]
        if len({*zip(own, shape, strict=True)}) > len({*own}):
            raise ValueError(
                f"einsum: operand {i} has shape {shape}; axes of one label in {own!r} differ"
            )
        index = (*(slice(None) if x else 0 for x in wide), ...)
        indices.append(None if all(wide) else index)
        kept.append("".join(label for label, x in zip(own, wide, strict=True) if x))
    shape = tuple(sizes[label] for label in output)
    return Steps(tuple(indices), tuple(kept), output, shape, tuple(map(tuple, path)))


def _axes_to_sum(
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


def labels_of(name: str, axes: Any, x: tuple[int, ...], y: tuple[int, ...]) -> tuple[str, str, str]:
    """Return a letter for each axis of operands of these shapes, and of the result."""
    left, right = _axes_to_sum(name, axes, x, y)
    xs, ys = _LABELS[: len(x)], list(_LABELS[len(x) : len(x) + len(y)])
    for i, j in zip(left, right, strict=True):
        ys[j] = xs[i]
    kept = [z for i, z in enumerate(xs) if i not in left]
    kept += [z for j, z in enumerate(ys) if j not in right]
    return xs, "".join(ys), "".join(kept)
