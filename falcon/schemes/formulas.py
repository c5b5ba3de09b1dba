"""Print a scheme the way a textbook does: the products h1 .. hR, then the entries of C."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .additions import SharedSums

Variable = tuple[str, str]  # letter and index: ("a", "21")
Sum = list[tuple[Variable, Any]]  # variables and their coefficients
Equation = tuple[Variable, tuple[Sum, ...]]  # a variable is a sum, or a product of two sums
# Lines of formulas that are printed at most; the best scheme of <6,6,6> has 189.
_LINES = 40
Listing = Iterable[list[Equation]]  # blocks of equations


def head(scheme: Any) -> str:
    """Return the two lines that name a `Scheme` and what it costs."""
    nonzeros, (naive, reduced) = "+".join(map(str, scheme.nnz)), scheme.additions
    return (
        f"{scheme.name} <{scheme._signature}>: speed-up bound {scheme.speedup_bound:.3f}, "
        f"non-zeros {nonzeros}\nadditions {naive} (shared: {reduced}), RMS growth "
        f"{scheme.rms_growth:.2f}, e_max {scheme.e_max}"
    )


def printed(scheme: Any) -> str:
    """Return the head, the source and the first formulas."""
    source = f"\nsource: {scheme.source}" if scheme.source else ""
    lines = formulas(scheme).splitlines()
    if len(lines) > _LINES:
        lines[_LINES:] = [f"... and {len(lines) - _LINES} more lines: to_formulas() has all"]
    return "\n".join([f"{head(scheme)}{source}\n", *lines])


def html(scheme: Any) -> str:
    """Return the head, and the formulas of up to a hundred products."""
    from html import escape

    formula = f"$$\n{latex(scheme)}\n$$" if scheme.rank <= 100 else ""
    return f"<p>{escape(head(scheme))}</p>\n{formula}"


def formulas(scheme: Any, *, shared: bool = False) -> str:
    """Return the formulas of a `Scheme`, a product or entry of C per line.

    With `shared`, sums that occur more than once have names: s of A, t of B, u of the products.

    Examples
    --------
    >>> import falcon
    >>> print(formulas(falcon.schemes.get("strassen")).splitlines()[0])
    h1 = (a11 + a22)(b11 + b22)
    """
    return _text(_equations(scheme, shared))


def latex(scheme: Any, *, shared: bool = False) -> str:
    r"""Return the formulas as an ``aligned`` environment of LaTeX."""
    return _aligned(_equations(scheme, shared))


def _text(listing: Listing) -> str:
    blocks = []
    for block in listing:
        width = max(len("".join(name)) for name, _ in block)
        lines = [f"{''.join(name):<{width}} = {_product(x, ''.join, str)}" for name, x in block]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _aligned(listing: Listing) -> str:
    def named(variable: Variable) -> str:
        return "{}_{{{}}}".format(*variable)

    def number(x: Any) -> str:
        return str(x) if x.denominator == 1 else rf"\tfrac{{{x.numerator}}}{{{x.denominator}}}"

    blocks = [
        " \\\\\n".join(f"{named(name)} &= {_product(x, named, number)}" for name, x in block)
        for block in listing
    ]
    return "\\begin{aligned}\n" + " \\\\[1ex]\n".join(blocks) + "\n\\end{aligned}"


def _equations(scheme: Any, shared: bool) -> list[list[Equation]]:
    """Shared sums of A and B, the products, then shared sums of these and the entries of C."""
    inputs = [
        _entries("a", scheme.U),
        _entries("b", scheme.V),
        [("h", f"{r + 1}") for r in range(scheme.rank)],
    ]
    sums = scheme.shared_sums if shared else map(_unshared, scheme._combines)
    (s, left), (t, right), (u, outputs) = (
        _written(*x) for x in zip(sums, inputs, "stu", strict=True)
    )
    products: list[Equation] = [(h, (x, y)) for h, x, y in zip(inputs[2], left, right, strict=True)]
    entries: list[Equation] = [
        (c, (x,)) for c, x in zip(_entries("c", scheme.W), outputs, strict=True)
    ]
    return [block for block in (s + t, products, u + entries) if block]


def _entries(letter: str, factor: np.ndarray) -> list[Variable]:
    shape = factor.shape[1:]
    comma = "," if max(shape) > 9 else ""
    return [(letter, f"{i + 1}{comma}{j + 1}") for i, j in np.ndindex(*shape)]


def _unshared(matrix: np.ndarray) -> SharedSums:
    rows = (tuple((int(x), row[x]) for x in np.flatnonzero(row)) for row in matrix)
    return SharedSums(matrix.shape[1], (), tuple(rows))


def _written(
    sums: SharedSums, inputs: list[Variable], letter: str
) -> tuple[list[Equation], list[Sum]]:
    """The equations of the temporaries, and the rows, in names."""
    shared = [(letter, f"{t + 1}") for t in range(len(sums.temporaries))]
    names = inputs + shared
    temporaries: list[Equation] = [
        (name, ([(names[x], 1), (names[y], ratio)],))
        for name, (x, y, ratio) in zip(shared, sums.temporaries, strict=True)
    ]
    return temporaries, [[(names[x], c) for x, c in row] for row in sums.rows]


def _product(
    factors: Iterable[Sum],
    named: Callable[[Variable], str],
    number: Callable[[Any], str],
) -> str:
    texts = [joined(factor, named, number) for factor in factors]
    if len(texts) == 1:
        return texts[0]
    left, right = (f"({x})" if " " in x or x.startswith("-") else x for x in texts)
    return f"{left}{'' if all(' ' in x for x in texts) else ' '}{right}"


def joined(terms: Sum, named: Callable[[Variable], str], number: Callable[[Any], str]) -> str:
    """Write ``a11 - 2 a12 + 1/2 a21``; an empty sum is 0."""
    text = ""
    for variable, coefficient in terms:
        sign, size = "-" if coefficient < 0 else "+", abs(coefficient)
        scaled = named(variable) if size == 1 else f"{number(size)} {named(variable)}"
        text += f" {sign} {scaled}" if text else scaled if sign == "+" else f"-{scaled}"
    return text or "0"
