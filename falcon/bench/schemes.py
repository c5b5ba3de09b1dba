"""Which schemes pay: effective GFLOP/s of the best schemes of every format, side by side.

Every scheme runs against falcon's own classical path of the same backend, in interleaved pairs, at
sizes that its format divides; ``python -m falcon bench --schemes`` prints the table or writes CSV.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import numpy as np

import falcon
from falcon._core.text import format_table
from falcon.schemes import Scheme, get, names

from .measure import interleave
from .workloads import Shape, operands

SIZES = (2048, 4096)


@dataclass(frozen=True, slots=True)
class Speed:
    """One scheme at one size: effective rates, and the median ratio of the pairs."""

    size: str
    scheme: str
    M: int
    K: int
    N: int
    gflops: float
    classical_gflops: float
    speedup: float


def best_names() -> list[str]:
    """Per format the stored scheme of the lowest rank with the fewest additions."""
    found: dict[tuple[int, int, int], Scheme] = {}
    for name in names():
        scheme = get(name)
        m, k, n = sorted(scheme.format)
        key = (scheme.rank, scheme.additions.reduced)
        held = found.get((m, k, n))
        if not scheme.is_classical and (
            held is None or key < (held.rank, held.additions.reduced)
        ):  # fmt: skip
            found[m, k, n] = scheme
    return [found[key].name for key in sorted(found)]


def shape_of(scheme: Scheme, size: int) -> Shape:
    """Multiply sizes near `size` that the format divides."""
    m, k, n = (max(1, round(size / x)) * x for x in scheme.format)
    return Shape(m, n, k, scheme.name)


def measure(
    chosen: Iterable[str],
    sizes: Sequence[int],
    rounds: int,
    dtype: np.dtype,
    backend: str = "cpu",
    threads: int | None = None,
    tick: Callable[[], None] | None = None,
) -> Iterator[Speed]:
    """Measure schemes one after the other, each against the classical path.

    Parameters
    ----------
    chosen : iterable of str
        Names of schemes.
    sizes : sequence of int
        About M = K = N.
    rounds : int
        Interleaved pairs per scheme and size.
    dtype : numpy.dtype
    backend : str
        A backend's name.
    threads : int, optional
    tick : callable, optional
        Called after every timing.
    """
    for size in sizes:
        for name in chosen:
            shape = shape_of(get(name), size)
            a, b = operands(shape, dtype, seed=size)
            out = np.empty((shape.M, shape.N), dtype)
            call = partial(falcon.gemm, a, b, out=out, backend=backend, threads=threads)
            sides: list[Callable[[], Any]] = [
                partial(call, scheme=scheme) for scheme in (name, "classical")
            ]
            pairs = interleave(sides, rounds, tick)
            gflop = 2e-9 * shape.M * shape.N * shape.K
            mine, other = (float(f"{gflop / pairs.median_seconds(side):.4g}") for side in (0, 1))
            ratio = round(pairs.ratio(0, 1), 4)
            yield Speed(str(size), name, shape.M, shape.K, shape.N, mine, other, ratio)


def to_csv(speeds: Iterable[Speed]) -> str:
    """Rows of a CSV file with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [x.name for x in fields(Speed)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(x) for x in speeds)
    return text.getvalue()


def format_speeds(speeds: Iterable[Speed]) -> str:
    """A table, the fastest of each size first."""
    rows = [("size", "scheme", "M x K x N", "GFLOP/s", "classical", "speed-up")]
    for x in sorted(speeds, key=lambda x: (int(x.size), -x.speedup)):
        rows.append((x.size, x.scheme, f"{x.M} x {x.K} x {x.N}", f"{x.gflops:.1f}",
                     f"{x.classical_gflops:.1f}", f"{x.speedup:.3f}"))  # fmt: skip
    return format_table(rows, left=3)


def command(options: argparse.Namespace) -> int:
    """Run ``bench --schemes``."""
    from tqdm import tqdm

    chosen = best_names() if options.scheme == "auto" else options.scheme.split(",")
    for name in chosen:
        get(name)  # an unknown one is an error before anything is measured
    sizes = [int(x) if str(x).isdecimal() else 0 for x in options.shape or SIZES]
    if min(sizes) < 1:
        raise ValueError(f"--shape {options.shape}: expected one size such as 2048 per --shape")
    dtype = np.dtype(options.dtype or "float32")
    backend = "cpu" if options.backend == "auto" else options.backend
    total = 2 * len(sizes) * len(chosen) * options.rounds
    with tqdm(total=total, unit="call", leave=False, disable=not sys.stderr.isatty()) as bar:
        found = list(
            measure(chosen, sizes, options.rounds, dtype, backend, options.threads,
                    lambda: bar.update())
        )  # fmt: skip
    print(to_csv(found) if options.csv else format_speeds(found), end="")
    return 0
