"""`matmul` and `gemm` of Dask arrays: arguments, and the array that is returned."""

from __future__ import annotations

import logging
import pickle
from typing import Any, Unpack

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.array.routines import matmul as dask_matmul
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from falcon._front.surface import (
    KEYWORDS,
    NUMPY,
    CallOptions,
    check_added,
    check_scalar,
    resolve_options,
    takes_options,
    why_not_by_library,
)

from .graph import tasks_of
from .grid import is_foreign, matrices, operands
from .plan import GridPlan, plan_product
from .work import Work, mirrored, narrowed, whole

_log = logging.getLogger("falcon")
_advised: list[GridPlan] = []  # the first product whose chunks could be better, which is told


@takes_options(*KEYWORDS)
def matmul(
    x: Any,
    y: Any,
    *,
    dtype: npt.DTypeLike | None = None,
    reread: bool = False,
    **options: Unpack[CallOptions],
) -> Any:
    """Multiply Dask arrays as `numpy.matmul` does, chunk by chunk, lazily.

    Parameters
    ----------
    x, y : dask.array.Array, or what `dask.array.asanyarray` takes
        At least 1-D, of any chunks, which are never changed; a NumPy array or a list is a single
        chunk. Sizes of chunks may be unknown where x and y need not agree. Chunks of CuPy arrays
        are multiplied where they are.
    dtype : dtype, optional
        Of the result, as in `falcon.matmul`.
    reread : bool
        Every task makes the chunks of x and y itself, from files, one after another. It reads them
        several times and holds two at a time: for operands that do not fit the workers' memory.
    {options}

    Returns
    -------
    dask.array.Array
        Of the chunks of x's rows and y's columns.

    Raises
    ------
    ValueError
        Shapes do not match, chunk sizes are unknown, or `reread` is asked for arrays of
        which a chunk takes more than 16 tasks, or 1 MiB of the graph itself, or that are persisted.
    TypeError
        An operand is of a type that falcon does not multiply, or masked.
    ValueError, TypeError
        When it is computed: a chunk has another shape than its array states, or no such dtype.
    RuntimeError
        A worker has no falcon, or another version than this process.

    Notes
    -----
    The schemes of products are chosen here and travel to the workers, so that a task that is run
    again returns the same bits on workers with the same instruction set. `threads` are those of
    each task; by default the CPUs of a machine divided by the tasks that run there at once.

    Booleans are counted, as by `falcon.matmul`. Objects, and chunks of other libraries (sparse,
    pint), are passed to `dask.array.matmul`; with a scheme, backend or dtype, they raise TypeError.

    Examples
    --------
    >>> import dask.array as da, falcon
    >>> x = da.ones((40, 60), chunks=(20, 30))
    >>> falcon.dask.matmul(x, x.T).chunks
    ((20, 20), (20, 20))
    """
    x, y = operands(x=x, y=y)
    if _are_for_dask(x, y) and dtype is None:
        chosen = resolve_options("dask.matmul", KEYWORDS, options)
        if why_not_by_library(NUMPY, chosen) is None:
            return dask_matmul(x, y)
    counted = dtype is None is options.get("modulus") and x.dtype == y.dtype == np.bool_
    if counted or dtype is not None:
        dtype = np.int32 if counted else dtype
        x, y = (v.astype(np.uint8, casting="safe") if v.dtype == bool else v for v in (x, y))
    plan = plan_product("matmul", x, y, None, dtype, reread, options)
    made = _array("matmul", plan, x, y, None, 1, 0, options)
    return made.astype(bool) if counted else made


@takes_options(*KEYWORDS)
def gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    dtype: npt.DTypeLike | None = None,
    reread: bool = False,
    **options: Unpack[CallOptions],
) -> Any:
    """Multiply two matrices: ``alpha * a @ b + beta * c``, lazily.

    Parameters
    ----------
    a, b : dask.array.Array, shapes (M, K) and (K, N)
    c : dask.array.Array, shape (M, N), optional
        Its chunks are those of a's rows and b's columns. Read only where `beta` is not zero.
    alpha, beta : scalar
    dtype, reread
        As for `matmul`.
    {options}

    Returns
    -------
    dask.array.Array, shape (M, N)

    Raises
    ------
    ValueError, TypeError, RuntimeError
        As `matmul`; c has another shape or other chunks.

    Examples
    --------
    >>> import dask.array as da, falcon
    >>> x = da.ones((40, 40), chunks=20)
    >>> float(falcon.dask.gemm(x, x, x, alpha=2, beta=1)[0, 0].compute(scheduler="synchronous"))
    81.0
    """
    a, b = matrices(a=a, b=b)
    check_added(beta, c)
    if beta == 0:
        c = None
    if c is not None:
        (c,) = operands(c=c)
        wanted = (a.chunks[0], b.chunks[1])
        if not np.array_equal(c.shape, (a.shape[0], b.shape[1]), equal_nan=True):
            raise ValueError(f"c has shape {c.shape}; expected {(a.shape[0], b.shape[1])}")
        if c.chunks != wanted:
            raise ValueError(f"c has chunks {c.chunks}; expected c.rechunk({wanted})")
    plan = plan_product("gemm", a, b, c, dtype, reread, options)
    kind = plan.result.numpy
    p = plan.options.one_modulus
    is_exact = p is not None or plan.checks
    if is_exact and c is not None and not np.can_cast(c.dtype, kind):
        raise TypeError(f"c has dtype {c.dtype}; expected one that casts to the result's {kind}")
    named = ("alpha", alpha), ("beta", beta)
    alpha, beta = (check_scalar(*x, kind, p, plan.checks) for x in named)
    return _array("gemm", plan, a, b, c, alpha, beta, options)


@takes_options(*KEYWORDS)
def gram(
    x: Any, *, transpose: bool = False, reread: bool = False, **options: Unpack[CallOptions]
) -> Any:
    """Multiply a matrix by its own transpose, ``x.T @ x``, lazily, with half of the products.

    Parameters
    ----------
    x : dask.array.Array, shape (K, M)
        If it is complex, its conjugate transpose is meant.
    transpose : bool
        ``x @ x.T`` instead, of `x` of shape (M, K).
    reread
        As for `matmul`.
    {options}

    Returns
    -------
    dask.array.Array, shape (M, M)
        Exactly symmetric (Hermitian): chunks above the diagonal are those below it, mirrored.

    Raises
    ------
    ValueError, TypeError, RuntimeError
        As `matmul`.

    Examples
    --------
    >>> import dask.array as da, falcon
    >>> x = da.ones((40, 60), chunks=20)
    >>> float(falcon.dask.gram(x)[0, 50].compute(scheduler="synchronous"))
    40.0
    """
    (x,) = matrices(x=x)
    across = x.T.conj() if x.dtype.kind == "c" else x.T
    a, b = (x, across) if transpose else (across, x)
    plan = plan_product("gram", a, b, None, None, reread, options)
    made = _array("gram", plan, a, b, None, 1, 0, options, lower=True)
    name, count = f"{made.name}-mirrored", len(made.chunks[0])
    tasks: dict[Any, Any] = {}
    for i, j in np.ndindex(count, count):
        how = mirrored if i < j else whole
        at = (made.name, max(i, j), min(i, j))
        tasks[name, i, j] = at if i > j else (how, at)
    layers = HighLevelGraph.from_collections(name, tasks, dependencies=[made])
    return da.Array(layers, name, made.chunks, meta=made._meta, dtype=made.dtype)


def _are_for_dask(*arrays: Any) -> bool:
    """Whether objects or foreign arrays are among them, and no mask, which Dask would lose."""
    masked = any(isinstance(x._meta, np.ma.MaskedArray) for x in arrays)
    return not masked and any(x.dtype == object or is_foreign(x) for x in arrays)


def _array(
    function: str,
    plan: GridPlan,
    x: Any,
    y: Any,
    c: Any,
    alpha: Any,
    beta: Any,
    options: Any,
    lower: bool = False,
) -> Any:
    """Return the array that the tasks of a plan make."""
    if plan.advice and not _advised:
        _advised.append(plan)
        _log.warning("falcon.dask: %s (falcon.dask.plan says it each time)", plan.advice[0])
    vectors = tuple(axis for axis, v in ((-2, x), (-1, y)) if v.ndim == 1)
    x, y = x[None] if -2 in vectors else x, y[:, None] if -1 in vectors else y
    given = tuple(sorted((k, str(v)) for k, v in options.items()))
    name = f"falcon-{function}-{tokenize(x, y, c, alpha, beta, given, plan)}"
    key = f"{name}-plan"
    tasks = tasks_of(name, key, plan, x, y, c, beta, lower)
    kind, how, row = plan.result.numpy, dict(options), plan.operand
    kinds = () if row is None else (row.left.numpy, row.right.numpy, kind)
    if plan.options.modulus is not None or plan.checks:  # they are not cast
        kinds = x.dtype, y.dtype, kind
    if kinds:
        how.update(dtype=kind, threads=plan.cluster.threads)
        if "arithmetic" in plan.options.given or plan.options.arithmetic == "native":
            how.update(arithmetic=plan.options.arithmetic)  # a setting is for what it fits
        if plan.checks:
            how.update(overflow=plan.options.overflow)
    tasks[key] = Work(pickle.dumps(plan.plans()), kind, alpha, options=how, kinds=kinds)
    needed = [v for v in (x, y) if not plan.reread] + ([] if c is None else [c])
    layers = HighLevelGraph.from_collections(name, tasks, dependencies=needed)
    like = (x if type(x._meta) is not np.ndarray else y)._meta
    made = da.Array(layers, name, plan.grid.chunks, meta=like, dtype=kind)
    if plan.narrow is not None and plan.narrow is not plan.result:
        made = made.map_blocks(narrowed, kind=plan.narrow.numpy, dtype=plan.narrow.numpy)
    return made.squeeze(axis=vectors) if vectors else made
