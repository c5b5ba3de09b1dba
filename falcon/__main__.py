"""The command line: ``python -m falcon info | grade | schemes | plan | tune | bench | ...``."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

import falcon
from falcon._core.dtypes import FLOAT32, FLOAT64, dtype_of
from falcon._core.options import FIELDS, PLANNING, TUNING, parsed, settings
from falcon._core.plan import Plan
from falcon._grade.command import add_grade
from falcon._tools.progress import Progress
from falcon._tools.text import did_you_mean, format_table
from falcon.bench import command
from falcon.bench.schemes import A_FILE, add_schemes, registered
from falcon.bench.workloads import model_shapes, parse_shape, parse_shapes
from falcon.discover.arguments import add_discover


class _Parser(argparse.ArgumentParser):
    """A parser that suggests the word that was meant."""

    def error(self, message: str) -> NoReturn:
        got, _, known = message.partition(" (choose from ")
        word = got.rpartition(": ")[2].strip("'")
        super().error(message + (did_you_mean(word, re.findall(r"[\w-]+", known)) if known else ""))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status (2 for a wrong argument)."""
    options, unknown = _parser().parse_known_args(arguments)
    if unknown:  # argparse itself would show the usage of no command
        known = re.findall(r"--[a-z][a-z-]*", options.parser.format_help())
        guess = did_you_mean(unknown[0], known, "--")
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}{guess}")
    if options.command == "run":  # its exceptions and its logging are the program's
        return _run(options)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    log = logging.getLogger("falcon")
    before = log.level
    log.setLevel(logging.INFO)  # says that a GPU is being measured
    try:
        with falcon.config(verbose=True) if options.verbose else nullcontext():
            if "scheme" in options:
                options.scheme = ",".join(map(registered, options.scheme.split(",")))
            status = options.run(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # by head or less; at exit Python flushes stdout: to an open file
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError) as error:
        print(f"falcon {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = "; what was measured until now is stored" if options.command == "tune" else ""
        print(f"falcon {options.command}: interrupted{kept}", file=sys.stderr)
        return 130  # as shells do
    finally:
        log.setLevel(before)


def _parser() -> argparse.ArgumentParser:
    script = Path(sys.argv[0]).stem
    parser = _Parser(
        prog=script if script == "falcon-gemm" else "python -m falcon",
        description="Matrix multiplication with fewer multiplications.",
    )
    parser.add_argument("--version", action="version", version=f"falcon {falcon.__version__}")
    parser.add_argument("-v", "--verbose", action="store_true", help="log every fresh plan")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    info = commands.add_parser("info", help="show the machine, the libraries, what is missing")
    info.add_argument("--json", action="store_true", help="print JSON")
    info.set_defaults(run=_info)

    add_grade(commands)

    add_schemes(commands)

    plan = commands.add_parser(
        "plan", help="show what would run for a shape, and why", usage="%(prog)s [options] M N K"
    )
    plan.add_argument("sizes", nargs="+", metavar="M N K", help="C is M x N, K the inner "
                      "dimension; also as M,N,K or MxNxK")  # fmt: skip
    plan.add_argument("--compare", action="store_true", help="also measure the best candidates")
    plan.add_argument("--rounds", type=int, default=5, help="least number of rounds (default 5)")
    plan.add_argument("--most", type=int, default=8, help="candidates to measure (default 8)")
    _common(plan)
    plan.set_defaults(run=_plan)

    tune = commands.add_parser(
        "tune", help="measure this machine, or the best candidates of shapes",
        description="Without shapes: measure the machine, store the profile, and say which choices "
        "change. With shapes: measure their best candidates and remember the fastest.",
    )  # fmt: skip
    tune.add_argument("--model", action="append", help=command.MODEL_HELP)
    tune.add_argument("--tokens", type=int, default=2048, help="M for --model (default 2048)")
    tune.add_argument("--shape", action="append", metavar="M,N,K", help="a shape (repeatable)")
    tune.add_argument("--rounds", type=int, default=5, help="least number of rounds (default 5)")
    tune.add_argument("--most", type=int, default=5, help="candidates per shape (default 5)")
    tune.add_argument("--dtype", help="element type (default: float32 for shapes; for the machine "
                      "float32 and float64)")  # fmt: skip
    tune.add_argument("--seconds", type=float, default=60.0,
                      help="for the machine: about how long it takes (default 60)")  # fmt: skip
    _flags(tune.add_argument_group("products of the shapes (threads: also of the machine's "
                                   "rates; default there 1 and all)"), TUNING)  # fmt: skip
    tune.set_defaults(run=_tune)

    bench = commands.add_parser(
        "bench", help="compare falcon with NumPy and other libraries",
        description="Compare falcon's choice with its classical path and np.matmul; with --peers, "
        "with every library that is installed.",
    )  # fmt: skip
    command.add_bench(bench)
    _common(bench, "several, with commas")
    bench.set_defaults(run=command.bench, dtype=None)

    run = commands.add_parser(
        "run", help="run a script whose NumPy products run on falcon",
        usage="%(prog)s [--profile] [-m] script.py [arguments]",
        description="Run a script, or a module (-m), with falcon.accelerate on, also in the "
        "processes that it starts.",
    )  # fmt: skip
    run.add_argument("--profile", action="store_true", help="say at the end where it multiplied, "
                     "and what falcon is predicted to gain")  # fmt: skip
    run.add_argument("-m", action="store_true", help="the script is the name of a module")
    run.add_argument("script", nargs=argparse.PARSER, help="and its arguments; -: standard input")

    discover = commands.add_parser(
        "discover", help="search for schemes", usage="%(prog)s [options] m k n",
        description="Search for schemes <m,k,n>, or improve known ones. They multiply m x k by "
        "k x n blocks: sizes in the order of their names, where other commands take M N K.",
    )  # fmt: skip
    add_discover(discover)
    discover.set_defaults(run=_discover)
    for each in commands.choices.values():
        each.set_defaults(parser=each)
    return parser


def _common(parser: argparse.ArgumentParser, dtype: str = "default float32") -> None:
    parser.add_argument("--dtype", default="float32", help=f"element type ({dtype})")
    _flags(parser, PLANNING)


def _flags(parser: argparse._ActionsContainer, names: Sequence[str]) -> None:
    """Add options of a call as flags; the help is the first sentence of their documentation."""
    for name in names:
        option = FIELDS[name]
        kind, text = option.metadata["text"].split("\n", 1)
        text = " ".join(text.replace("`", "").split()).split(". ")[0].removesuffix(".")
        if name == "scheme":  # as `registered` takes it
            text += f"; or {A_FILE}"
        how: dict[str, Any] = {"action": "store_true", "default": None}
        if option.type != "bool":
            words = kind.replace('"', "").replace(" ", "") if kind.startswith("{") else None
            default = "auto" if option.default == "auto" else None
            how = {"type": _flag_type(name), "metavar": words, "default": default}
        told = (text[0].lower() + text[1:]).replace("%", "%%")
        parser.add_argument(f"--{name.replace('_', '-')}", help=told, **how)


def _flag_type(name: str) -> Callable[[str], Any]:
    """Return what reads a flag; its error is argparse's, which names the flag."""

    def read(text: str) -> Any:
        try:
            return parsed(name, text)
        except (ValueError, TypeError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _dtype(options: argparse.Namespace) -> np.dtype:
    try:
        return dtype_of(options.dtype).numpy
    except TypeError as error:
        raise ValueError(f"--dtype {options.dtype!r}: {error}") from None


def _info(options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps(falcon.show_config("dict"), indent=2))
    else:
        falcon.show_config()
    return 0


def _plan(options: argparse.Namespace) -> int:
    shapes = parse_shapes(options.sizes, least=0)
    if len(shapes) != 1:
        raise ValueError(f"{len(shapes)} shapes were given; plan takes one")
    (shape,) = shapes
    operands = (shape.M, shape.K), (shape.K, shape.N)
    how = {name: getattr(options, name) for name in PLANNING}
    plan = falcon.plan(*operands, _dtype(options), **how)
    is_named = options.scheme != "auto"
    print(plan if is_named else plan.explain())
    if is_named and not options.compare:
        print("\n--compare measures it beside what falcon would choose")
    if options.compare:
        if options.rounds < 1 or options.most < 1:
            raise ValueError("--rounds and --most must be at least 1")
        _compare(plan, options, plan.label if is_named else "the choice")
    return 0


def _compare(plan: Plan, options: argparse.Namespace, first: str) -> None:
    """Measure the candidates of a plan and print the table; `first`: the name of what runs."""
    from falcon._front.tune import COLUMNS, compare, duration, rivals
    from falcon._tools.timing import withheld
    from falcon.bench.tables import INTERVAL

    some = rivals(plan, options.most)
    text = f"measuring {len(some)} candidates in turn, {options.rounds} rounds or more"
    text += f": about {duration(some, options.rounds):.0f} s"
    print(f"\n{text}", file=sys.stderr, flush=True)
    with Progress("measuring", unit="rounds") as progress:

        def tick(_: object) -> None:
            progress.step()
            progress.say(f"measuring: {progress.count:.0f} rounds")

        measured = compare(plan, some, options.rounds, after_round=tick)
    *titles, _ = COLUMNS
    rows = [(*titles, f"time over that of {first}", ""), *((*x.cells, "") for x in measured)]
    count = len(measured[0].record.seconds)
    print(f"\nmedian of {count} interleaved rounds; time over that of {first}: "
          f"median ratio, pair by pair,\n{INTERVAL}\n")  # fmt: skip
    print(format_table(rows, left=2))
    if doubts := [x.ratio.doubt for x in measured[1:] if x.ratio.doubt]:
        print(f"\nundecided: {withheld(doubts[0])}")


def _tune(options: argparse.Namespace) -> int:
    from falcon._core.options import thread_count
    from falcon._front.tune import measure_machine

    dtypes = [_dtype(options)] if options.dtype else [FLOAT32.numpy, FLOAT64.numpy]
    if options.tokens < 1:
        raise ValueError("--tokens must be at least 1")
    if not options.seconds > 0:
        raise ValueError("--seconds must be more than 0")
    shapes = [parse_shape(text) for text in options.shape or ()]
    for model in options.model or ():
        shapes.extend(model_shapes(model, options.tokens))
    if shapes:
        with Progress(
            "measuring candidates, up to 10 s a shape", len(shapes), "shapes"
        ) as progress:
            tuned = falcon.tune(
                [(x.M, x.N, x.K) for x in shapes], dtype=dtypes[0], candidates=options.most,
                rounds=options.rounds, tick=progress.step,
                **{name: getattr(options, name) for name in TUNING},
            )  # fmt: skip
        print(*tuned, sep="\n")
        return 0
    threads = sorted({1, thread_count()}) if options.threads is None else [options.threads]
    with Progress("") as progress:

        def tick(step: str) -> None:
            progress.say(f"{step} (about {options.seconds:g} s in all)")

        made = measure_machine(dtypes, threads, tick, options.seconds)
    print(made)
    return 0


def _run(options: argparse.Namespace) -> int:
    from falcon._accelerate.run import starter

    try:
        settings()  # raises where a variable of the environment is wrong
        start = starter(options.script, module=options.m, profiled=options.profile)
    except (OSError, ValueError) as error:
        print(f"falcon run: {error}", file=sys.stderr)
        return 2
    if options.verbose:
        falcon.set_config(verbose=True)
    start()
    return 0


def _discover(options: argparse.Namespace) -> int:
    try:
        from falcon.discover import cli
    except ImportError as error:
        raise OSError(
            f"the search core is not compiled ({error}); install a C compiler and reinstall "
            "falcon-gemm from source"
        ) from None
    sizes = parse_shape(",".join(options.sizes))
    return cli.main(options, (sizes.M, sizes.N, sizes.K))  # in the order in which they were given


if __name__ == "__main__":
    sys.exit(main())
