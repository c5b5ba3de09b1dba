"""What is compared: cases, and the sides that each of them is measured with."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any

from falcon._backends import ENGINE
from falcon._core.dtypes import FLOAT32, dtype_of
from falcon._core.options import thread_count
from falcon._tools import timing

from . import records, workloads
from .system import describe_machine
from .workloads import Case, Shape

Say = Callable[[str], None]  # shows in a few words what is being done


@dataclass(frozen=True, slots=True)
class Side(timing.Side):
    """One side: how it is timed, and what ran."""

    # Called after all timings, with the median of the seconds. Returns a side's fields of the
    # record file: `error`, that of the last product, and what differs from `records.UNKNOWN`.
    about: Callable[[float], dict[str, Any]] = lambda _: {}


class SideError(RuntimeError):
    """A side failed; the others of the case are measured without it."""

    def __init__(self, side: str, why: str) -> None:
        super().__init__(side, why)
        self.side, self.why = side, why

    def __str__(self) -> str:
        return f"{self.side}: {self.why}"


@dataclass(slots=True)
class Prepared:
    """The sides of a case, ready to be timed; falcon first."""

    sides: list[Side]
    failed: dict[str, str] = field(default_factory=dict)  # those that are not: why
    note: str = ""  # what the sides have in common, in words


class Comparison:
    """Cases, and with which sides they are measured; a subclass for each of bench's options."""

    # Seconds in all, unless --time-budget says otherwise.
    budget = inf
    # With a file too it ends then, and what it has measured is the record.
    is_bounded = False
    # Most rounds, and calls per timing; None: as `interleave` chooses.
    most: int | None = None
    calls: int | None = None

    def __init__(
        self, options: argparse.Namespace, settings: dict[str, Any], cases: list[Case]
    ) -> None:
        self.cases = cases
        self.settings = settings  # keyword arguments of falcon.gemm
        self.threads = thread_count(options.threads)
        self.rounds, self.case_seconds = options.rounds, options.case_seconds

    def machine(self) -> dict[str, Any]:
        """Return a record file's entry of the machine."""
        return describe_machine()

    def identity(self, machine: dict[str, Any]) -> dict[str, Any]:
        """Return what must be the same when a run is resumed."""
        return {"machine": machine, "threads": self.threads, "rounds": self.rounds,
                "cases": [x.key for x in self.cases], "settings": str(self.settings)}  # fmt: skip

    @contextmanager
    def session(self, document: dict[str, Any], say: Say, seconds: float) -> Iterator[None]:
        """Add a session to a record file; what it needs is there within the block.

        `seconds`: about how long all of it may take.
        """
        document["sessions"].append(records.session())
        yield

    def sides(self, case: Case, say: Say) -> AbstractContextManager[Prepared]:
        """Make the operands of a case, and its sides."""
        raise NotImplementedError

    def is_lost(self) -> bool:
        """Whether all cases after one that failed would fail too."""
        return False


def own_classical(options: dict[str, Any], dtypes: Iterable[str]) -> dict[str, Any]:
    """Return `falcon.gemm`'s options for falcon's classical kernels; NumPy's where it has none."""
    classical = {**options, "scheme": "classical"}
    own = ENGINE.why_unavailable() is None and all(dtype_of(x).engine is not None for x in dtypes)
    own &= classical.get("arithmetic", "auto") in ("auto", "native")  # splits need tiles there
    if own and classical.get("backend", "auto") == "auto":
        classical["backend"] = ENGINE.name
    return classical


# --- what the command line asks for --------------------------------------------------------------


def dtypes(options: argparse.Namespace) -> list[str]:
    """Return the dtypes of ``--dtype``, separated by commas; [] means those of each workload."""
    names = []
    for name in filter(None, map(str.strip, (options.dtype or "").split(","))):
        try:
            names.append(dtype_of(name).name)
        except TypeError as error:
            raise ValueError(f"--dtype {name!r}: {error}") from None
    return names


def given_shapes(options: argparse.Namespace) -> list[Shape]:
    """Return the shapes that were given by sizes or by a model's name."""
    shapes = workloads.parse_shapes(options.sizes)
    shapes += [workloads.parse_shape(text) for text in options.shape or ()]
    for model in options.model or ():
        for tokens in options.tokens:
            shapes.extend(workloads.model_shapes(model, tokens))
    return shapes


def cases(options: argparse.Namespace, usual: str) -> list[Case]:
    """Return the cases asked for, each once; those of the workload `usual` if no shape is given."""
    names, shapes = dtypes(options), given_shapes(options)
    chosen = [Case("given", shape, x) for shape in shapes for x in names or [FLOAT32.name]]
    for name in options.workload or ([] if shapes else [usual]):
        workload = workloads.WORKLOADS[name]
        chosen += [Case(name, y, x) for x in names or workload.dtypes for y in workload.shapes]
    return list(dict.fromkeys(chosen))


def that_fit(cases: list[Case], limit: float, results: int) -> list[Case]:
    """Drop cases that need more GiB than `limit` for A, B, `results` results, and workspaces."""
    kept = []
    for case in cases:
        x = case.shape
        elements = x.count * (x.M * x.K + x.K * x.N + results * x.M * x.N)
        gib = 2 * elements * dtype_of(case.dtype).itemsize / 2**30
        if gib <= limit:
            kept.append(case)
        else:
            print(f"skipped {x.label or 'shape'} {x.M} x {x.N} x {x.K}: about "
                  f"{gib:.1f} GiB > --max-gib {limit:g}", file=sys.stderr)  # fmt: skip
    if not kept:
        raise ValueError("no shape is left to measure")
    return kept
