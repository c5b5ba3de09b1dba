"""Print a scheme the way a textbook does: the products h1 .. hR, then the entries of C."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._like import SchemeLike


def formulas(scheme: SchemeLike) -> str:
    """Return the bilinear formulas of `scheme`, a product or an entry of C per line.

    Examples
    --------
    >>> import falcon
    >>> print(formulas(falcon.schemes.get("strassen")).splitlines()[0])
    h1 = (a11 + a22)(b11 + b22)
    """
    rank = scheme.rank
    width = len(f"h{rank}")
    lines = []
    for r in range(rank):
        left, right = _sum(scheme.U[r], "a"), _sum(scheme.V[r], "b")
        lines.append(
            f"{f'h{r + 1}':<{width}} = {_bracket(left)}{_gap(left, right)}{_bracket(right)}"
        )
    lines.append("")
    for i in range(scheme.m):
        for j in range(scheme.n):
            terms = [(f"h{r + 1}", scheme.W[r, i, j]) for r in range(rank) if scheme.W[r, i, j]]
            lines.append(f"{_entry('c', i, j, scheme.W.shape[1:])} = {_join(terms)}")
    return "\n".join(lines)


def _sum(factor: np.ndarray, letter: str) -> str:
    terms = [
        (_entry(letter, i, j, factor.shape), factor[i, j])
        for i, j in zip(*np.nonzero(factor), strict=True)
    ]
    return _join(terms)


def _entry(letter: str, i: int, j: int, shape: tuple[int, ...]) -> str:
    comma = "," if max(shape) > 9 else ""
    return f"{letter}{i + 1}{comma}{j + 1}"


def _join(terms: list[tuple[str, Any]]) -> str:
    """Write ``a11 - 2 a12 + 1/2 a21``; nothing at all is 0."""
    text = ""
    for name, coefficient in terms:
        sign = "-" if coefficient < 0 else "+"
        size = abs(coefficient)
        scaled = name if size == 1 else f"{size} {name}"
        if text:
            text += f" {sign} {scaled}"
        else:
            text = scaled if sign == "+" else f"-{scaled}"
    return text or "0"


def _bracket(text: str) -> str:
    return f"({text})" if " " in text or text.startswith("-") else text


def _gap(left: str, right: str) -> str:
    return "" if " " in left and " " in right else " "
