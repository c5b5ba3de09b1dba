"""Every kernel by itself, and the same bits with any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np

from falcon._core.cpus import usable_cpus
from falcon._core.dtypes import FLOAT32, FLOAT64
from falcon._cpu.each import Kernel
from falcon._numpy.threads import limited
from falcon.schemes import Scheme, get

from .exact import difference, fractions, held, norms, whole, wide
from .trial import Trial, sizes_of

# M, N, K: one entry; few rows of A; a product in one piece; several blocks of all, with edges;
# several slices of K, of which kernels take up to 1536 steps.
_BLOCKS = 131, 103, 97
_CLASSICAL = ((1, 1, 1), (3, 130, 67), (13, 17, 19), _BLOCKS, (37, 45, 1601))
_BY_SCHEME = ((31, 33, 35), _BLOCKS)
_ROUNDED = (67, 71, 601)
# More threads than these take products of more columns: a thread has at least 10^6 multiply-adds.
_THREADED, _THREADS = (307, 411, 523), 64


def of_isa(kernels: list[Kernel], trial: Trial) -> None:
    """Multiply by all kernels of an instruction set."""
    types = dict.fromkeys(str(x.operand) for x in kernels)
    trial.about = f"{len(types)} types" if len(types) > 2 else " and ".join(types)
    with limited(1):  # NumPy's BLAS, of which more threads than the one wait longer than they work
        for x in kernels:
            _kernel(trial, x)


def threads(kernels: list[Kernel], trial: Trial) -> None:
    """Multiply with 1, 2, all and more threads than CPUs: the bits are the same."""
    cpus = usable_cpus()
    counts = sorted({2, cpus, cpus + 3} - {1})
    M, N, K = _THREADED
    sizes = M, N * -(-counts[-1] // _THREADS), K
    trial.about = f"1, {', '.join(map(str, counts))}: the same bits"
    best = {x.operand: x for x in reversed(kernels)}
    for row in (FLOAT32, FLOAT64):
        x, (a, b) = best[row], fractions(sizes, row)
        for scheme in (None, get("strassen")):
            alone = x.product(a, b, scheme)
            for count in counts:
                where = _where(x, sizes, scheme) | {"threads": f"{count} threads"}
                trial.same(where, partial(x.product, a, b, scheme, threads=count), alone)


def _kernel(trial: Trial, x: Kernel) -> None:
    strassen = get("strassen")
    for rows, columns in product(range(1, x.mr + 1), range(x.vlen, x.nr + 1, x.vlen)):
        # All functions for what is left of a tile at the edges of C.
        _whole(trial, x, (x.mr + rows, x.nr + columns - 1, 33))
    for sizes in _CLASSICAL:
        _whole(trial, x, sizes)
    for sizes in _BY_SCHEME:
        _whole(trial, x, sizes, strassen)
    _whole(trial, x, _BLOCKS, is_turned=True)
    if x.operand.wide and x.operand.pair is None:
        _whole(trial, x, _BLOCKS, is_wide=True)
    if not x.operand.is_exact:
        for scheme in (None, strassen):
            _rounded(trial, x, _ROUNDED, scheme)


def _whole(
    trial: Trial,
    x: Kernel,
    sizes: tuple[int, int, int],
    scheme: Scheme | None = None,
    *,
    is_wide: bool = False,
    is_turned: bool = False,
) -> None:
    """Multiply whole numbers; turned: matrices that lie by columns, and are read by rows of B."""
    if scheme is not None and not x.can_run(scheme, wide=is_wide):
        return
    a, b, exact = whole(sizes, x.operand)
    if is_turned:
        a, b = (np.asfortranarray(v) for v in (a, b))
    result = x.result(wide=is_wide)
    call = _values(x, partial(x.product, a, b, scheme, wide=is_wide), is_wide)
    expected = held(exact, result)
    if not result.is_exact:
        expected = wide(expected, result)
    where = _where(x, sizes, scheme)
    if is_wide:
        where["result"] = f"to {result}"
    if is_turned:
        where["layout"] = "by columns"
    trial.same(where, call, expected)


def _rounded(trial: Trial, x: Kernel, sizes: tuple[int, int, int], scheme: Scheme | None) -> None:
    """Multiply random numbers; compare with more precision."""
    row = x.operand
    a, b = fractions(sizes, row)
    left, right = wide(a, row.left), wide(b, row.right)
    rows, columns = norms(left, 1), norms(right, 0)
    if scheme is not None:  # nothing is scaled: errors are relative to the largest
        rows, columns = np.full_like(rows, rows.max()), np.full_like(columns, columns.max())
    bound = x.relative_bound(sizes[2], scheme) * np.multiply.outer(rows, columns)
    trial.near(
        _where(x, sizes, scheme),
        _values(x, partial(x.product, a, b, scheme)),
        lambda c: np.abs(difference(c, left, right)) / bound,
    )


def _values(
    x: Kernel, call: Callable[[], np.ndarray], is_wide: bool = False
) -> Callable[[], np.ndarray]:
    """Return a call whose results are floats of 64 bits, or integers as they are."""
    result = x.result(wide=is_wide)
    return call if result.is_exact else lambda: wide(call(), result)


def _where(x: Kernel, sizes: tuple[int, int, int], scheme: Scheme | None) -> dict[str, str]:
    name = "classical" if scheme is None else scheme.name
    return {
        "kernel": x.name,
        "instruction set": x.isa,
        "type": str(x.operand),
        "sizes": sizes_of(sizes),
        "scheme": name,
    }
