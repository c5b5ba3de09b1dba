"""Runs of the rank search: workers on threads, progress, checkpoints, finds on disk.

The C code releases the GIL, so threads use all cores; workers share only the list of finds.
Deadlines count the CPU time of each worker: a run that is paused or shares its cores searches as
much as one that has them alone.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from falcon._tools.files import read_file
from falcon.schemes.writing import to_json

from .catalogue.library import SLACK, SLACK_TO_IMPROVE, Library
from .improve import Improver
from .walk import families, masks
from .walk.masks import Format
from .walk.sums import calmest
from .worker import Find, Worker

CHECKPOINT = 3  # format of the file: raised when a state holds other things
CHECKPOINT_SECONDS = 60.0
SUMS = 24  # draws of each direct sum, as starts of an improvement


@dataclass
class Job:
    """What to search for.

    Attributes
    ----------
    dims : (m, k, n)
    rank : int or None
        Stop at a scheme of this rank; None searches until the time is over.
    minutes : float
        CPU time per worker.
    flips : int or None
        Stop every worker after so many flips instead: the run is then reproducible.
    seed, workers : int
    rings : {"both", "ternary", "mod2", "symmetric", "families", "reals"}
    scratch : bool
        Ignore the catalogue: begin at the classical algorithm, or with an objective at the
        folder's finds.
    folder : Path
        Finds and the checkpoint go there.
    objective : {None, "nnz", "growth", "additions"}
        None lowers the rank; otherwise schemes of rank `rank` (default: the lowest known) are
        improved.
    command : str
        How the run was called, for the record in each file.
    """

    dims: Format
    rank: int | None = None
    minutes: float = 10.0
    flips: int | None = None
    seed: int = 0
    workers: int = 1
    rings: str = "both"
    scratch: bool = False
    folder: Path = Path("discovered")
    objective: str | None = None
    command: str = ""

    @property
    def label(self) -> str:
        """The format, as in file names."""
        return "x".join(map(str, self.dims))


@dataclass
class Run:
    """A running job: its workers, and what they have found."""

    job: Job
    finds: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        job = self.job
        job.folder.mkdir(parents=True, exist_ok=True)
        # Improving "from scratch" begins at the finds of an earlier run.
        alone = job.scratch and job.objective is None
        library = Library(
            None if alone else job.folder,
            catalogue=not job.scratch,
            slack=SLACK if job.objective is None else SLACK_TO_IMPROVE,
        )
        self._known = library.rank(job.dims, sums=job.objective is not None)
        self.workers = [self._worker(library, number) for number in range(job.workers)]
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self.spent = [0.0] * job.workers
        # A find is better than what the search began with.
        self._best = self._known + job.scratch
        self._restore()

    def _worker(self, library: Library, number: int) -> Worker | Improver:
        job = self.job
        starts = library.starts(job.dims)
        varied = families.near(job.dims) if job.rings == "families" else []
        near = {form: library.varied(form) for form in varied}
        if job.objective is None:
            return Worker(job.dims, starts, job.seed, number, job.rings, job.rank, near)
        rank = self._rank
        wanted = rank if job.rings in ("reals", "families") else job.rank
        search = Worker(job.dims, starts, job.seed, number, job.rings, wanted, near)
        rng = random.Random(f"sums/{job.seed}/{number}")
        sources = [x for x in starts if x.kind in ("merge", "project")]
        drawn = [x(rng, False) for x in sources if x.kind == "merge" for _ in range(SUMS)]
        known = [terms for terms in library.schemes(job.dims) if len(terms) == rank]
        fresh = [terms for terms in drawn if len(terms) == rank]
        within = self._known < rank < max(map(len, drawn), default=0)
        within = within or (job.rings in ("reals", "families") and job.rank is not None)
        if not known and not fresh and not within:
            raise ValueError(
                f"no scheme of format {job.label} and rank {rank} is known, nor is there a sum of "
                "known ones to walk down from: search for one first (without --objective)"
            )
        return Improver(
            job.dims, known, search, job.objective, job.seed, number, fresh, sources, rank
        )

    @property
    def _rank(self) -> int:
        """The rank at which schemes are improved."""
        return self.job.rank or self._known

    @property
    def lowest(self) -> int:
        """The lowest rank of the format that is known, to this search or before it."""
        return min(self._known, self._best)

    @property
    def reached(self) -> bool:
        """Whether a scheme of the wanted rank is known."""
        return self.lowest <= (self.job.rank or self._known)

    @property
    def flips(self) -> int:
        """Accepted flips of all workers."""
        return sum(worker.flips for worker in self.workers)

    @property
    def seconds(self) -> float:
        """CPU time of the worker that has used most."""
        return max(self.spent)

    def search(self, tick: Callable[[Run], None] = lambda run: None) -> list[Path]:
        """Search until the rank is reached, the budget is spent or Ctrl-C; return the files.

        Raises
        ------
        KeyboardInterrupt
            After every find and the checkpoint have been written.
        """
        # Workers use all cores: BLAS gets one thread in each.
        with threadpool_limits(1, user_api="blas"):
            return self._search(tick)

    def _search(self, tick: Callable[[Run], None]) -> list[Path]:
        threads = [
            threading.Thread(target=self._work, args=(x,), daemon=True)
            for x in range(self.job.workers)
        ]
        for thread in threads:
            thread.start()
        written = time.monotonic()
        try:
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(0.5 / len(threads))
                tick(self)
                if time.monotonic() - written > CHECKPOINT_SECONDS:
                    self.checkpoint()
                    written = time.monotonic()
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
            self.checkpoint()
        if self._errors:
            raise self._errors[0]
        return self.finds

    def _work(self, number: int) -> None:
        try:
            self._loop(number)
        except BaseException as error:
            self._errors.append(error)
            self._stop.set()

    def _loop(self, number: int) -> None:
        job, worker = self.job, self.workers[number]
        began = time.thread_time() - self.spent[number]
        while not self._stop.is_set():
            if job.flips is None and self.spent[number] > 60 * job.minutes:
                return
            if job.flips is not None and worker.flips >= job.flips:
                return
            finds = worker.step()
            self.spent[number] = time.thread_time() - began
            for find in finds:
                self._found(find, number)
            reached = isinstance(worker, Worker) and worker.best <= (job.rank or 0)
            if reached:
                # A run bounded by flips goes on, so that its finds do not depend on timing.
                if job.flips is None:
                    self._stop.set()
                return

    def _found(self, find: Find, number: int) -> None:
        """Write a scheme that is new in this run; `Scheme` proves it first."""
        with self._lock:
            rank = len(find.terms)
            if not find.objective and rank >= self._best:
                return
            job = self.job
            suffix = (
                f"-{find.objective}-s{job.seed}w{number}" if find.objective else f"-s{job.seed}"
            )
            name = f"{job.label}:{rank}"
            terms, programs = calmest(find.terms, job.dims, find.programs)
            scheme = masks.scheme_of(terms, job.dims, name, self.origin(number))
            if programs:
                scheme = scheme.with_sums(dict(zip("UVW", programs, strict=True)))
            path = job.folder / f"{name.replace(':', '_')}{suffix}.json"
            _write(path, to_json(scheme))
            if path not in self.finds:
                self.finds.append(path)
            self._best = min(self._best, rank)

    def origin(self, number: int) -> str:
        """The record of a find: command, seed, worker and CPU time."""
        job = self.job
        return (
            f"falcon's own flip-graph search; {job.command}; seed {job.seed}, worker {number}, "
            f"{self.spent[number]:.0f} s of CPU time, {self.workers[number].flips:.2e} flips"
        )

    # --- checkpoints ------------------------------------------------------------------------

    @property
    def _checkpoint(self) -> Path:
        job = self.job
        rank = f"_{self._rank}" if job.rank or job.objective else ""
        task = f"-{job.objective}" if job.objective else ""
        return job.folder / f"{job.label}{rank}{task}-s{job.seed}.checkpoint"

    def _setting(self) -> dict[str, Any]:
        job = self.job
        return {"dims": list(job.dims), "seed": job.seed, "workers": job.workers,
                "rings": job.rings, "scratch": job.scratch, "objective": job.objective}  # fmt: skip

    def checkpoint(self) -> None:
        """Write the state of all workers after their last whole step."""
        states = [worker.saved for worker in self.workers]
        record = {"format": CHECKPOINT, "setting": self._setting(), "spent": self.spent,
                  "workers": states}  # fmt: skip
        _write(self._checkpoint, json.dumps(record, default=np.ndarray.tolist))

    def _restore(self) -> None:
        if not self._checkpoint.exists():
            return
        record = json.loads(read_file(self._checkpoint, 2**30))
        if record.get("format") != CHECKPOINT:
            raise ValueError(
                f"{self._checkpoint} was written by another version of falcon; delete it, "
                "or choose another --seed or --out"
            )
        if record["setting"] != self._setting():
            raise ValueError(
                f"{self._checkpoint} belongs to another search ({record['setting']}); "
                "delete it, or choose another --seed or --out"
            )
        for worker, state in zip(self.workers, record["workers"], strict=True):
            if state is not None:
                worker.restore(state)
                worker.saved = state  # in case the time is up before its first step
            if isinstance(worker, Worker):
                self._best = min(self._best, worker.best)
        self.spent = list(record["spent"])


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole: a reader never sees half of it."""
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


def progress_line(run: Run, *, ended: bool = False) -> str:
    """What progress says: ranks, and flips per second of CPU time and worker.

    When a search for a lower rank has `ended`, walks that stay above the lowest rank are left out.
    """
    rate = run.flips / max(sum(run.spent), 1e-9) / 1e6
    leader = min(run.workers, key=lambda worker: worker.standing)
    state = leader.describe()
    if run.job.objective is None:
        above = ended and leader.standing[0] > run.lowest
        walks = "" if above else f"; walks are at {state}"
        state = f"the lowest known rank is {run.lowest}{walks}"
    return f"{state}; {rate:.1f} million flips a second per core"
