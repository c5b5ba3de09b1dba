"""``python -m falcon bench``: arguments, and what they choose."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

from falcon._core.options import PLANNING, thread_count
from falcon._tools.progress import Progress
from falcon._tools.text import format_table
from falcon._tools.timing import LEAST_PAIRS

from .compare import Comparison
from .workloads import WORKLOADS

MODEL_HELP = "layers of a language model, such as Qwen2.5-7B (repeatable)"


def add_bench(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `bench`, except those that `plan` has too."""
    what = parser.add_argument_group("what to measure")
    what.add_argument("sizes", nargs="*", metavar="M,N,K", help="2048 2048 2048, or shapes such "
                      "as 2048,2048,2048 or 2048x2048x2048")  # fmt: skip
    what.add_argument("--shape", action="append", metavar="M,N,K", help="a shape (repeatable)")
    what.add_argument("--model", action="append", help=MODEL_HELP)
    what.add_argument("--tokens", help="M for --model, several with commas (default 512,2048; with "
                      "another measurement than falcon and NumPy 2048)")  # fmt: skip
    what.add_argument("--workload", action="append", choices=WORKLOADS,
                      help="shapes by name (repeatable; default for --peers: squares)")  # fmt: skip
    what.add_argument("--max-gib", type=float, help="skip shapes that need more GiB of memory "
                      "(default 4; with --peers half of the memory)")  # fmt: skip
    how = parser.add_argument_group("which measurement (default: falcon and NumPy)")
    flags = how.add_mutually_exclusive_group()
    flags.add_argument("--peers", action="store_true", help="falcon and every library")
    flags.add_argument("--quick", action="store_true", help="the same in under 3 minutes")
    flags.add_argument("--device", choices=("cuda",), help="falcon and cuBLAS on a GPU")
    flags.add_argument("--list-peers", action="store_true",
                       help="list the libraries, with versions and kernels")  # fmt: skip
    flags.add_argument("--peak", action="store_true", help="the rate of each micro-kernel alone")
    add_measurement(parser)


def add_measurement(parser: argparse.ArgumentParser) -> None:
    """Declare how a comparison is measured, kept and shown: options of `run`, for studies too."""
    parser.add_argument("--rounds", type=int, default=LEAST_PAIRS, help="least number of "
                        f"interleaved rounds (default {LEAST_PAIRS}); more follow, up to forty "
                        "times as many, until every ratio is known to 2 %%")  # fmt: skip
    parser.add_argument("--case-seconds", type=float, default=60.0, metavar="S", help="time limit "
                        "of a case for rounds beyond --rounds (default 60)")  # fmt: skip
    parser.add_argument("--time-budget", type=float, metavar="S", help="measure for about S "
                        "seconds in all (default: 300 for falcon and NumPy, 170 for --quick), with "
                        "fewer rounds where they are short, and without the cases that would "
                        "take longer (exit status 3); with -o the run stops then, and the same "
                        "command resumes it")  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the record file; a run "
                        "that was stopped resumes from FILE.part")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("-v", "--details", action="store_true", help="print every side of falcon "
                        "and NumPy, as other measurements do: times, errors, memory")  # fmt: skip


def bench(options: argparse.Namespace) -> int:
    """Run `bench` as asked for."""
    other = options.peers or options.quick or options.device
    usual = "2048" if other else "512,2048"
    options.tokens = counts(usual if options.tokens is None else options.tokens)
    if options.rounds < 1:
        raise ValueError("--rounds must be at least 1")
    if options.time_budget is not None and not options.time_budget > 0:
        raise ValueError("--time-budget must be more than 0")
    if options.peak:
        return _peak(options)
    if options.list_peers:
        from . import suite, tables

        with Progress("asking each library, in a process of its own"):
            peers = suite.list_peers(options)
        print(json.dumps(peers, indent=1) if options.json else tables.format_peers(peers))
        return 0
    if options.modulus is not None and other:
        raise ValueError("--modulus does not go with --peers, --quick and --device")
    from .run import run

    settings = {name: getattr(options, name) for name in PLANNING}
    return run(_comparison(options)(options, settings), options)


def _comparison(options: argparse.Namespace) -> Callable[..., Comparison]:
    if options.device:
        from .gpu import OnGpu

        return OnGpu
    if options.peers or options.quick:
        from .suite import BesidePeers

        return BesidePeers
    from .in_process import BesideNumpy

    return BesideNumpy


def counts(text: str) -> list[int]:
    """Return numbers of tokens, separated by commas."""
    found = [int(x) if x.strip().isdecimal() else 0 for x in text.split(",")]
    if min(found) < 1:
        raise ValueError(f"--tokens {text!r}: expected positive integers")
    return found


def _peak(options: argparse.Namespace) -> int:
    from falcon._backends import ENGINE
    from falcon._cpu import peak

    with Progress("each micro-kernel alone"):
        rates = peak.measure(thread_count(options.threads))
    if not rates:
        raise ValueError(f"--peak needs falcon's own kernels: {ENGINE.why_unavailable()}")
    if options.json:
        print(json.dumps([dataclasses.asdict(x) for x in rates], indent=2))
    else:
        rows = [("instruction set", "dtype", "threads", "Gop/s", "")]
        rows += [(x.isa, x.dtype, str(x.threads), f"{x.gflops:.1f}", "") for x in rates]
        print(format_table(rows, left=2))
    return 0
