"""The one way in which all comparisons are measured, kept in a file, and shown."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from math import inf
from pathlib import Path
from textwrap import fill
from typing import Any

from falcon._tools.files import read_file, write_json
from falcon._tools.progress import Progress
from falcon._tools.timing import interleave

from . import records, summary, tables
from .compare import Comparison, Say, SideError
from .workloads import Case

# Exit status of a run that its time budget ended: not a failure, but not complete either.
INCOMPLETE = 3
# What a case takes at least, in rounds: operands and warm-up take about as long as two more.
_LEAST_ROUNDS = 3


class Run:
    """The results so far, in `document`, which becomes the record file, and on disk.

    `path`: the unfinished file, which is rewritten after every case. A file of another run is
    refused. None keeps the results in memory only.
    Raises ValueError: the file holds another run, or no run at all.
    """

    def __init__(self, path: Path | None, what: Comparison) -> None:
        self.path, self.what = path, what
        # Cases that the time budget ended before their least number of rounds, or left out.
        self.cut, self.left_out = 0, 0
        machine = what.machine()
        # As JSON stores it, to be compared with that in the file.
        self._identity = json.loads(json.dumps(what.identity(machine)))
        self.failed: list[str] = []
        self.document = records.empty(machine, what.threads)
        if path is None or not path.exists():
            return
        try:
            held = json.loads(read_file(path))
            self.document, self.failed = held["document"], held["failed"]
            identity = held["identity"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} is not a run of falcon bench") from None
        if identity != self._identity:
            raise ValueError(
                f"{path} was begun with other cases, peers or settings; resume with the same "
                "arguments, or delete it"
            )

    def left(self) -> list[Case]:
        """Return the cases that are not measured yet, those that failed last."""
        done = {x["key"] for x in self.document["cases"]}
        left = [x for x in self.what.cases if x.key not in done]
        return sorted(left, key=lambda x: x.key in self.failed)

    def measure(self, seconds: float) -> bool:
        """Measure what is left, at least one case; return whether all of it succeeded.

        `seconds`: with a file, no case is begun after them, as the run can be resumed; without one,
        or bounded, each case has an equal share of those that are left, and is left out where one
        round of it is expected to take longer than all that is left.
        """
        left, end, complete = self.left(), time.monotonic() + seconds, True
        alone = self.path is None or self.what.is_bounded
        largest, pace = 0.0, 0.0  # operations of the largest case, and seconds of a round for each
        if not left:
            return True
        try:
            with (
                Progress("", len(left), "cases") as progress,
                self.what.session(self.document, progress.say, seconds if alone else inf),
            ):
                for at, case in enumerate(left):
                    begun = time.monotonic()
                    least = _LEAST_ROUNDS * pace * case.shape.flops if alone else 0.0
                    if at and begun + least > end:
                        complete = False
                        if not alone:
                            break
                        self.left_out += 1
                        continue
                    share = (end - begun) / (len(left) - at) if alone else inf
                    try:
                        entry = self._case(case, begun + share, progress.say)
                        self.document["cases"].append(entry)
                        if case.shape.flops > largest:
                            largest = case.shape.flops
                            pace = sum(x["median"] for x in entry["sides"].values()) / largest
                    except (MemoryError, RuntimeError) as error:  # of a library, or a device
                        progress.print(f"warning: {case.key} failed: {error}", sys.stderr)
                        complete = False
                        self.failed.append(case.key)
                        if self.what.is_lost():
                            break
                    finally:
                        self.save()
                    progress.step()
        finally:
            self.save()
        return complete

    def _case(self, case: Case, end: float, say: Say) -> dict[str, Any]:
        """Measure the sides of a case in turn, without those that fail; return its entry.

        `end`: when it ends, if it had one round.
        """
        what, round_ = self.what, count(1)

        def next_round(_: Any = None) -> None:
            say(f"{case.key}, round {next(round_)}")

        with what.sides(case, say) as ready:
            sides, measured = ready.sides, None
            while measured is None:
                if not sides or records.FALCON in ready.failed:  # no table without falcon
                    raise RuntimeError("; ".join(ready.failed.values()))
                limit = end - time.monotonic()
                next_round()
                try:
                    measured = interleave(
                        sides, what.rounds, most=what.most, calls=what.calls, limit=limit,
                        seconds=min(what.case_seconds, limit), seed=case.seed,
                        after_round=next_round,
                    )  # fmt: skip
                except SideError as error:
                    ready.failed[error.side] = str(error)
                    sides = [x for x in sides if x.name != error.side]
            self.cut += len(measured[0].seconds) < what.rounds
            by_name = {x.name: x for x in measured}
            about = {x.name: x.about(by_name[x.name].median) for x in sides}
        sessions = [len(self.document["sessions"]) - 1]
        return records.case_entry(
            case, measured, about, sessions=sessions, note=ready.note, failed=ready.failed
        )

    def save(self) -> None:
        """Replace the file as a whole."""
        if self.path is not None:
            held = {"identity": self._identity, "document": self.document, "failed": self.failed}
            write_json(self.path, held)


def run(what: Comparison, options: argparse.Namespace) -> int:
    """Measure a comparison, or what is left of it; show it and keep it in a file.

    `options`: with `output`, the record file, `time_budget` and `json`.
    Returns int: the exit status: 1 for a wrong result or a case that failed, `INCOMPLETE`, or 0.
    """
    output: Path | None = options.output
    part = output.with_name(output.name + ".part") if output else None
    if output and output.exists():
        print(f"{output} is complete; delete it to measure again", file=sys.stderr)
        return _show(records.read(output), options)
    kept, budget, cases = Run(part, what), options.time_budget or what.budget, len(what.cases)
    try:
        with _ended_as_interrupted():
            complete = kept.measure(budget)
    except KeyboardInterrupt:
        done = len(kept.document["cases"])
        print(f"stopped: {done} of {cases} cases are complete", file=sys.stderr)
        if done:
            _show(kept.document, options)
        raise
    ends = complete or (what.is_bounded and not kept.failed)
    if output and part and ends:
        write_json(output, kept.document)
        part.unlink()
    failed = bool({x.key for x in kept.left()}.intersection(kept.failed))  # which has been said
    if failed and not kept.document["cases"]:
        return 1
    said = []
    if kept.cut:
        said.append(f"{kept.cut} of {cases} cases have fewer rounds, and wider intervals")
    if kept.left_out:
        said.append(f"{kept.left_out} are left out")
    if said:
        said = [f"to end in {budget:g} s (--time-budget): {'; '.join(said)}"]
    if not ends:
        how = "the same command resumes it" if output else "with -o FILE it could resume"
        said.append(f"the run is not complete; {how}")
    return _show(kept.document, options, said) or int(failed) or (0 if complete else INCOMPLETE)


@contextmanager
def _ended_as_interrupted() -> Iterator[None]:
    """Let SIGTERM, as of the command `timeout`, do what Ctrl-C does, unless it does something."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _show(document: dict[str, Any], options: argparse.Namespace, said: Sequence[str] = ()) -> int:
    """Print a record file, or its tables, and warnings; return 1 if a result is wrong.

    `said`: what is to be known of the run. The answer is the last line.
    """
    covered = summary.covers(document) and not options.json
    if options.json:
        print(json.dumps(document, indent=1))
    elif covered and not options.details:
        print(f"{tables.describe_machine(document)}\n")
        print(summary.format_summary(document["cases"]))
    else:
        print(tables.text(document))
    sys.stdout.flush()
    wrong, others = tables.doubts(document)
    for line in [*(f"warning: {x}" for x in (*wrong, *others)), *said]:
        print(fill(line, 100, break_on_hyphens=False), file=sys.stderr)
    sys.stderr.flush()
    if covered:
        print(f"\n{summary.answer(document)}")
    return int(any(not side["correct"] for x in document["cases"] for side in x["sides"].values()))
