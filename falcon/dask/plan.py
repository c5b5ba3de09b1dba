"""`plan`: how the chunks of two arrays are multiplied, and how other chunks would help."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise, product
from math import ceil, isnan, prod
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
from dask.utils import format_bytes, format_time

from falcon import Plan
from falcon._front.surface import (
    KEYWORDS,
    NUMPY,
    CallOptions,
    DType,
    Options,
    Problem,
    dtype_of,
    is_on_gpu,
    plan_for,
    predicted,
    resolve_options,
    takes_options,
    typed,
)
from falcon._tools.lazy import lazy

from .cluster import Cluster, current_cluster
from .grid import Grid, Piece, is_foreign, operands

_SMALL_CHUNK, _LEAST_CHUNK = 512, 1024  # lines whose products cost no more than tasks; to take
_SHARE = 0.6  # of the memory, at which workers of distributed begin to write chunks to disk
_INPUTS = 0.25  # of a task's bytes, for the chunks that it reads
_WORKSPACE = 0.125  # of it, at most, for falcon's own buffers
_LEAST_WORKSPACE = 2**24
_PRODUCT = 2.5e-4  # seconds in Python for a product of two chunks, one at a time in a worker
_MINUTES = 600  # seconds, from which times are in minutes or more
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
    cluster : Cluster
        What is known of the workers.
    chunk : falcon.Plan or None
        Of the product of two (of the largest) chunks; None: a GPU's arrays, or unknown sizes.
    products : int
        Products along K that a task adds up.
    runs : int
        Parts of K that tasks add to different arrays.
    advice : tuple of str
        How other chunks would help.

    Examples
    --------
    >>> import dask.array as da, falcon
    >>> x = da.ones((40, 60), chunks=(20, 30))
    >>> falcon.dask.plan(x, x.T)
    <GridPlan of 2 x 2 x 2 chunks>
    """

    grid: Grid
    operand: DType | None  # in which chunks are multiplied; None: a GPU's arrays
    result: DType
    options: Options  # of the products of chunks
    cluster: Cluster
    chunk: Plan | None
    products: int
    runs: int
    reread: bool  # tasks make, or read, the chunks of x and y themselves
    adds_c: bool  # ``beta c`` is added to the product
    advice: tuple[str, ...]
    narrow: DType | None = None  # to which sums that fit it are converted at the end

    @property
    def checks(self) -> bool:
        """Whether integers that overflow raise."""
        return self.options.overflow != "wrap" and self.result.is_exact

    @property
    def growth(self) -> float:
        """Predicted RMS error relative to the classical algorithm."""
        return 1.0 if self.chunk is None else self.chunk.growth

    @lazy
    def steps(self) -> list[list[tuple[Piece, ...]]]:
        """Per run the tasks of a chunk of the result, per task the pieces of K that it adds up."""
        K, ends = self.grid.K, range(self.runs + 1)
        tasks = [K[at : at + self.products] for at in range(0, len(K), self.products)]
        return [tasks[a:b] for a, b in pairwise(len(tasks) * at // self.runs for at in ends)]

    def plans(self) -> dict[tuple, Plan]:
        """Plan all products of two chunks, by (M, N, K, whether it is added to something)."""
        if self.chunk is None or self.checks:
            return {}
        along_k = {
            (k.size, at > 0 or (run == 0 and self.adds_c))
            for run, steps in enumerate(self.steps)
            for at, k in enumerate(chain(*steps))
        }
        keys = product(self.grid.rows, set(self.grid.y[-1]), along_k)
        return {(M, N, *k): self.planned(M, N, *k) for M, N, k in keys if M and N and k[0]}

    def planned(self, M: int, N: int, K: int, added: bool) -> Plan:
        """Plan a product of two chunks by the speeds of this machine, with the workers' threads."""
        assert self.operand is not None
        problem = Problem.of_sizes(
            (M, N, K), self.operand, self.options, result=self.result,
            buffered=added, out_overlaps_c=added, threads=self.cluster.threads,
        )  # fmt: skip
        return plan_for(problem, self.options)

    def __dask_tokenize__(self) -> tuple:
        """Return what is decided: the same key of a task stands for the same bits."""
        chunk = pickle.dumps(self.chunk)
        exact = self.checks, str(self.narrow)
        return self.products, self.runs, self.reread, str(self.result), chunk, exact

    def __repr__(self) -> str:
        return f"<GridPlan of {' x '.join(map(str, self.grid.counts))} chunks>"

    def __str__(self) -> str:
        return self._above("" if self.chunk is None else str(self.chunk))

    def explain(self, most: int = 8) -> str:
        """Return the plan, and what was compared for a product of two chunks.

        Parameters
        ----------
        most : int
            Rows of the table, see `falcon.Plan.explain`.
        """
        return self._above("" if self.chunk is None else self.chunk.explain(most))

    def _above(self, chunk: str) -> str:
        """Return the grid, the workers, the tasks, and below them the product of two chunks."""
        (M, N, K), counts, on = self.grid.sizes, self.grid.counts, self.cluster
        batches = prod(map(len, self.grid.batch))
        tasks = self.grid.outputs * sum(map(len, self.steps))
        lines = [
            f"{M} x {K} @ {K} x {N} {self.result}, chunk by chunk",
            f"  chunks     {counts[0]} x {counts[1]}, {counts[2]} along K"
            + (f", {batches} in the batch" if batches > 1 else ""),
            f"  workers    {on.workers}, {on.slots} tasks at once, "
            f"{on.threads} thread{'s' * (on.threads != 1)} each, "
            f"memory {'not limited' if on.memory is None else format_bytes(on.memory)}; "
            f"{', '.join(on.kernels) or 'kernels not known'}",
            f"  tasks      {tasks}; {self.products} product{'s' * (self.products != 1)} each, "
            f"{'read' if self.reread else 'given'} their chunks",
            *([] if self.chunk is None else [f"  total      {self._total(tasks)}", self._memory()]),
            *(f"  advice     {x}" for x in self.advice),
        ]
        return "\n".join([*lines, "", chunk] if chunk else lines)

    def _total(self, tasks: int) -> str:
        """Return the time of all products, of the longest task at least, and what is read."""
        assert self.chunk is not None and self.operand is not None
        grid, read = self.grid, 0
        sides = (grid.x, grid.y[-1], self.operand.left), (grid.y, grid.x[-2], self.operand.right)
        for axes, others, kind in sides:
            read += prod(map(sum, axes)) * kind.numpy.itemsize * (len(others) if self.reread else 1)
        products = prod(map(sum, grid.chunks)) * grid.sizes[2] / prod(grid.largest)
        at_once = max(1, min(self.cluster.slots, tasks))
        most = max((sum(k.size for k in task) for task in chain(*self.steps)), default=0)
        longest = prod(map(max, grid.chunks)) * most / prod(grid.largest)
        seconds = predicted(self.chunk).total * max(products / at_once, longest)
        seconds += grid.outputs * len(grid.K) * _PRODUCT / self.cluster.workers
        time = f"{seconds:.{0 if seconds > 10 else 2}f} s"
        return (
            f"{time if seconds < _MINUTES else format_time(seconds)}, if workers are as fast as "
            f"this machine; {format_bytes(read)} of chunks are read"
        )

    def _memory(self) -> str:
        """Return the bytes that a task takes at most, and a worker: those of its tasks and share.

        The share is of x, y and the product, if they are kept by the workers.
        """
        assert self.chunk is not None and self.operand is not None
        grid, on, K = self.grid, self.cluster, len(self.grid.K)
        kinds = self.operand.left.numpy, self.operand.right.numpy, self.result.numpy
        sides = zip((grid.x, grid.y, grid.chunks), kinds, strict=True)
        sizes = [(axes, kind.itemsize) for axes, kind in sides]
        left, right, made = (prod(map(max, axes)) * size for axes, size in sizes)
        if self.reread:
            read = left + right + max(left, right)  # the one that is being read, twice
        else:  # of axes that are cut finer than the chunks, one chunk serves several products
            counts = (ceil(self.products * len(axis) / K) for axis in (grid.x[-1], grid.y[-2]))
            read = sum(n * size for n, size in zip(counts, (left, right), strict=True))
        is_added = self.adds_c or max(map(len, self.steps)) > 1
        task = read + made * (1 + is_added) + self.chunk.workspace
        kept = 0 if self.reread else sum(prod(map(sum, axes)) * size for axes, size in sizes)
        worker = ceil(on.slots / on.workers) * task + kept // on.workers
        return f"  memory     {format_bytes(task)} in a task, {format_bytes(worker)} in a worker"


@takes_options(*KEYWORDS)
def plan(
    x: Any,
    y: Any,
    *,
    dtype: npt.DTypeLike | None = None,
    reread: bool = False,
    **options: Unpack[CallOptions],
) -> GridPlan:
    """Decide how `falcon.dask.matmul` would multiply, without multiplying.

    Parameters
    ----------
    x, y : dask.array.Array
    dtype, reread
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
    >>> falcon.dask.plan(x, x, scheme="strassen").growth
    2.0
    """
    x, y = operands(x=x, y=y)
    return plan_product("plan", x, y, None, dtype, reread, options)


def plan_product(
    function: str, x: Any, y: Any, c: Any, dtype: Any, reread: bool, keywords: Any
) -> GridPlan:
    """Plan ``x y + c``; parameters as for `falcon.dask.gemm`."""
    grid = Grid.of(x, y, ("a", "b") if function == "gemm" else ("x", "y"))
    options = resolve_options(f"dask.{function}", KEYWORDS, keywords)
    if options.check == "verify":
        raise ValueError("check='verify' needs whole matrices; use falcon.dask.verify(x, y, c)")
    on = current_cluster(options.threads)
    if len(on.kernels) > 1 and options.arithmetic == "auto":
        options = replace(options, arithmetic="native")  # what all workers can run
    operand, result = _types(x, y, c, dtype, options)
    narrow, terms = None, grid.sizes[2]
    if operand and options.overflow != "wrap" and result.is_exact and len(grid.K) > 1:
        # Only the sums must fit.
        narrow, like = result, np.empty((0, 0), result.numpy)
        how = replace(options, overflow="widen"), 2**32 if isnan(terms) else terms
        operand, result = typed(NUMPY, {"x": like, "y": like}, None, None, *how)
    products, runs = _tasks(grid, x, y, result, on, reread)
    advice = tuple(_advice(grid, x, y, on, reread))
    made = GridPlan(grid, operand, result, options, on, None, products, runs, reread,
                    c is not None, advice, narrow)  # fmt: skip
    largest = grid.largest
    is_known = operand is not None and 0 not in largest and not isnan(prod(largest))
    return _frugal(made) if is_known else made


def _types(x: Any, y: Any, c: Any, dtype: Any, options: Options) -> tuple[DType | None, DType]:
    """Return the types of the operands (None: of a GPU's arrays) and of the result."""
    arrays = {name: a for name, a in (("x", x), ("y", y), ("c", c)) if a is not None}
    for name, a in arrays.items():
        if is_foreign(a):
            kind = type(a._meta).__name__
            raise TypeError(f"{name} has chunks of {kind}; expected NumPy or CuPy arrays")
    if any(is_on_gpu(a._meta) for a in arrays.values()):
        return None, dtype_of(
            np.dtype(dtype or np.result_type(*(a.dtype for a in arrays.values())))
        )
    metas = {name: a._meta for name, a in arrays.items()}  # those of x and y first
    K = x.shape[-1]
    terms = (2**32 if isnan(K) else max(K, 1)) if options.overflow == "widen" else 0
    return typed(NUMPY, metas, dtype, None, options, terms)


def _tasks(grid: Grid, x: Any, y: Any, result: DType, on: Cluster, reread: bool) -> tuple[int, int]:
    """Return the products along K that a task adds up, and the runs of tasks."""
    K, outputs = len(grid.K), grid.outputs
    runs = min(ceil(on.slots / outputs), K)
    products = ceil(K / runs)
    if on.task_bytes is not None and not reread:  # with reread=True it holds two chunks at a time
        # Bytes of average chunks, cut along K where either is.
        left = x.nbytes / x.npartitions * len(grid.x[-1]) / K
        right = y.nbytes / y.npartitions * len(grid.y[-2]) / K
        part = prod(map(sum, grid.chunks)) * result.itemsize / outputs
        fit = (_INPUTS * on.task_bytes - 2 * part) // max(left + right, 1)
        products = 1 if isnan(fit) else max(1, min(products, int(fit)))
    return products, min(runs, ceil(K / products))


def _frugal(plan: GridPlan) -> GridPlan:
    """Plan the largest product of two chunks, with least workspace that takes hardly longer."""
    largest, task_bytes = (*plan.grid.largest, False), plan.cluster.task_bytes
    chunk = plan.planned(*largest)
    most = (_MOST_FRUGAL if plan.reread else _FRUGAL) * predicted(chunk).total
    limit = _LEAST_WORKSPACE
    while plan.options.workspace_limit is None and limit < chunk.workspace:
        less = replace(plan, options=replace(plan.options, workspace_limit=limit))
        try:
            frugal = less.planned(*largest)
        except ValueError:  # residues need more
            limit *= 2
            continue
        is_last = task_bytes is not None and 2 * limit > task_bytes * _WORKSPACE
        if is_last or predicted(frugal).total <= most:
            return replace(less, chunk=frugal)
        limit *= 2
    return replace(plan, chunk=chunk)


def _advice(grid: Grid, x: Any, y: Any, on: Cluster, reread: bool) -> Iterator[str]:
    """Yield how other chunks would help; falcon never rechunks by itself."""
    for name, array in (("x", x), ("y", y)):
        largest = prod(map(max, array.chunks)) * array.dtype.itemsize
        if on.task_bytes is not None and largest > on.task_bytes / 8:
            side = max(256, int((on.task_bytes / 8 / array.dtype.itemsize) ** 0.5) // 256 * 256)
            smaller = f"{name}.rechunk({side})"
            if largest > on.task_bytes / 2:  # which `rechunk` would hold
                smaller = f"to read its file by chunks={side}, or to store it anew,"
            yield (
                f"chunks of {name} take {format_bytes(largest)}: {smaller} takes an eighth of the "
                f"{format_bytes(on.task_bytes)} of a task, and leaves room for the others"
            )
    small = min(max(s, default=0) for s in (grid.x[-2], grid.y[-1], [p.size for p in grid.K]))
    if 0 < small <= _SMALL_CHUNK and min(grid.sizes) >= _LEAST_CHUNK:
        yield f"chunks of {small} lines: products cost no more than tasks; take {_LEAST_CHUNK}"
    for name, sizes in (("x's rows", grid.x[-2]), ("y's columns", grid.y[-1])):
        if len(sizes) > 1 and max(sizes) > 2 * (least := min(sizes[:-1])) > 0:
            uneven = f"chunks of {name} have {least} to {max(sizes)} lines"
            yield f"{uneven}: workers wait for the largest; even ones share the work"
    if grid.x[-1] != grid.y[-2] and min(len(grid.x[-1]), len(grid.y[-2])) > 1:
        yield "x's columns and y's rows are cut differently: chunks are cut again in the tasks"
    held, memory = x.nbytes + y.nbytes, None if on.memory is None else on.memory * on.workers
    if memory is not None and not reread and held > _SHARE * memory:
        how = "reread=True lets tasks read them from files"
        yield f"operands take {format_bytes(held)} of the workers' {format_bytes(memory)}: {how}"
