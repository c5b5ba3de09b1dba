"""``python -m falcon bench`` and ``report``: arguments, and what each way of measuring prints."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from falcon._core.options import thread_count
from falcon._core.timing import LEAST_PAIRS

from . import asked, workloads
from .workloads import WORKLOADS, Case

_SECTIONS = ("peers", "own")
MODEL_HELP = "layers of a language model, such as Qwen2.5-7B (repeatable)"


def add_bench(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `bench`, except those that `plan` has too."""
    what = parser.add_argument_group("what to measure")
    what.add_argument("sizes", nargs="*", metavar="M,N,K", help="2048 2048 2048, or shapes such "
                      "as 2048,2048,2048 or 2048x2048x2048")  # fmt: skip
    what.add_argument("--shape", action="append", metavar="M,N,K", help="a shape (repeatable)")
    what.add_argument("--model", action="append", help=MODEL_HELP)
    what.add_argument("--tokens", type=int, default=2048, help="M for --model (default 2048)")
    what.add_argument("--workload", action="append", choices=WORKLOADS,
                      help="shapes for --peers (repeatable; default squares)")  # fmt: skip
    what.add_argument("--max-gib", type=float, help="skip shapes that need more GiB of memory "
                      "(default 4; with --peers half of the memory)")  # fmt: skip
    how = parser.add_argument_group("which measurement (default: falcon and NumPy)")
    kind = how.add_mutually_exclusive_group()
    kind.add_argument("--peers", action="store_true", help="falcon and every library, and "
                      "falcon's own stages, errors and crossover")  # fmt: skip
    kind.add_argument("--quick", action="store_true", help="the same in under 3 minutes")
    kind.add_argument("--targets", action="store_true", help="falcon, with B packed too, and every "
                      "library on the workload of the CPU backend's targets")  # fmt: skip
    kind.add_argument("--list-peers", action="store_true",
                      help="list the libraries, with versions and kernels")  # fmt: skip
    kind.add_argument("--peak", action="store_true", help="the multiply-add peak of the CPU")
    kind.add_argument("--schemes", action="store_true", help="the best scheme of every format "
                      "(or those of --scheme) at sizes S (default 2048 4096), sorted")  # fmt: skip
    kind.add_argument("--beside", action="store_true", help="calls after pauses, after NumPy and "
                      "torch, and on busy CPUs, compared with calls in a loop")  # fmt: skip
    kind.add_argument("--types", action="store_true", help="every type that falcon has kernels "
                      "for, with float32 and torch; one size S (default 2048)")  # fmt: skip
    kind.add_argument("--gpu", action="store_true", help="falcon's stages on the GPU, then falcon, "
                      "cuBLAS and torch")  # fmt: skip
    kind.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"),
                      help="what changed between two record files")  # fmt: skip
    parser.add_argument("--large", action="store_true", help="with --targets: 8192 too")
    parser.add_argument("--rounds", type=int, default=LEAST_PAIRS, help="least number of "
                        f"interleaved rounds (default {LEAST_PAIRS}); more follow, up to four "
                        "times as many, until every ratio is known to 2 %%")  # fmt: skip
    parser.add_argument("--case-seconds", type=float, default=60.0, metavar="S", help="time limit "
                        "of a case for rounds beyond --rounds (default 60)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--csv", action="store_true", help="with --schemes: print CSV")
    run = parser.add_argument_group("a run of --peers, --quick, --targets or --gpu")
    run.add_argument("-o", "--output", type=Path, metavar="FILE", help="the record file; a run "
                     "that was stopped resumes from FILE.part")  # fmt: skip
    run.add_argument("--fresh", action="store_true", help="delete FILE and FILE.part first")
    run.add_argument("--time-budget", type=float, metavar="S", help="stop after about S seconds "
                     "(exit status 3); the same command resumes it")  # fmt: skip
    run.add_argument("--device", choices=("cpu", "gpu"), default="cpu",
                     help="where --peers multiplies (default cpu)")  # fmt: skip
    run.add_argument("--only", choices=_SECTIONS, help="only the comparison with peers, or only "
                     "falcon's own stages, errors and crossover (--gpu: its stages)")  # fmt: skip


def add_report(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `report`."""
    parser.add_argument("results", type=Path, help="a record file of bench --peers")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="folder for index.html "
                        "and the pictures (default: named as the record file)")  # fmt: skip


def bench(options: argparse.Namespace, falcon_options: dict[str, Any]) -> int:
    """Run `bench` as asked for."""
    if options.tokens < 1 or options.rounds < 1:
        raise ValueError("--tokens and --rounds must be at least 1")
    if options.csv and not options.schemes:
        raise ValueError("--csv goes with --schemes only; --json prints every other measurement")
    if options.large and not options.targets:
        raise ValueError("--large goes with --targets only; --workload squares has 8192")
    if options.compare:
        from . import records, tables

        print(tables.changes(*(records.read(path) for path in options.compare)))
        return 0
    if options.list_peers or options.peers or options.quick or options.targets:
        from . import peer_run

        return (
            peer_run.list_peers(options)
            if options.list_peers
            else peer_run.run(options, falcon_options)
        )
    if options.peak:
        return _peak(options)
    if options.schemes:
        return _schemes(options, falcon_options)
    if options.gpu:
        from . import gpu_run

        return gpu_run.run(options, falcon_options)
    if options.beside:
        return _beside(options)
    if options.types:
        return _types(options)
    return _beside_numpy(options, falcon_options)


def report(options: argparse.Namespace) -> int:
    """Draw the pictures and write the page."""
    from . import records
    from .report import write

    results = options.results
    print(write(records.read(results), options.output or results.with_suffix("")))
    return 0


# --- in this process -----------------------------------------------------------------------------


def _beside_numpy(options: argparse.Namespace, falcon_options: dict[str, Any]) -> int:
    from .here import beside_numpy

    dtype = asked.one_dtype(options)
    shapes = asked.given_shapes(options) or workloads.quick_shapes()
    cases = [Case("given", shape, dtype) for shape in shapes]
    kept = asked.that_fit(cases, options.max_gib or 4.0, 3)
    return _measure(
        options,
        kept,
        lambda case, effort: beside_numpy(case, falcon_options, effort),
        lambda found: _print_cases(options, found),
    )


def _schemes(options: argparse.Namespace, falcon_options: dict[str, Any]) -> int:
    from falcon.schemes import get

    from . import schemes

    chosen = schemes.best_names() if options.scheme == "auto" else options.scheme.split(",")
    for name in chosen:
        get(name)  # an unknown one is an error before anything is measured
    sizes = [*options.sizes, *(options.shape or ())] or [str(x) for x in schemes.SIZES]
    if not all(x.isdecimal() and int(x) for x in sizes):
        raise ValueError(f"--shape {sizes}: --schemes takes sizes S such as 2048, for about S,S,S")
    dtype = asked.one_dtype(options)
    backend = "cpu" if options.backend == "auto" else options.backend
    asked_of_gemm = {**falcon_options, "backend": backend, "max_growth": None}
    cases = [schemes.case(name, int(size), dtype) for size in sizes for name in chosen]

    def show(found: list[dict[str, Any]]) -> int:
        if options.csv:
            print(schemes.to_csv(found), end="")
            return 0
        return _print_cases(options, found, schemes.format_speeds)

    return _measure(
        options, cases, lambda x, effort: schemes.measure(x, asked_of_gemm, effort), show
    )


def _beside(options: argparse.Namespace) -> int:
    from . import beside

    shapes = asked.given_shapes(options) or [workloads.parse_shape(x) for x in beside.SHAPES]
    for name in asked.dtypes(options) or beside.DTYPES:
        for shape in shapes:
            case = Case("given", shape, name)
            found = beside.measure(case, options.rounds)
            print(json.dumps(beside.document(case, found)) if options.json
                  else beside.table(case, found) + "\n", flush=True)  # fmt: skip
    return 0


def _types(options: argparse.Namespace) -> int:
    from . import element_types

    if len(options.sizes) > 1 or not all(x.isdecimal() and int(x) for x in options.sizes):
        raise ValueError(f"sizes {options.sizes}: --types takes one size S, for S x S x S")
    size = int(options.sizes[0]) if options.sizes else 2048
    found = element_types.measure(size, options.rounds, thread_count(options.threads))
    if options.json:
        sides = [
            {"dtype": dtype.name, "side": side, "seconds": record.seconds}
            for (dtype, side), record in found.items()
        ]
        print(
            json.dumps(
                {"size": size, "sides": sides, "left out": element_types.missing()}, indent=1
            )
        )
    else:
        print(element_types.format_types(found, size))
    return 0


def _measure(
    options: argparse.Namespace,
    cases: list[Case],
    measure: Callable[..., dict[str, Any]],
    show: Callable[[list[dict[str, Any]]], int],
) -> int:
    """Measure cases and show them; after Ctrl-C only those that are complete."""
    from .here import Effort

    found: list[dict[str, Any]] = []
    try:
        with asked.progress(len(cases), "case") as bar:
            for case in cases:
                word = f"{case.shape} {case.dtype}, round "
                rounds = iter(range(1, 10**9))

                def after_round(_: Any, word: str = word, rounds: Iterator[int] = rounds) -> None:
                    bar.set_description(f"{word}{next(rounds)}")

                bar.set_description(word + "1")
                found.append(
                    measure(case, Effort(options.rounds, options.case_seconds, after_round))
                )
                bar.update()
    except KeyboardInterrupt:
        print(f"stopped: {len(found)} of {len(cases)} cases are complete", file=sys.stderr)
        if found:
            show(found)
        raise
    return show(found)


def _print_cases(
    options: argparse.Namespace,
    cases: list[dict[str, Any]],
    formatted: Callable[[Sequence[dict[str, Any]]], str] | None = None,
) -> int:
    """Print cases that were measured in this process; 1 if a result is wrong."""
    from . import records, tables

    found = records.here(cases, options.threads)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        machine = found["machine"]
        print(f"{machine['cpu']}, {found['threads']} threads; numpy {machine['numpy']} with "
              f"{machine['numpy_blas']}\n")  # fmt: skip
        print((formatted or tables.format_cases)(cases))
    for doubt in tables.doubts(found):
        print(f"warning: {doubt.text}", file=sys.stderr)
    return int(any(not side["correct"] for x in cases for side in x["sides"].values()))


def _peak(options: argparse.Namespace) -> int:
    from falcon._cpu import peak
    from falcon._front.info import backends

    found = peak.measure(thread_count(options.threads))
    if not found:
        raise ValueError(f"--peak needs falcon's own kernels: {backends()['cpu']}")
    if options.json:
        print(json.dumps([dataclasses.asdict(x) for x in found], indent=2))
    else:
        print(peak.format_peaks(found))
    return 0
