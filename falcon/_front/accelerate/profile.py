"""`profile`: where a program multiplies, how long it takes, and what falcon gains there."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from operator import mul
from pathlib import Path
from threading import Lock
from types import CodeType
from typing import Any

import numpy as np

from falcon._core import observe
from falcon._core.plan import Plan
from falcon._core.text import format_table

from ..plan import numpy_seconds

# Frames of these are not the user's.
_OWN = str(Path(__file__).parents[2]), str(Path(np.__file__).parent)


@dataclass(frozen=True, slots=True)
class Row:
    """The products of one kind at one place of a program."""

    place: str  # file and line that called falcon or NumPy
    problem: str  # shapes and dtype
    calls: int  # each product of a batch counts
    seconds: float  # of all calls
    scheme: str  # that ran
    backend: str
    # What NumPy would take for all calls, by the cost model; None if it is not predicted.
    numpy_seconds: float | None
    why: str  # the reason for the choice


class Profile:
    """What `profile` returns: a context manager, then a table; printable.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> with falcon.profile() as p:
    ...     c = falcon.matmul(np.ones((300, 400)), np.ones((400, 500)))
    >>> [(x.calls, x.scheme) for x in p.rows()]
    [(1, 'classical')]
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: dict[tuple[CodeType, int, Plan], list[float]] = {}

    def start(self) -> None:
        """Begin to count, in all threads."""
        observe.observers = (*observe.observers, self._see)

    def stop(self) -> None:
        """Stop counting."""
        observe.observers = tuple(x for x in observe.observers if x != self._see)

    def __enter__(self) -> Profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _see(self, plan: Plan, seconds: float, count: int) -> None:
        frame: Any = sys._getframe(2)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
            frame = frame.f_back
        key = frame.f_code, frame.f_lineno, plan
        with self._lock:
            found = self._found.get(key)
            if found is None:
                found = self._found[key] = [0, 0.0]
            found[0] += count
            found[1] += seconds

    def rows(self) -> list[Row]:
        """Return what was counted, the most time first (``pandas.DataFrame(p.rows())``)."""
        with self._lock:
            found = list(self._found.items())
        alike: dict[tuple, list] = {}  # plans of operands that lie otherwise in memory
        for (code, line, plan), counted in found:
            key = f"{code.co_filename}:{line}", str(plan.problem), plan.label, plan.backend.name
            alike.setdefault(key, []).append((plan, *counted))
        rows = []
        for (place, problem, scheme, backend), some in alike.items():
            plans, calls, seconds = zip(*some, strict=True)
            each = [numpy_seconds(x) for x in plans]
            told = None if None in each else sum(map(mul, each, calls))
            about = scheme, backend, told, plans[-1].why
            rows.append(Row(place, problem, int(sum(calls)), sum(seconds), *about))
        return sorted(rows, key=lambda x: -x.seconds)

    def __str__(self) -> str:
        rows = self.rows()
        table = [("place", "product", "calls", "seconds", "NumPy", "gain", "scheme", "backend", "")]
        for x in rows:
            numpy = "-" if x.numpy_seconds is None else f"{x.numpy_seconds:.3f}"
            gain = "-" if not x.numpy_seconds else f"{x.numpy_seconds / x.seconds:.2f}"
            counted = str(x.calls), f"{x.seconds:.3f}", numpy, gain
            table.append((_short(x.place), x.problem, *counted, x.scheme, x.backend, x.why))
        if not rows:
            return "falcon saw no product"
        told = "NumPy: seconds that it would take, by the cost model"
        return f"{format_table(table, left=2)}\n{told}"


def _short(place: str) -> str:
    return place if len(place) <= 40 else f"...{place[-37:]}"


def profile() -> Profile:
    """Count the products that run on falcon, by the place in the program that asks for them.

    Returns
    -------
    Profile
        ``with falcon.profile() as p: ...; print(p)``; `p.rows()` has the same for a DataFrame.

    Notes
    -----
    With `falcon.accelerate`, products by NumPy's functions are counted too, but for those that are
    too small for falcon. A counted call takes some 20 microseconds longer: it is not repeated from
    memory. Products that a GPU runs are timed until they are queued.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> a = np.ones((300, 300))
    >>> with falcon.profile() as p:
    ...     c = falcon.matmul(a, a)
    >>> p.rows()[0].calls
    1
    """
    return Profile()
