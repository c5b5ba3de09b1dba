"""Falcon against every library: ``bench --peers``, ``--quick``, ``--targets``, ``--list-peers``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from typing import Any

from falcon._core.dtypes import of
from falcon._core.options import thread_count
from falcon._front.info import backends

from . import asked, own, records, tables
from .identify import Identity, format_identities, identify
from .peers import FALCON, FALCON_GPU, TABLE, falcon_peer
from .run import Run
from .suite import Spec, Suite
from .system import describe_machine
from .workloads import BOTH

# Exit status of a run that its time budget ended: not a failure, but not complete either.
INCOMPLETE = 3
_QUICK_SECONDS = 170.0
_QUICK_CASE_SECONDS = 6.0


def run(options: argparse.Namespace, falcon_options: dict[str, Any]) -> int:
    """Measure what is asked for, or resume it; print it and keep it in a file."""
    spec = _spec(options, falcon_options)
    output, part = asked.files(options)
    if output and output.exists():
        print(f"{output} is complete; --fresh measures again", file=sys.stderr)
        found, complete = records.read(output), True
    else:
        kept = Run(part, spec.asked(describe_machine()))
        budget = options.time_budget or (_QUICK_SECONDS if options.quick else float("inf"))
        parts = {x.key: spec.seconds(x) for x in spec.cases}
        parts |= {x.key: x.seconds for x in spec.tasks}
        with asked.progress(round(sum(parts.values())), None) as bar:
            bar.update(sum(seconds for key, seconds in parts.items() if key in kept.done))

            def progress(seconds: float, word: str) -> None:
                bar.set_description_str(word, refresh=False)
                bar.update(seconds)
                bar.refresh()

            complete = Suite(spec, kept, time.monotonic() + budget, progress).run()
        found = kept.found
        if output and part and complete:
            output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            part.unlink()
    _print(found, options, complete)
    wrong = any(not side["correct"] for x in found["cases"] for side in x["sides"].values())
    return 1 if wrong else 0 if complete else INCOMPLETE


def _print(found: dict[str, Any], options: argparse.Namespace, complete: bool) -> None:
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        known = [Identity(**{k: v for k, v in x.items() if k != "tried"}) for x in found["peers"]]
        print(f"{found['machine']['cpu']}, {found['threads']} threads\n")
        print(format_identities(known))
        if found["cases"]:
            print(f"\n{tables.format_cases(found['cases'])}\n")
        for verdict in tables.verdicts(found):
            print(f"fastest, {verdict.group}: {verdict.winner()}")
    for doubt in tables.doubts(found):
        print(f"warning: {doubt.text}", file=sys.stderr)
    if not complete:
        how = "the same command resumes it" if options.output else "with -o FILE it could resume"
        print(f"the time is up before the run is complete; {how}", file=sys.stderr)


def _spec(options: argparse.Namespace, falcon_options: dict[str, Any]) -> Spec:
    threads = thread_count(options.threads)
    base = FALCON if options.device == "cpu" else FALCON_GPU
    settings = {k: v for k, v in falcon_options.items() if k != "threads" and v != "auto"}
    classical = {**settings, "scheme": "classical"}
    dtypes = tuple(asked.dtypes(options)) or BOTH
    own_kernels = all(of(x).engine is not None for x in dtypes) and backends()["cpu"] == "available"
    if options.device == "cpu" and own_kernels:
        classical.setdefault("backend", "cpu")
    sides = [
        falcon_peer("falcon", base=base, **settings),
        falcon_peer("falcon classical", base=base, **classical),
        *(peer for peer in TABLE if peer.device == options.device),
    ]
    if options.targets:
        sides.insert(1, falcon_peer("falcon packed", "falcon packed", **settings))
    cases = [] if options.only == "own" else asked.peer_cases(options, len(sides))
    tasks = []
    if options.only != "peers" and options.device == "cpu" and not options.targets:
        quick = dtypes[:1] if options.quick else dtypes
        tasks = list(own.tasks(threads, quick, quick=options.quick))
    seconds = _QUICK_CASE_SECONDS if options.quick else options.case_seconds
    return Spec(cases, sides, tasks, threads, options.rounds, seconds)


def list_peers(options: argparse.Namespace) -> int:
    """Print each library's version and kernels here, or how to install it."""
    dtypes = asked.dtypes(options) or BOTH
    threads = thread_count(options.threads)
    found = [
        identify(peer, [x for x in dtypes if peer.multiplies(of(x).numpy)] or ["float32"], threads)
        for peer in (FALCON, *TABLE)
    ]
    if options.json:
        print(json.dumps([dataclasses.asdict(x) for x in found], indent=1))
    else:
        print(format_identities(found))
    return 0
