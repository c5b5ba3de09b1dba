"""What ``python -m falcon discover`` does."""

from __future__ import annotations

import argparse
from pathlib import Path

from falcon._core.options import thread_count
from falcon._tools.progress import Progress

from .search import Job, Run, progress_line
from .walk.masks import Format


def main(options: argparse.Namespace, dims: Format) -> int:
    """Search for schemes of a format as the command line says; return the exit status."""
    _check(options, dims)
    job = Job(
        dims=dims,
        rank=options.rank,
        minutes=options.minutes,
        flips=options.flips,
        seed=options.seed,
        workers=thread_count(options.threads),
        rings=options.ring,
        scratch=options.scratch,
        objective=options.objective,
        folder=Path(options.out),
        command=_command(options, dims),
    )
    return _search(job)


def _search(job: Job) -> int:
    with Progress(f"{job.label}: reading known schemes"):
        run = Run(job)
    total = 60 * job.minutes if job.flips is None else job.flips
    unit = "s of CPU time per worker" if job.flips is None else "flips per worker"
    try:
        with Progress(f"{job.label}: first walks", total, unit) as progress:

            def tick(run: Run) -> None:
                progress.at(
                    min(total, run.seconds if job.flips is None else run.flips / job.workers)
                )
                progress.say(f"{job.label}: {progress_line(run)}")

            finds = run.search(tick)
    except KeyboardInterrupt:
        _report(run, run.finds)
        raise
    _report(run, finds)
    return 0 if job.rank is None or run.reached else 1


def _report(run: Run, finds: list[Path]) -> None:
    job = run.job
    if job.rank is not None and not run.reached:
        print(f"{job.label}: no scheme of rank {job.rank} was found; the lowest known rank is "
              f"{run.lowest}")  # fmt: skip
    print(f"{job.label}: {progress_line(run, ended=True)}, for {run.seconds:.1f} s of CPU time per "
          "worker")  # fmt: skip
    if job.rank is not None and run.reached and not finds:
        print(f"{job.label}: nothing new, rank {run.lowest} is known; --scratch begins without "
              "known schemes, --objective improves them")  # fmt: skip
    for path in finds:
        print(f"wrote {path}")


def _check(options: argparse.Namespace, dims: Format) -> None:
    m, k, n = dims
    if max(m * k, k * n, m * n) > 64:
        raise ValueError(f"format {m}x{k}x{n}: a factor has more than 64 entries")
    if not options.minutes > 0:  # also for NaN
        raise ValueError(f"--minutes is {options.minutes:g}; expected more than 0")
    if options.flips is not None and options.flips < 1:
        raise ValueError(f"--flips is {options.flips}; expected at least 1")
    if options.ring == "reals" and options.rank is None and options.objective is None:
        raise ValueError("--ring reals needs a --rank")
    if options.ring == "reals" and options.flips is not None:
        raise ValueError("--ring reals makes no flips at first; limit it by --minutes, not --flips")
    if options.rank is not None and not 1 <= options.rank <= m * k * n:
        raise ValueError(f"--rank is {options.rank}; expected 1 to {m * k * n}")


def _command(options: argparse.Namespace, dims: Format) -> str:
    parts = ["python -m falcon discover {} {} {}".format(*dims)]
    for name in ("rank", "objective", "flips"):
        if getattr(options, name) is not None:
            parts.append(f"--{name} {getattr(options, name)}")
    if options.flips is None:
        parts.append(f"--minutes {options.minutes:g}")
    parts.append(f"--seed {options.seed}")
    if options.ring != "both":
        parts.append(f"--ring {options.ring}")
    if options.scratch:
        parts.append("--scratch")
    return " ".join(parts)
