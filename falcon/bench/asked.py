"""What the command line asks for: dtypes, shapes, cases that fit in memory; and a progress bar."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from falcon._core.dtypes import of

from . import workloads
from .system import describe_machine
from .workloads import WORKLOADS, Case, Shape


def dtypes(options: argparse.Namespace) -> list[str]:
    """Return the dtypes of ``--dtype``, separated by commas; [] means those of each workload."""
    return [_dtype(x) for x in (options.dtype or "").split(",") if x.strip()]


def _dtype(name: str) -> str:
    try:
        return of(name.strip()).name
    except TypeError as error:
        raise ValueError(f"--dtype {name.strip()!r}: {error}") from None


def peer_cases(options: argparse.Namespace, sides: int) -> list[Case]:
    """Return the cases of a run against peers that fit in memory with a result per side."""
    asked, given = dtypes(options), given_shapes(options)
    cases = [Case("given", shape, x) for shape in given for x in asked or ["float32"]]
    usual = "quick" if options.quick else "squares"
    for name in options.workload or ([] if given else [usual]):
        workload = WORKLOADS[name]
        cases += [Case(name, y, x) for x in asked or workload.dtypes for y in workload.shapes()]
    cases = list({case.key: case for case in cases}.values())
    return that_fit(cases, options.max_gib or _half_of_memory(), sides)


def _half_of_memory() -> float:
    return (describe_machine()["memory"] or 8 * 2**30) / 2**31


def given_shapes(options: argparse.Namespace) -> list[Shape]:
    """Return the shapes that were given by sizes or by a model's name."""
    shapes = workloads.parse_shapes(options.sizes)
    shapes += [workloads.parse_shape(text) for text in options.shape or ()]
    for model in options.model or ():
        shapes.extend(workloads.model_shapes(model, options.tokens))
    return shapes


def that_fit(cases: list[Case], limit: float, results: int) -> list[Case]:
    """Drop cases that need more GiB than `limit` for A, B, `results` results, and workspaces."""
    kept = []
    for case in cases:
        x = case.shape
        elements = x.M * x.K + x.K * x.N + results * x.M * x.N
        gib = 2 * elements * of(case.dtype).itemsize / 2**30
        if gib <= limit:
            kept.append(case)
        else:
            print(f"skipped {x.label or 'shape'} {x.M} x {x.N} x {x.K}: about "
                  f"{gib:.1f} GiB > --max-gib {limit:g}", file=sys.stderr)  # fmt: skip
    if not kept:
        raise ValueError("no shape is left to measure")
    return kept


@contextmanager
def progress(total: float, unit: str | None) -> Iterator[Any]:
    """Show a progress bar on a terminal; without a unit, it counts guessed seconds."""
    from tqdm import tqdm

    seconds = "{percentage:3.0f} %|{bar}| {elapsed} < {remaining}  {desc}"
    with tqdm(total=total, unit=unit or "s", leave=False, disable=not sys.stderr.isatty(),
              bar_format=None if unit else seconds) as bar:  # fmt: skip
        yield bar
