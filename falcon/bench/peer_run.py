"""Falcon against every library: ``bench --peers``, ``--quick``, ``--split``, ``--list-peers``."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import falcon
from falcon._core.options import thread_count

from . import asked, tables
from .here import own_classical
from .peers import BEST, FALCON, TABLE, falcon_peer, identify
from .run import Run, resume
from .suite import Spec, Suite
from .system import describe_machine
from .workloads import BOTH

_QUICK_SECONDS = 170.0
_QUICK_CASE_SECONDS = 6.0
_SPLIT_SIZES = (512, 1024, 2048, 4096)
# falcon's sides of --split, besides its choice and its classical kernel.
_SPLIT: dict[str, dict[str, Any]] = {
    "falcon native": {"arithmetic": "native"},
    "falcon bf16x6": {"arithmetic": "bf16x6", "scheme": "classical"},
    "falcon bf16x6 strassen": {"arithmetic": "bf16x6", "scheme": "strassen"},
    "falcon bf16x3": {"arithmetic": "bf16x3", "scheme": "classical", "max_growth": 16},
}


def run(options: argparse.Namespace, falcon_options: dict[str, Any]) -> int:
    """Measure what is asked for, or resume it; print it and keep it in a file."""
    spec = _spec(options, falcon_options)

    def measure(kept: Run) -> bool:
        budget = options.time_budget or (_QUICK_SECONDS if options.quick else float("inf"))
        total = sum(map(spec.seconds, spec.cases))
        with asked.progress(round(total), None) as bar:
            bar.update(total - sum(map(spec.seconds, kept.left(spec.cases))))

            def progress(seconds: float, word: str) -> None:
                bar.set_description_str(word, refresh=False)
                bar.update(seconds)
                bar.refresh()

            return Suite(spec, kept, progress).run(time.monotonic() + budget)

    show = _show_split if options.split else _show
    return resume(options, lambda: spec.asked(describe_machine()), measure, show)


def _show(found: dict[str, Any]) -> None:
    print(f"{found['machine']['cpu']}, {found['threads']} threads\n")
    print(tables.format_peers(found["peers"]))
    if found["cases"]:
        print(f"\n{tables.format_cases(found['cases'])}\n")
    for verdict in tables.verdicts(found):
        print(f"fastest, {verdict.group}: {verdict.winner()}")


def _show_split(found: dict[str, Any]) -> None:
    print(f"{found['machine']['cpu']}, {found['threads']} threads\n")
    print(tables.format_peers(found["peers"]))
    for case in found["cases"]:
        print(f"\n{case['M']} x {case['N']} x {case['K']}: falcon chose {tables.choice(case)}")
        print(tables.format_sides(case))


def _spec(options: argparse.Namespace, falcon_options: dict[str, Any]) -> Spec:
    settings = {k: v for k, v in falcon_options.items() if k != "threads" and v != "auto"}
    if options.split:
        if asked.dtypes(options) not in ([], ["float32"]):
            raise ValueError("--split multiplies float32; leave out --dtype")
        if not asked.given_shapes(options):
            options.sizes = [f"{n},{n},{n}" for n in _SPLIT_SIZES]
        options.dtype = "float32"
        settings = {k: v for k, v in settings.items() if k not in ("scheme", "arithmetic")}
    classical = own_classical(settings, asked.dtypes(options) or BOTH)
    packed = [falcon_peer("falcon packed", "falcon packed", **settings)] if options.packed else []
    sides = [falcon_peer("falcon", **settings), *packed,
             falcon_peer("falcon classical", **classical), *TABLE]  # fmt: skip
    if options.split:
        made = {"falcon classical": {**classical, "arithmetic": "native"}}
        made |= {name: {**settings, **how} for name, how in _SPLIT.items()}
        split = [falcon_peer(name, **how) for name, how in made.items() if _runs(how)]
        sides = [falcon_peer("falcon", **settings), *split, *TABLE]
    cases = asked.peer_cases(options, len(sides))
    seconds = _QUICK_CASE_SECONDS if options.quick else options.case_seconds
    return Spec(cases, sides, thread_count(options.threads), options.rounds, seconds)


def _runs(how: dict[str, Any]) -> bool:
    """Whether there are kernels for the settings: schemes of parts need AMX."""
    try:
        falcon.plan((2, 2), (2, 2), "float32", **how)
    except TypeError:
        return False
    return True


def list_peers(options: argparse.Namespace) -> int:
    """Print each library's version and kernels here, or how to install it."""
    dtypes, threads = asked.dtypes(options) or list(BOTH), thread_count(options.threads)
    found = [identify(peer, dtypes, threads) for peer in (FALCON, *TABLE)
             if BEST not in peer.environment.values()]  # fmt: skip
    print(json.dumps(found, indent=1) if options.json else tables.format_peers(found))
    return 0
