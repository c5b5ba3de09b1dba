"""`profile`: where a program multiplies, how long it takes, and what falcon gains there."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from types import CodeType
from typing import Any

import numpy as np

from falcon import Plan
from falcon._front.surface import by_numpy, has_product, observe, predicted
from falcon._tools.locks import ForkLock
from falcon._tools.text import format_table
from falcon._tools.uninterrupted import Block

# Frames of these do not ask for products: falcon's and NumPy's.
_OWN = tuple(f"{x}{os.sep}" for x in (Path(__file__).parents[1], Path(np.__file__).parent))
# Nor are frames of Python's library and of installed packages lines of the program.
_STANDARD = f"{sysconfig.get_path('stdlib')}{os.sep}", "<frozen"
_INSTALLED = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")
# Factors from which a gain counts as one, and by which times and predictions may differ; the share
# of the program's time that a product must take to be doubted.
_GAIN, _APART, _WORTH = 1.01, 1.5, 0.01

# A line that runs: its code, and its number in the file.
_Line = tuple[CodeType, int]


@dataclass(frozen=True, slots=True)
class Row:
    """The products of one kind at one place of a program."""

    place: str  # file and line of the program
    within: str  # the same of the installed package that called falcon or NumPy there; "": none
    problem: str  # shapes and dtype
    calls: int  # each product of a batch counts
    seconds: float  # of all calls, as they ran
    scheme: str  # that ran
    backend: str
    # What falcon and NumPy would take for all calls, by the cost model; None: it does not say.
    predicted: float | None
    numpy_seconds: float | None
    why: str  # the reason for the choice

    @property
    def gain(self) -> float | None:
        """NumPy's time over falcon's by the cost model; None: it does not say."""
        if not self.predicted or self.numpy_seconds is None:
            return None
        return self.numpy_seconds / self.predicted


@dataclass(frozen=True, slots=True)
class Missed:
    """Sums of one kind at one place that NumPy's loops computed, and falcon could have."""

    place: str  # as in `Row`
    within: str
    call: str  # np.einsum and its subscripts
    calls: int  # of at least a millisecond each
    seconds: float  # of all calls, as they ran


_of_all = ForkLock()  # one profile changes who is told at a time


class Profile(Block["Profile"]):
    """What `profile` returns: a context manager, then a table and a verdict; printable.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> with falcon.profile() as p:
    ...     c = falcon.matmul(np.ones((300, 400)), np.ones((400, 500)))
    >>> [(x.calls, x.scheme) for x in p.rows()]
    [(1, 'classical')]
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = ForkLock()
        # Calls and seconds by the line that asked, that of the program, and the product.
        self._found: dict[tuple[_Line, _Line, Plan, bool], list[float]] = {}
        self._missed: dict[tuple[_Line, _Line, str], list[float]] = {}
        self._began: float | None = None
        self._past = 0.0

    def start(self) -> None:
        """Begin to count, in all threads."""
        with _of_all.lock:
            self._leave()
            self._began = perf_counter()
            observe.observers = (*observe.observers, self._see)
            observe.of_misses = (*observe.of_misses, self._miss)

    def stop(self) -> None:
        """Stop counting."""
        with _of_all.lock:
            self._leave()

    def _leave(self) -> None:
        observe.observers = tuple(x for x in observe.observers if x != self._see)
        observe.of_misses = tuple(x for x in observe.of_misses if x != self._miss)
        self._past, self._began = self.seconds, None

    def begin(self, _: object) -> Profile:
        """Begin to count in a block."""
        self.start()
        return self

    def end(self, _: object) -> None:
        """Stop counting at the end of a block."""
        self.stop()

    @property
    def seconds(self) -> float:
        """Seconds between start and stop."""
        return self._past + (0.0 if self._began is None else perf_counter() - self._began)

    def _see(self, plan: Plan, seconds: float, count: int) -> None:
        self._count(self._found, (*_lines(sys._getframe(2)), plan, count > 1), count, seconds)

    def _miss(self, subscripts: Any, seconds: float) -> None:
        if isinstance(subscripts, str) and has_product(subscripts):
            key = *_lines(sys._getframe(2)), subscripts
            self._count(self._missed, key, 1, seconds)

    def _count(self, among: dict[Any, list[float]], key: Any, calls: int, seconds: float) -> None:
        with self._lock.lock:
            found = among.setdefault(key, [0, 0.0])
            found[0] += calls
            found[1] += seconds

    def missed(self) -> list[Missed]:
        """Return sums that ran in NumPy's loops while `falcon.accelerate` was on, as `rows`."""
        with self._lock.lock:
            found = list(self._missed.items())
        rows = [
            Missed(*_places(asked, line), f"np.einsum({text!r})", int(calls), seconds)
            for (asked, line, text), (calls, seconds) in found
        ]
        return sorted(rows, key=lambda x: -x.seconds)

    def rows(self) -> list[Row]:
        """Return what was counted, the most time first (``pandas.DataFrame(p.rows())``)."""
        with self._lock.lock:
            found = list(self._found.items())
        alike: dict[tuple, list] = {}  # plans of operands that lie otherwise in memory
        for (asked, line, plan, is_batch), counted in found:
            key = *_places(asked, line), str(plan.problem.single), plan.label, plan.backend.name
            alike.setdefault(key, []).append((plan, is_batch, *counted))
        rows = []
        for (place, within, problem, scheme, backend), some in alike.items():
            told = [x for x in map(_predictions, some) if x is not None]
            mine, numpy = (None, None)
            if len(told) == len(some):
                mine, numpy = map(sum, zip(*told, strict=True))
            why = "a batch in one call" if some[-1][1] else some[-1][0].why
            rows.append(Row(
                place, within, problem, int(sum(x[2] for x in some)), sum(x[3] for x in some),
                scheme, backend, mine, numpy, why,
            ))  # fmt: skip
        return sorted(rows, key=lambda x: -x.seconds)

    def verdict(self) -> str:
        """Say what the program gains, where, and why not elsewhere; before it what to doubt."""
        rows, seconds = self.rows(), self.seconds
        known = [(x, x.gain) for x in rows if x.gain is not None]
        if not known:
            return "no product can be compared with NumPy's"
        gain = 1 + sum(x.seconds * (of_row - 1) for x, of_row in known) / seconds
        said = f"this program gains about {gain:.2f} x, by the cost model (to measure it: time the "
        said += "program with and without falcon)"
        most, of_most = max(known, key=lambda pair: pair[0].seconds * (pair[1] - 1))
        if of_most >= _GAIN:
            said += f"; most of it in {_short(most.place)} ({of_most:.2f} x)"
        without: dict[str, list[str]] = {}
        for x, of_row in known:
            if of_row < _GAIN:
                without.setdefault(x.why, []).append(_short(x.place))
        for why, places in list(without.items())[:3]:
            where = ", ".join(dict.fromkeys(places[:3])) + " ..." * (len(places) > 3)
            said += f"; no gain in {where} ({why})"
        share = min(sum(x.seconds for x in rows) / seconds, 1)
        return "\n".join([*self._doubts(rows), f"{said}; products take {share:.0%} of its time"])

    def _doubts(self, rows: Iterable[Row]) -> list[str]:
        """Say where times and predictions are apart the most."""
        found = []
        for x in rows:
            if x.seconds < _WORTH * self.seconds or not x.predicted:
                continue
            text = f"{x.seconds:.3g} s measured, {x.predicted:.3g} s predicted"
            apart = max(x.seconds, x.predicted) / min(x.seconds, x.predicted)
            found.append((apart, f"{_short(x.place)}: {text}"))
        found = sorted((x for x in found if x[0] > _APART), reverse=True)
        if not found:
            return []
        more = f", and {len(found) - 1} more like it" if len(found) > 1 else ""
        why = "a busy machine, first calls in new memory, or wrong rates (python -m falcon tune)"
        return [f"warning: {found[0][1]}{more}: {why}"]

    def __str__(self) -> str:
        rows = self.rows()
        missed = "\n".join(
            f"{_short(x.place)}: {x.calls} calls of {x.call} in NumPy's loops, {x.seconds:.3g} s: "
            "write @ or falcon.einsum"
            for x in self.missed()
        )
        if not rows:
            return missed or "falcon saw no product"
        table: list[tuple[str, ...]] = [
            ("place", "calls", "seconds", "falcon's", "NumPy's", "gain", "scheme")
        ]
        about = []
        for x in rows:
            both = ("-" if y is None else f"{y:.3f}" for y in (x.predicted, x.numpy_seconds))
            gain = "-" if x.gain is None else f"{x.gain:.2f}"
            counted = str(x.calls), f"{x.seconds:.3f}", *both, gain
            table.append((_short(x.place), *counted, x.scheme))
            within = f", in {_short(x.within, 44)}" if x.within else ""
            about.append(f"  {x.problem}{within}\n  on {x.backend}: {x.why}")
        head, *lines = format_table(table).splitlines()
        body = "\n".join(f"{x}\n{y}" for x, y in zip(lines, about, strict=True))
        note = "seconds of all calls: as they ran, then falcon's and NumPy's by the cost model\n"
        note += "gain: NumPy's over falcon's, predicted"
        lines = self.verdict().splitlines()
        verdict = "\n".join(textwrap.fill(x, 100, break_on_hyphens=False) for x in lines)
        return "\n\n".join(filter(None, (f"{head}\n{body}\n{note}", missed, verdict)))


def _predictions(counted: tuple[Plan, bool, float, float]) -> tuple[float, float] | None:
    """Return seconds of falcon and of NumPy for all calls; None: the model knows no batches."""
    plan, is_batch, calls, _ = counted
    numpy = None if is_batch or plan.options.modulus else by_numpy(plan)
    if numpy is None:
        return None
    mine = numpy if _is_numpy(plan) else predicted(plan)
    return calls * mine.total, calls * numpy.total


def _is_numpy(plan: Plan) -> bool:
    """Whether falcon leaves a product to NumPy's BLAS, and so gains nothing by definition."""
    method = plan.method
    plain = method.is_classical and method.arithmetic is None
    on_host = plan.problem.device is None
    return on_host and plan.backend.is_library and plain and not plan.parts


def _lines(frame: Any) -> tuple[_Line, _Line]:
    """Return the line that asked falcon or NumPy, and that of the program."""
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    asked, caller = (frame.f_code, frame.f_lineno), frame
    while caller is not None and _is_library(caller.f_code.co_filename):
        caller = caller.f_back
    return asked, asked if caller is None else (caller.f_code, caller.f_lineno)


def _places(asked: _Line, line: _Line) -> tuple[str, str]:
    """Return file and line of the program, and of the package that asked there."""
    first, other = (f"{x[0].co_filename}:{x[1]}" for x in (line, asked))
    return first, "" if asked == line else other


@cache
def _is_library(file: str) -> bool:
    """Whether a file is no part of the program that is profiled."""
    return file.startswith((*_OWN, *_STANDARD)) or _INSTALLED.match(file) is not None


def _short(place: str, most: int = 32) -> str:
    """Return a place without the folder of installed packages, or the current one."""
    place = _INSTALLED.sub("", place).removeprefix(f"{Path.cwd()}{os.sep}")
    return place if len(place) <= most else f"...{place[3 - most :]}"


def profile() -> Profile:
    """Count the products that run on falcon, by the place in the program that asks for them.

    Returns
    -------
    Profile
        ``with falcon.profile() as p: ...; print(p)``; `p.rows()` has the same for a DataFrame, and
        `p.verdict()` says what the block gains.

    Notes
    -----
    With `falcon.accelerate`, products by NumPy's functions are counted too, but for those that are
    too small for falcon, and `p.missed()` has those of np.einsum without ``optimize``, which it
    does not reach. A counted call takes some 20 microseconds longer: it is not repeated from
    memory. Products that a GPU runs are timed until they are queued, and not compared.

    Gains are those of the cost model, prediction against prediction. That of the block is
    ``1 + sum(seconds (gain - 1)) / time``: what its time would be with NumPy in place of falcon.

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
