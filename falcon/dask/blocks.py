r"""A scheme <m,k,n;R> over the grid of chunks as tasks of Dask.

::

    chunks of x, y --> Norms --> Judge --> Sum (of chunks) --> Step (R products) --> Assemble --> C
                                   \--> Lines --> Thin (classical, usually empty) --/

Each of the m x k blocks of x, and k x n of y, is one or several chunks. The graph is static: what
NaN, Inf and norms ask for is decided by `Judge`, whose result all sums receive. Without a need for
it (integers; ``check="none"`` and a scheme by name) Norms, Judge, Lines and Thin are left out.
"""

from __future__ import annotations

from itertools import accumulate, product
from typing import Any

import numpy as np

from .graph import Chunks
from .plan import GridPlan
from .sums import Assemble, Judge, Lines, Norms, Sum, Thin
from .work import Step, total

_WHOLE = (slice(None), slice(None))


def of_scheme(
    name: str,
    plan: GridPlan,
    work: str,
    operands: tuple[Chunks, Chunks, Chunks | None],
    alpha: Any,
    beta: Any,
) -> dict[Any, Any]:
    """Return the tasks of ``alpha x y + beta c``; parameters as for `falcon.dask.graph.plain`."""
    scheme, dtype = plan.scheme, plan.result.numpy
    assert scheme is not None  # the caller looks
    sizes = plan.grid.x[-2], plan.grid.x[-1], plan.grid.y[-1]  # M, K, N
    parts = scheme.format
    # Chunks of a block, and their nominal sizes: those of the first block are the largest.
    counts = [len(s) // p for s, p in zip(sizes, parts, strict=True)]
    M, K, N = (s[:count] for s, count in zip(sizes, counts, strict=True))
    lines = [_slices(s) for s in sizes]
    tasks: dict[Any, Any] = {}
    judged = _judged(tasks, name, plan, operands, lines) if plan.judged else None
    thin = _apart(tasks, name, plan, operands, lines, judged) if judged else (None, None)
    w = scheme.W
    sides = (
        (operands[0], scheme.U, "left", counts[:2], (M, K), lines[0]),
        (operands[1], scheme.V, "right", counts[1:], (K, N), lines[2]),
    )
    for r in range(scheme.rank):
        for axis, (x, factor, side, (rows, columns), extents, of) in enumerate(sides):
            at = [(p, q) for p, q in np.argwhere(factor[r] != 0).tolist()]
            some = tuple(factor[r][place] for place in at)
            for i, l in product(range(rows), range(columns)):
                where = [(p * rows + i, q * columns + l) for p, q in at]
                held = tuple(of[place[axis]] for place in where)
                step = Sum(axis, some, held, (extents[0][i], extents[1][l]), dtype)
                chunks = [x[place] for place in where]
                tasks[f"{name}-{side}", r, i, l] = (step, judged, chunks)
        for i, j in product(range(counts[0]), range(counts[2])):
            for l in range(counts[1]):
                plan.need(M[i], N[j], K[l], l > 0)
            shapes = tuple(((M[i], K[l]), (K[l], N[j])) for l in range(counts[1]))
            add = Step(((_WHOLE, _WHOLE),) * counts[1], shapes, (), False, 1)
            left = [(f"{name}-left", r, i, l) for l in range(counts[1])]
            right = [(f"{name}-right", r, l, j) for l in range(counts[1])]
            tasks[f"{name}-product", r, i, j] = (add, work, None, left, right)
    for i, j in product(range(len(sizes[0])), range(len(sizes[2]))):
        (p, within), (q, beside) = divmod(i, counts[0]), divmod(j, counts[2])
        used = [r for r in range(scheme.rank) if w[r, p, q] != 0]
        last = Assemble(
            tuple(w[r, p, q] for r in used), (lines[0][i], lines[2][j]), dtype, alpha, beta
        )
        products = [(f"{name}-product", r, within, beside) for r in used]
        c = None if operands[2] is None else operands[2][i, j]
        of_rows, of_columns = (
            None if x is None else x[at] for x, at in zip(thin, (j, i), strict=True)
        )
        tasks[name, i, j] = (last, judged, products, of_rows, of_columns, c)
    return tasks


def _slices(sizes: tuple[int, ...]) -> list[slice]:
    """Return which lines each chunk holds."""
    return [slice(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]


def _judged(
    tasks: dict[Any, Any],
    name: str,
    plan: GridPlan,
    operands: tuple[Chunks, Chunks, Any],
    lines: list[list[slice]],
) -> tuple:
    """Add the tasks that measure and judge all norms; return the key of the last."""
    scheme, (M, K, N) = plan.scheme, map(len, lines)
    assert scheme is not None  # the caller looks
    norms: list[list[list[tuple]]] = [[], []]
    for axis, outer in ((0, M), (1, N)):
        for at in range(outer):
            keys = [(f"{name}-norms", axis, at, l) for l in range(K)]
            for key in keys:
                tasks[key] = Norms(axis), _line(operands, *key[1:])
            norms[axis].append(keys)
    parts = scheme.m, scheme.n
    blocks = tuple(
        sum(x.stop - x.start for x in of[: len(of) // count])
        for of, count in zip((lines[0], lines[2]), parts, strict=True)
    )
    most = tuple(max(x.stop - x.start for x in of) for of in (lines[0], lines[2]))
    judge = Judge(parts, (blocks[0], blocks[1]), plan.scaled, plan.result.name, (most[0], most[1]))
    tasks[f"{name}-judged", 0] = (judge, *norms)
    return f"{name}-judged", 0


def _apart(
    tasks: dict[Any, Any],
    name: str,
    plan: GridPlan,
    operands: tuple[Chunks, Chunks, Any],
    lines: list[list[slice]],
    judged: tuple,
) -> tuple[list[tuple], list[tuple]]:
    """Add the classical products of lines that are set apart; return keys, by chunk of C's side."""
    found: list[list[tuple]] = [[], []]
    dtype, threads, K = plan.result.numpy, plan.cluster.threads, range(len(lines[1]))
    for axis in (0, 1):
        mine, across = (lines[0], lines[2]) if axis == 0 else (lines[2], lines[0])
        for l in K:
            length = lines[1][l].stop - lines[1][l].start
            for at, which in enumerate(mine):
                cut = Lines(axis, which, length, dtype)
                tasks[f"{name}-lines", axis, l, at] = cut, judged, _line(operands, axis, at, l)
        for at, which in enumerate(across):
            step = Thin(axis, which.stop - which.start, dtype, threads)
            for l in K:
                some = [(f"{name}-lines", axis, l, x) for x in range(len(mine))]
                chunk = _line(operands, 1 - axis, at, l)
                tasks[f"{name}-thin", axis, at, l] = (step, some, chunk)
            keys = [(f"{name}-thin", axis, at, l) for l in K]
            if len(keys) > 1:
                tasks[f"{name}-apart", axis, at] = (total, keys)
            found[axis].append((f"{name}-apart", axis, at) if len(keys) > 1 else keys[0])
    return found[0], found[1]


def _line(operands: tuple[Chunks, Chunks, Any], axis: int, at: int, l: int) -> Any:
    """Return the chunk of x in row `at`, or of y (axis 1) in column `at`, at `l` along K."""
    return operands[axis][(at, l) if axis == 0 else (l, at)]
