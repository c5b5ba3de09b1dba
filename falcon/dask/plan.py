"""`plan`: which way the chunks of two arrays are multiplied, and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isnan, prod
from typing import Any, Unpack

import dask.array as da
import numpy as np
import numpy.typing as npt

from falcon import schemes
from falcon._core.dtypes import DType, of
from falcon._core.keywords import CallOptions, takes_options
from falcon._core.options import KEYWORDS, Options
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._core.text import format_table
from falcon._front.arithmetic import operand_type, result_type
from falcon._front.families.numpy import NUMPY
from falcon._front.planner import plan_for, predicted, requested
from falcon._gpu.where import is_on_gpu
from falcon.decision.candidates import scheme_candidates
from falcon.schemes import Scheme

from . import model
from .cluster import Cluster, current
from .grid import Grid

# A scheme over the chunks is taken where it is predicted to need at most this share of the time:
# predictions err, and it takes more memory. Its blocks are chunks, or several of them.
_GAIN = 0.95
_MOST_PARTS = 4
# How much longer a product of chunks may take with less workspace: in general, and with
# reread=True, which is for arrays that do not fit.
_FRUGAL, _MOST_FRUGAL = 1.02, 1.08


@dataclass(frozen=True, eq=False, repr=False)
class GridPlan:
    """A decision: printable; `falcon.dask.matmul` makes the same.

    Attributes
    ----------
    grid : Grid
        Which chunks meet.
    chunk : falcon.Plan or None
        Of the product of two (of the largest) chunks; None: a GPU's arrays, or unknown sizes.
    scheme : Scheme or None
        Over the chunks; None: the plain grid.
    steps : (int, int)
        Products that a task of the plain grid adds up; tasks that add to different arrays.
    ways : tuple
        What was compared: the choice first.
    cluster : Cluster
    why : str
    advice : tuple of str
        How other chunks would help.

    Examples
    --------
    >>> import dask.array as da, falcon
    >>> x = da.ones((40, 60), chunks=(20, 30))
    >>> falcon.dask.plan(x, x.T)
    <GridPlan plain of 2 x 2 x 2 chunks>
    """

    grid: Grid
    operand: Any
    result: Any
    options: Options
    cluster: Cluster
    chunk: Plan | None
    scheme: Scheme | None
    steps: tuple[int, int]
    ways: tuple[model.Way, ...]
    why: str
    reread: bool
    judged: bool
    scaled: bool
    advice: tuple[str, ...] = ()
    plans: dict[tuple, Plan] = field(default_factory=dict)

    @property
    def growth(self) -> float:
        """Predicted RMS error relative to the classical algorithm: scheme and chunks together."""
        return self.ways[0].growth

    def need(self, M: int, N: int, K: int, added: bool) -> None:
        """Plan a product of chunks, which is added to something or not."""
        key = (M, N, K, added)
        known = 0 not in (M, N, K) and not isnan(M * N * K)
        if self.chunk is not None and known and key not in self.plans:
            self.plans[key] = _planned(key, self.operand, self.result, self.options, self.cluster)

    def __repr__(self) -> str:
        return f"<GridPlan {self.ways[0].label} of {' x '.join(map(str, self.grid.counts))} chunks>"

    def __str__(self) -> str:
        M, N, K = self.grid.sizes
        counts, on = self.grid.counts, self.cluster
        way = self.ways[0]
        name = "the plain grid" if self.scheme is None else f"{self.scheme.name} over the chunks"
        batch = prod(len(axis) for axis in self.grid.batch)
        memory = "not limited" if on.memory is None else model.text(on.memory)
        lines = [
            f"{M} x {K} @ {K} x {N} {self.result}: {name}",
            f"  why        {self.why}",
            f"  chunks     {counts[0]} x {counts[1]}, {counts[2]} along K"
            + (f", {batch} in the batch" if batch > 1 else ""),
            f"  workers    {on.workers}, {on.slots} tasks at once, {on.threads} threads each, "
            f"memory {memory}; {', '.join(on.kernels) or 'kernels not known'}",
            f"  tasks      {way.tasks}; {self.steps[0]} products each, "
            f"{'read' if self.reread else 'given'} their chunks",
            f"  growth     {way.growth:.2f} x classical RMS error",
            f"  predicted  {way.total:.3g} s, {model.text(way.moved)} moved",
        ]
        if self.chunk is not None:
            lines.append("  a chunk    " + str(self.chunk).replace("\n", "\n             "))
        return "\n".join(lines + [f"  advice     {x}" for x in self.advice])

    def explain(self, most: int = 8) -> str:
        """Return the plan, and the table of what was compared: seconds by stage, and why it lost.

        Parameters
        ----------
        most : int
            Rows of the table.
        """
        rows = [model.TITLES, *map(model.cells, self.ways[:most])]
        return f"{self}\n\n{format_table(rows)}"


@takes_options(*KEYWORDS)
def plan(
    x: Any,
    y: Any,
    *,
    dtype: npt.DTypeLike | None = None,
    block_scheme: str | Scheme = "auto",
    reread: bool = False,
    **options: Unpack[CallOptions],
) -> GridPlan:
    """Decide how `falcon.dask.matmul` would multiply, without multiplying.

    The bandwidth between workers is measured, once per set of workers.

    Parameters
    ----------
    x, y : dask.array.Array
    dtype, block_scheme, reread
        As for `falcon.dask.matmul`.
    {options}

    Returns
    -------
    GridPlan
        Printable, with `GridPlan.explain`.

    Raises
    ------
    ValueError, TypeError, RuntimeError
        As `falcon.dask.matmul`.

    Examples
    --------
    >>> import dask.array as da, falcon
    >>> x = da.ones((4096, 4096), chunks=2048)
    >>> falcon.dask.plan(x, x, block_scheme="strassen").growth >= 2
    True
    """
    x, y = operands(x=x, y=y)
    return decided("plan", x, y, None, dtype, block_scheme, reread, options)


def operands(**named: Any) -> list[Any]:
    """Return Dask arrays; a NumPy array, or a list of numbers, becomes a single chunk."""
    for name, x in named.items():
        named[name] = da.asanyarray(x)
        if not isinstance(named[name], da.Array):
            raise TypeError(f"{name} is a {type(x).__name__}; expected a Dask array")
    return list(named.values())


def is_foreign(x: Any) -> bool:
    """Whether its chunks are arrays that falcon does not know."""
    return type(x._meta) is not np.ndarray and not is_on_gpu(x._meta)


def decided(
    function: str,
    x: Any,
    y: Any,
    c: Any,
    dtype: Any,
    block_scheme: Any,
    reread: bool,
    keywords: Any,
) -> GridPlan:
    """Plan ``x y + c``; parameters as for `falcon.dask.gemm`."""
    grid = Grid.of(x, y)
    arrays = {name: a for name, a in (("x", x), ("y", y), ("c", c)) if a is not None}
    options = requested(function, KEYWORDS, keywords)
    if options.check == "verify":
        raise ValueError("check='verify' needs whole matrices; use falcon.dask.verify(x, y, c)")
    on = current(options.threads)
    if len(on.kernels) > 1 and options.arithmetic == "auto":
        options = replace(options, arithmetic="native")  # what all workers can run
    operand = result = chunk = None
    if all(type(a._meta) is np.ndarray for a in arrays.values()):
        metas = {name: a._meta for name, a in arrays.items()}
        result = result_type(NUMPY, metas, dtype)
        operand = operand_type(NUMPY, [x._meta, y._meta], result, options)
    else:
        for name, kind in ((name, type(a._meta)) for name, a in arrays.items() if is_foreign(a)):
            raise TypeError(f"{name} has chunks of {kind.__name__}; expected NumPy or CuPy arrays")
        result = of(np.dtype(dtype or np.result_type(*(a.dtype for a in arrays.values()))))
    sizes = model.sizes_of(grid, x, y, result)
    steps = model.steps_of(sizes, on, reread)
    largest = tuple(max(axis, key=lambda p: p.size) for axis in grid.batch)
    rows = max(grid.rows(largest, i) for i in range(len(grid.x[-2])))
    biggest = rows, max(grid.y[-1]), max(p.size for p in grid.K)
    product = 0.0
    if operand is not None and 0 not in biggest and not any(map(isnan, biggest)):
        key = (*biggest, False)
        most = _MOST_FRUGAL if reread else _FRUGAL
        options, chunk = _frugal(key, operand, result, options, on, most)
        product = predicted(chunk).total
    growth = 1.0 if chunk is None else chunk.growth
    way = model.plain(sizes, product, steps, growth, on, reread)
    found = GridPlan(
        *(grid, operand, result, options, on, chunk, None, steps, (way,), "", reread, False, False),
        advice=() if isnan(sizes.c) else tuple(model.advice(grid, x, y, result, on, reread, sizes)),
    )
    return _chosen(found, block_scheme, sizes, result)


def _chosen(found: GridPlan, asked: Any, sizes: model.Sizes, result: DType) -> GridPlan:
    """Return the plan with the scheme over the chunks that is asked for, or the best."""
    if isinstance(asked, str) and asked not in ("auto", "classical"):
        asked = schemes.get(asked)
    if not isinstance(asked, str | Scheme):
        raise TypeError(f"block_scheme is {asked!r}; expected a name or a Scheme")
    if asked == "classical":
        return replace(found, why="block_scheme='classical' was requested")
    reason = _why_plain(found, result)
    if isinstance(asked, Scheme):
        reason = reason or why_not(found.grid, asked, result)
        if reason:
            raise ValueError(f"block_scheme {asked.name!r} cannot run: {reason}")
        named = _with(found, asked, sizes, result, scaled=False)
        return replace(named, why="the scheme was requested by name, and runs without scaling")
    biggest = found.chunk.problem if found.chunk is not None else None
    if not reason and biggest and min(biggest.M, biggest.N, biggest.K) < model.LEAST_CHUNK:
        reason = f"sums of chunks gain nothing below {model.LEAST_CHUNK} rows and columns"
    if reason:
        return replace(found, why=reason)
    options = [
        x.scheme
        for x in scheme_candidates().all
        if x.outer is None
        and max(x.scheme.format) <= _MOST_PARTS
        and x.rms_growth <= found.options.max_growth
        and (x.is_integral or not result.is_exact)
        and not why_not(found.grid, x.scheme, result)
    ]
    if not options:
        return replace(found, why="no scheme divides the grid of chunks")
    tried = [_with(found, x, sizes, result, scaled=not result.is_exact) for x in options]
    tried.sort(key=lambda x: x.ways[0].total)
    return _best(found, tried)


def _best(plain: GridPlan, tried: list[GridPlan]) -> GridPlan:
    """Return the plain grid, or the first scheme that gains enough and has the memory."""
    on, base = plain.cluster, plain.ways[0]
    refused, best = [], None
    for x in tried:
        (way,) = x.ways
        room = None if on.memory is None else model.SHARE * on.memory * on.workers
        why = f"{way.total / base.total:.2f} x as long as the choice"
        if room is not None and way.memory > room:
            why = f"would hold more than {model.text(room)}"
        elif way.total <= _GAIN * base.total and best is None:
            best = x
            continue
        elif best is None:
            why = f"gains less than {100 * (1 - _GAIN):.0f} %"
        refused.append(replace(way, refused=why))
    if best is None:
        return replace(plain, ways=(base, *refused), why="no scheme is predicted to gain enough")
    gain = base.total / best.ways[0].total
    lost = replace(base, refused=f"{gain:.2f} x as long as the choice")
    return replace(
        best,
        ways=(*best.ways, lost, *refused),
        why=f"predicted {gain:.2f} x as fast as the plain grid",
    )


def _with(
    found: GridPlan, scheme: Scheme, sizes: model.Sizes, result: DType, scaled: bool
) -> GridPlan:
    """Return the plan by a scheme; the chunks' own keeps what it leaves of `max_growth`."""
    options, judged = found.options, not result.is_exact
    judged = judged and (scaled or options.check != "none")
    outer = 1.0 if result.is_exact else scheme.rms_growth
    options = replace(options, max_growth=max(1.0, options.max_growth / outer))
    assert found.chunk is not None  # `_why_plain`
    p = found.chunk.problem
    chunk = _planned((p.M, p.N, p.K, False), result, result, options, found.cluster)
    way = model.of_scheme(
        sizes, scheme, predicted(chunk).total, outer * chunk.growth, found.cluster, judged
    )
    return replace(
        found, options=options, operand=result, chunk=chunk, scheme=scheme, ways=(way,), plans={},
        judged=judged, scaled=scaled,
    )  # fmt: skip


def _why_plain(found: GridPlan, result: DType) -> str:
    """Return why no scheme may run over these chunks; empty if one may."""
    if found.chunk is None:
        return "the arrays are empty, of unknown sizes, or a GPU's"
    if found.grid.batch or found.grid.dropped:
        return "it multiplies matrices, no batches and vectors"
    if result.accumulator is not result:
        return f"sums of {result} would be rounded to {result} before they are multiplied"
    return ""


def why_not(grid: Grid, scheme: Scheme, result: DType) -> str:
    """Return why a scheme does not fit the chunks; empty if it does."""
    if result.is_exact and not scheme.is_integral:
        return "it has fractions, the matrices integers"
    if grid.x[-1] != grid.y[-2]:
        return "x's columns and y's rows are cut differently: rechunk one of them"
    for name, sizes, parts in zip(
        ("x's rows", "K", "y's columns"), (grid.x[-2], grid.x[-1], grid.y[-1]), scheme.format,
        strict=True,
    ):  # fmt: skip
        if len(sizes) % parts:
            return f"{name} are {len(sizes)} chunks, no multiple of {parts}"
        length = len(sizes) // parts
        first, last = sizes[:length], sizes[-length:]
        same = all(sizes[at : at + length] == first for at in range(0, len(sizes) - length, length))
        if not same or last[:-1] != first[:-1] or last[-1] > first[-1]:
            return f"the {parts} blocks of {name} are not cut alike"
    return ""


def _planned(
    key: tuple[int, int, int, bool], operand: DType, result: DType, options: Options, on: Cluster
) -> Plan:
    """Plan a product of two chunks by the speeds of this machine, with the workers' threads."""
    *sizes, added = key
    problem = Problem.of(
        (sizes[0], sizes[1], sizes[2]), operand, options,
        result=result, buffered=added, out_overlaps_c=added, a_strided=True, b_strided=True,
    )  # fmt: skip
    return plan_for(replace(problem, threads=on.threads), options)


def _frugal(
    key: tuple[int, int, int, bool],
    operand: DType,
    result: DType,
    options: Options,
    on: Cluster,
    most: float,
) -> tuple[Options, Plan]:
    """Return the plan of least workspace that takes at most `most` as long, and its options."""
    made = _planned(key, operand, result, options, on)
    if options.workspace_limit is not None:
        return options, made
    for limit in (2**power for power in range(24, 48)):
        fits = limit >= made.workspace
        less = options if fits else replace(options, workspace_limit=limit)
        found = made if fits else _planned(key, operand, result, less, on)
        enough = on.room is None or 2 * limit <= on.room * model.WORKSPACE
        if fits or not enough or predicted(found).total <= most * predicted(made).total:
            return less, found
    return options, made
