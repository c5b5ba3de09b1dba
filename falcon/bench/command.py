"""``python -m falcon bench`` and ``report``: arguments, and what each way of measuring prints."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from falcon._core.dtypes import of
from falcon._core.options import thread_count

from . import workloads
from .workloads import WORKLOADS, Case, Shape

# Of a run that its time budget ended: not a failure, but not complete either.
INCOMPLETE = 3
_QUICK_SECONDS = 170.0
_SECTIONS = ("peers", "own")


def add_bench(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `bench`, but for those that `plan` has too."""
    what = parser.add_argument_group("what to measure")
    what.add_argument("--model", action="append", help="layers of a language model (repeatable)")
    what.add_argument("--tokens", type=int, default=2048, help="M for --model (default 2048)")
    what.add_argument("--shape", action="append", metavar="M,N,K", help="a shape (repeatable)")
    what.add_argument("--workload", action="append", choices=WORKLOADS,
                      help="shapes for --peers (repeatable; default squares)")  # fmt: skip
    what.add_argument("--max-gib", type=float, help="skip shapes whose matrices need more memory "
                      "(default 4; with --peers half of the memory)")  # fmt: skip
    how = parser.add_argument_group("which measurement (default: falcon beside NumPy)")
    kind = how.add_mutually_exclusive_group()
    kind.add_argument("--peers", action="store_true", help="falcon against every library, with "
                      "falcon's own stages, errors and crossover")  # fmt: skip
    kind.add_argument("--quick", action="store_true", help="the same in under 3 minutes")
    kind.add_argument("--list-peers", action="store_true", help="what the peers are here")
    kind.add_argument("--targets", action="store_true", help="the table of targets")
    kind.add_argument("--baking", action="store_true", help="generated C against interpreter")
    kind.add_argument("--peak", action="store_true", help="the multiply-add peak, measured")
    kind.add_argument("--schemes", action="store_true", help="the best scheme of every format "
                      "(or those of --scheme) at sizes --shape S: fastest first")  # fmt: skip
    kind.add_argument("--gpu", action="store_true", help="falcon, cuBLAS and torch on the GPU")
    kind.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"),
                      help="what changed between two record files")  # fmt: skip
    parser.add_argument("--large", action="store_true", help="with --targets: 8192 too")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5; "
                        "with --peers at least so many)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--csv", action="store_true", help="with --schemes: print CSV")
    run = parser.add_argument_group("a run of --peers or --quick")
    run.add_argument("-o", "--output", type=Path, metavar="FILE", help="the record file; a run "
                     "that was stopped goes on from FILE.part")  # fmt: skip
    run.add_argument("--fresh", action="store_true", help="discard FILE and FILE.part first")
    run.add_argument("--time-budget", type=float, metavar="S", help="stop after about S seconds "
                     f"(exit status {INCOMPLETE}); the same command goes on")  # fmt: skip
    run.add_argument("--case-seconds", type=float, default=60.0, metavar="S", help="more rounds "
                     "than --rounds only for so long (default 60)")  # fmt: skip
    run.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    run.add_argument("--only", choices=_SECTIONS, help="only falcon against the peers, or only "
                     "falcon's own stages, errors and crossover")  # fmt: skip


def add_report(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `report`."""
    parser.add_argument("results", type=Path, help="a record file of bench --peers")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR",
                        help="folder for index.html and the pictures")  # fmt: skip


def bench(options: argparse.Namespace, falcon_options: dict[str, Any]) -> int:
    """Run `bench` as asked for."""
    if options.tokens < 1 or options.rounds < 1:
        raise ValueError("--tokens and --rounds must be at least 1")
    if options.compare:
        from . import records

        print(records.changes(*(records.read(path) for path in options.compare)))
        return 0
    for name, run in (("targets", _targets), ("baking", _baking), ("peak", _peak),
                      ("list_peers", _list_peers), ("gpu", _gpu)):  # fmt: skip
        if getattr(options, name):
            return run(options)
    if options.schemes:
        from . import schemes

        return schemes.command(options)
    if options.peers or options.quick:
        return _peers(options, falcon_options)
    return _beside_numpy(options, falcon_options)


def report(options: argparse.Namespace) -> int:
    """Draw the pictures and write the page."""
    from . import records
    from .report import write

    print(write(records.read(options.results), options.output))
    return 0


# --- against every library -----------------------------------------------------------------------


def _peers(options: argparse.Namespace, falcon_options: dict[str, Any]) -> int:
    from tqdm import tqdm

    from . import records
    from .stream import Stream
    from .suite import Suite
    from .system import describe_machine

    spec = _spec(options, falcon_options)
    output: Path | None = options.output
    part = output.with_name(output.name + ".part") if output else None
    if options.fresh:
        for path in filter(None, (output, part)):
            path.unlink(missing_ok=True)
    if output and output.exists():
        print(f"{output} is complete; --fresh measures again", file=sys.stderr)
        found, complete = records.read(output), True
    else:
        stream = Stream(part, spec.header(describe_machine()))
        budget = options.time_budget or (_QUICK_SECONDS if options.quick else float("inf"))
        total = sum(spec.seconds(case) for case in spec.cases)
        total += sum(task.seconds for task in spec.tasks)
        done = {x.get("done") or x.get("task") for x in stream.lines}
        past = sum(spec.seconds(x) for x in spec.cases if x.key in done)
        past += sum(x.seconds for x in spec.tasks if x.key in done)
        with tqdm(total=round(total), initial=round(past), leave=False,
                  bar_format="{percentage:3.0f} %|{bar}| {elapsed} < {remaining}  {desc}",
                  disable=not sys.stderr.isatty()) as bar:  # fmt: skip

            def progress(seconds: float, word: str) -> None:
                bar.set_description_str(word, refresh=False)
                bar.update(seconds)
                bar.refresh()

            complete = Suite(spec, stream, time.monotonic() + budget, progress).run()
        found = records.document(stream)
        if output and part and complete:
            output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            part.unlink()
    _print_found(found, options, complete)
    wrong = any(not side["correct"] for x in found["cases"] for side in x["sides"].values())
    return 1 if wrong else 0 if complete else INCOMPLETE


def _print_found(found: dict[str, Any], options: argparse.Namespace, complete: bool) -> None:
    from . import records
    from .identify import Identity, format_identities

    if options.json:
        print(json.dumps(found, indent=1))
    else:
        known = [Identity(**{k: v for k, v in x.items() if k != "tried"}) for x in found["peers"]]
        print(f"{found['machine']['cpu']}, {found['threads']} threads\n")
        print(format_identities(known))
        if found["cases"]:
            print(f"\n{records.format_cases(found)}")
    for text in records.warnings(found):
        print(f"warning: {text}", file=sys.stderr)
    if not complete:
        how = "the same command goes on" if options.output else "with -o FILE it could go on"
        print(f"the time is up before the run is complete; {how}", file=sys.stderr)


def _spec(options: argparse.Namespace, falcon_options: dict[str, Any]) -> Any:
    from . import own
    from .peers import FALCON, FALCON_GPU, TABLE, falcon_peer
    from .suite import Spec

    threads = thread_count(options.threads)
    base = FALCON if options.device == "cpu" else FALCON_GPU
    settings = {k: v for k, v in falcon_options.items() if k != "threads" and v != "auto"}
    classical = {**settings, "scheme": "classical"}
    dtypes = tuple(_dtypes(options)) or workloads.BOTH
    own_kernels = all(of(x).engine is not None for x in dtypes) and _has_own_kernels()
    if options.device == "cpu" and own_kernels:
        classical.setdefault("backend", "cpu")
    sides = [
        falcon_peer("falcon", base=base, **settings),
        falcon_peer("falcon classical", base=base, **classical),
        *(peer for peer in TABLE if peer.device == options.device),
    ]
    cases = [] if options.only == "own" else _cases(options, len(sides))
    tasks = []
    if options.only != "peers" and options.device == "cpu":
        tasks = own.tasks(threads, dtypes[:1] if options.quick else dtypes, quick=options.quick)
    seconds = 10.0 if options.quick else options.case_seconds
    return Spec(cases, sides, tasks, threads, options.rounds, seconds)


def _has_own_kernels() -> bool:
    from falcon._front.info import backends

    return backends()["cpu"] == "available"


def _dtypes(options: argparse.Namespace) -> list[str]:
    """Return the dtypes asked for, separated by commas; none: each workload has its own."""
    names = [x.strip() for x in (options.dtype or "").split(",") if x.strip()]
    for name in names:
        try:
            np.dtype(name)
        except TypeError:
            raise ValueError(f"--dtype {name!r} is not a NumPy dtype") from None
    return [np.dtype(name).name for name in names]


def _cases(options: argparse.Namespace, sides: int) -> list[Case]:
    asked = _dtypes(options)
    given = _given_shapes(options)
    cases = [Case("given", shape, x) for shape in given for x in asked or ["float32"]]
    names = options.workload or ([] if given else ["quick" if options.quick else "squares"])
    for name in names:
        workload = WORKLOADS[name]
        cases += [
            Case(name, shape, x) for x in asked or workload.dtypes for shape in workload.shapes()
        ]
    cases = list({case.key: case for case in cases}.values())
    return _that_fit(cases, options.max_gib or _half_of_memory(), sides)


def _half_of_memory() -> float:
    from .system import describe_machine

    return (describe_machine()["memory"] or 8 * 2**30) / 2**31


def _given_shapes(options: argparse.Namespace) -> list[Shape]:
    shapes = [workloads.parse_shape(text) for text in options.shape or ()]
    for model in options.model or ():
        shapes.extend(workloads.model_shapes(model, options.tokens))
    return shapes


def _that_fit(cases: list[Case], limit: float, results: int) -> list[Case]:
    """Leave out what needs more GiB than `limit`: A, B, so many results, and workspaces."""
    kept = []
    for case in cases:
        x = case.shape
        elements = x.M * x.K + x.K * x.N + results * x.M * x.N
        gib = 2 * elements * np.dtype(case.dtype).itemsize / 2**30
        if gib <= limit:
            kept.append(case)
        else:
            print(f"skipped {x.label or 'shape'} {x.M} x {x.N} x {x.K}: about "
                  f"{gib:.1f} GiB > --max-gib {limit:g}", file=sys.stderr)  # fmt: skip
    if not kept:
        raise ValueError("no shape is left to measure")
    return kept


def _list_peers(options: argparse.Namespace) -> int:
    from .identify import format_identities, identify
    from .peers import FALCON, TABLE

    dtypes = _dtypes(options) or workloads.BOTH
    threads = thread_count(options.threads)
    found = [
        identify(peer, [x for x in dtypes if peer.multiplies(np.dtype(x))] or ["float32"], threads)
        for peer in (FALCON, *TABLE)
    ]
    if options.json:
        print(json.dumps([dataclasses.asdict(x) for x in found], indent=1))
    else:
        print(format_identities(found))
    return 0


# --- the other ways ------------------------------------------------------------------------------


def _beside_numpy(options: argparse.Namespace, falcon_options: dict[str, Any]) -> int:
    from tqdm import tqdm

    from . import table

    names = _dtypes(options) or ["float32"]
    if len(names) > 1:
        raise ValueError("--dtype takes several only with --peers")
    dtype = np.dtype(names[0])
    given = _given_shapes(options) or workloads.quick_shapes()
    cases = [Case("given", shape, dtype.name) for shape in given]
    kept = [case.shape for case in _that_fit(cases, options.max_gib or 4.0, 3)]
    records = []
    with tqdm(total=len(kept) * options.rounds * 3, unit="call", leave=False,
              disable=not sys.stderr.isatty()) as bar:  # fmt: skip
        for shape in kept:
            bar.set_description(f"{shape.M} x {shape.N} x {shape.K}")
            arguments = (shape, dtype, options.rounds, falcon_options, bar.update)
            records.append(table.run_shape(*arguments))
    found = table.document(records)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print(f"{found['cpu']}; numpy {found['numpy']} with {found['numpy_blas']}\n")
        print(table.format_records(records))
    return 0


def _targets(options: argparse.Namespace) -> int:
    from tqdm import tqdm

    from . import targets

    cases = targets.cases(None, large=options.large)
    total = options.rounds * sum(len(case.shapes) for case in cases)
    found = []
    with tqdm(total=total, unit="round", leave=False, disable=not sys.stderr.isatty()) as bar:
        threads = thread_count(options.threads)
        for outcome in targets.run(
            threads, options.rounds, large=options.large, tick=lambda: bar.update()
        ):
            found.append(outcome)
            bar.write(f"{outcome.title}: {outcome.ratio:.3f}", file=sys.stderr)
    if options.json:
        print(json.dumps([dataclasses.asdict(x) for x in found], indent=2))
    else:
        print(targets.format_outcomes(found))
    return 0


def _baking(options: argparse.Namespace) -> int:
    from tqdm import tqdm

    from falcon._cpu import baking

    shape = workloads.parse_shape((options.shape or ["2048,2048,2048"])[0])
    bar = tqdm(total=len(baking.SCHEMES), leave=False, disable=not sys.stderr.isatty())
    with bar:
        gains = baking.measure(shape.M, shape.N, shape.K, options.rounds, bar.update)
    print(baking.format_gains(gains))
    return 0


def _gpu(options: argparse.Namespace) -> int:
    from tqdm import tqdm

    from . import gpu

    shapes = _given_shapes(options) or [workloads.Shape(n, n, n) for n in (4096, 8192, 16384)]
    names = [x.strip() for x in (options.dtype or "float32").split(",")]
    keys = ("scheme", "max_growth", "workspace_limit")
    falcon_options = {key: getattr(options, key) for key in keys}
    records = []
    total = len(names) * len(shapes) * options.rounds
    with tqdm(total=total, unit="round", leave=False, disable=not sys.stderr.isatty()) as bar:
        for name in names:
            for shape in shapes:
                bar.set_description(f"{shape.M} x {shape.N} x {shape.K} {name}")
                call = (shape, name, options.rounds, falcon_options, lambda: bar.update())
                records.append(gpu.run_shape(*call))
    if options.json:
        print(json.dumps([dataclasses.asdict(x) for x in records], indent=2))
        return 0
    for name in names:
        print(gpu.format_records(x for x in records if x.dtype == name) + "\n")
    return 0


def _peak(options: argparse.Namespace) -> int:
    from falcon._cpu import peak

    found = peak.measure(thread_count(options.threads))
    if options.json:
        print(json.dumps([dataclasses.asdict(x) for x in found], indent=2))
    else:
        print(peak.format_peaks(found))
    return 0
