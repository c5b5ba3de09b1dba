"""``python -m falcon bench`` and ``report``: arguments, and what is measured in this process."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

from falcon._core.checks import parse_bytes
from falcon._core.options import thread_count
from falcon._core.text import format_table
from falcon._core.timing import LEAST_PAIRS, Record, Side, interleave

from . import asked, dask_run, workloads
from .workloads import WORKLOADS, Case

# For all cases that are measured in this process.
_MOST_SECONDS = 300.0
MODEL_HELP = "layers of a language model, such as Qwen2.5-7B (repeatable)"


def add_bench(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `bench`, except those that `plan` has too."""
    what = parser.add_argument_group("what to measure")
    what.add_argument("sizes", nargs="*", metavar="M,N,K", help="2048 2048 2048, or shapes such "
                      "as 2048,2048,2048 or 2048x2048x2048")  # fmt: skip
    what.add_argument("--shape", action="append", metavar="M,N,K", help="a shape (repeatable)")
    what.add_argument("--model", action="append", help=MODEL_HELP)
    what.add_argument("--tokens", default="2048", help="M for --model (default 2048); several, "
                      "with commas, for --prefill")  # fmt: skip
    what.add_argument("--workload", action="append", choices=WORKLOADS,
                      help="shapes for --peers (repeatable; default squares)")  # fmt: skip
    what.add_argument("--max-gib", type=float, help="skip shapes that need more GiB of memory "
                      "(default 4; with --peers half of the memory)")  # fmt: skip
    how = parser.add_argument_group("which measurement (default: falcon and NumPy)")
    kind = how.add_mutually_exclusive_group()
    kind.add_argument("--peers", action="store_true", help="falcon and every library")
    kind.add_argument("--quick", action="store_true", help="the same in under 3 minutes")
    kind.add_argument("--split", action="store_true", help="float32 by bfloat16 parts, by falcon's "
                      "own kernels, and every library: speed and errors")  # fmt: skip
    kind.add_argument("--list-peers", action="store_true",
                      help="list the libraries, with versions and kernels")  # fmt: skip
    kind.add_argument("--peak", action="store_true", help="the rate of each micro-kernel alone")
    kind.add_argument("--gpu", action="store_true", help="falcon, cuBLAS and torch on a GPU")
    kind.add_argument("--prefill", action="store_true", help="decoder layers of --model with "
                      "random weights: torch's linear layers and falcon.torch's")  # fmt: skip
    kind.add_argument("--dask", action="store_true", help="falcon.dask and dask.array.matmul, on "
                      "processes of this machine")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=LEAST_PAIRS, help="least number of "
                        f"interleaved rounds (default {LEAST_PAIRS}); more follow, up to four "
                        "times as many, until every ratio is known to 2 %%")  # fmt: skip
    parser.add_argument("--case-seconds", type=float, default=60.0, metavar="S", help="time limit "
                        "of a case for rounds beyond --rounds (default 60)")  # fmt: skip
    parser.add_argument("--time-budget", type=float, metavar="S", help="measure for about S "
                        f"seconds in all (default {_MOST_SECONDS:.0f}), with fewer rounds where "
                        "they are up; a run of --peers, --quick, --split or --gpu stops then (exit "
                        "status 3, no default), and the same command resumes it")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    layers = parser.add_argument_group("--prefill")
    layers.add_argument("--layers", type=int, default=1, help="decoder layers (default 1)")
    layers.add_argument("--memory-limit", type=parse_bytes, metavar="BYTES", help="most memory of "
                        "packed weights, such as 2GiB (default: twice the weights)")  # fmt: skip
    run = parser.add_argument_group("a run of --peers, --quick, --split or --gpu")
    run.add_argument("-o", "--output", type=Path, metavar="FILE", help="the record file; a run "
                     "that was stopped resumes from FILE.part")  # fmt: skip
    run.add_argument("--fresh", action="store_true", help="delete FILE and FILE.part first")
    run.add_argument("--packed", action="store_true", help="with --peers: falcon with B packed "
                     "beforehand, too")  # fmt: skip
    dask_run.add_dask(parser)


def add_report(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `report`."""
    parser.add_argument("results", type=Path, help="a record file of bench --peers")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="folder for index.html "
                        "and the pictures (default: named as the record file)")  # fmt: skip


def bench(options: argparse.Namespace, falcon_options: dict[str, Any]) -> int:
    """Run `bench` as asked for."""
    tokens = _tokens(options.tokens)
    if options.rounds < 1:
        raise ValueError("--rounds must be at least 1")
    if options.time_budget is not None and not options.time_budget > 0:
        raise ValueError("--time-budget must be more than 0")
    if options.prefill:
        try:
            from . import prefill
        except ImportError as error:
            raise ValueError(f"--prefill needs torch, falcon-gemm[torch]: {error}") from None
        return prefill.run(options, falcon_options, tokens, asked.dtypes(options) or ["float32"])
    if len(tokens) > 1:
        raise ValueError("--tokens takes several only with --prefill")
    (options.tokens,) = tokens
    if options.list_peers or options.peers or options.quick or options.split:
        from . import peer_run

        return (
            peer_run.list_peers(options)
            if options.list_peers
            else peer_run.run(options, falcon_options)
        )
    if options.peak:
        return _peak(options)
    if options.gpu:
        from . import gpu_run

        return gpu_run.run(options, falcon_options)
    if options.dask:
        return dask_run.run(options, falcon_options)
    return _beside_numpy(options, falcon_options)


def _tokens(text: str) -> list[int]:
    """Return numbers of tokens, separated by commas."""
    found = [int(x) if x.strip().isdecimal() else 0 for x in text.split(",")]
    if min(found) < 1:
        raise ValueError(f"--tokens {text!r}: expected positive integers")
    return found


def report(options: argparse.Namespace) -> int:
    """Draw the pictures and write the page."""
    from . import records
    from .report import write

    results = options.results
    print(write(records.read(results), options.output or results.with_suffix("")))
    return 0


# --- in this process -----------------------------------------------------------------------------


def _beside_numpy(options: argparse.Namespace, falcon_options: dict[str, Any]) -> int:
    """Measure cases and show them; after Ctrl-C only those that are complete.

    Each case has an equal share of the time that is left, and at least one round.
    """
    from .here import beside_numpy

    dtypes = asked.dtypes(options) or ["float32"]
    shapes = asked.given_shapes(options)
    if not shapes:
        shapes = workloads.quick_shapes()
        print(f"no shape given: {len(shapes)} shapes of language models; one shape, such as "
              "2048,2048,2048, takes seconds", file=sys.stderr)  # fmt: skip
    cases = [Case("given", shape, dtype) for dtype in dtypes for shape in shapes]
    cases = asked.that_fit(cases, options.max_gib or 4.0, 3)
    found: list[dict[str, Any]] = []
    budget, cut = options.time_budget or _MOST_SECONDS, 0
    end = monotonic() + budget
    try:
        with asked.progress(len(cases), "case") as bar:
            for case in cases:
                word = f"{case.shape} {case.dtype}, round "
                numbers = count(2)

                def after_round(_: Any, word: str = word, numbers: Any = numbers) -> None:
                    bar.set_description(f"{word}{next(numbers)}")

                def timing(sides: list[Side], after_round: Any = after_round) -> list[Record]:
                    nonlocal cut
                    start = monotonic()
                    limit = (end - start) / (len(cases) - len(found))
                    seconds = min(options.case_seconds, limit)
                    how = {"seconds": seconds, "limit": limit, "after_round": after_round}
                    records = interleave(sides, options.rounds, **how)
                    cut += monotonic() - start > limit
                    return records

                bar.set_description(word + "1")
                found.append(beside_numpy(case, falcon_options, timing))
                bar.update()
    except KeyboardInterrupt:
        print(f"stopped: {len(found)} of {len(cases)} cases are complete", file=sys.stderr)
        if found:
            _print_cases(options, found)
        raise
    status = _print_cases(options, found)
    if cut:
        print(f"{budget:g} s were up (--time-budget): {cut} of {len(cases)} cases have fewer "
              "rounds, and wider intervals", file=sys.stderr)  # fmt: skip
    return status


def _print_cases(options: argparse.Namespace, cases: list[dict[str, Any]]) -> int:
    """Print cases that were measured in this process; 1 if a result is wrong."""
    from . import records, tables
    from .run import finish

    def show(found: dict[str, Any]) -> None:
        machine = found["machine"]
        print(f"{machine['cpu']}, {found['threads']} threads; numpy {machine['numpy']} with "
              f"{machine['numpy_blas']}\n")  # fmt: skip
        print(tables.format_cases(cases))
        packed = [x for x in cases if records.PACKED in x["sides"]]
        if packed:
            table = tables.format_cases(packed, first=records.PACKED)
            mib = sum(x["sides"][records.PACKED]["extra_bytes"] for x in packed) / 2**20
            print(f"\nwith the weights packed beforehand, {mib:.0f} MiB of panels:\n\n{table}")

    return finish(records.here(cases, options.threads), options, show)


def _peak(options: argparse.Namespace) -> int:
    from falcon._cpu import peak
    from falcon._front.info import backends

    found = peak.measure(thread_count(options.threads))
    if not found:
        raise ValueError(f"--peak needs falcon's own kernels: {backends()['cpu']}")
    if options.json:
        print(json.dumps([dataclasses.asdict(x) for x in found], indent=2))
    else:
        rows = [("instruction set", "dtype", "threads", "Gop/s", "")]
        rows += [(x.isa, x.dtype, str(x.threads), f"{x.gflops:.1f}", "") for x in found]
        print(format_table(rows, left=2))
    return 0
