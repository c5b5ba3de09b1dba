"""The command line: ``python -m falcon info | schemes | plan | bench | report | discover``."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

import falcon
from falcon._config import parse_bytes
from falcon._plan import format_table
from falcon.bench import command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status (2 for a wrong argument)."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    try:
        with falcon.config(**({"verbose": True} if options.verbose else {})):
            if options.verbose:
                logging.getLogger("falcon").setLevel(logging.INFO)
            status = options.run(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader (head, less) has enough
        # Python flushes once more on its way out, and must find something open.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError) as error:
        print(f"falcon {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130  # what shells report for a process that Ctrl-C has ended


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m falcon", description="Matrix multiplication with fewer multiplications."
    )
    parser.add_argument("--version", action="version", version=f"falcon {falcon.__version__}")
    parser.add_argument("-v", "--verbose", action="store_true", help="log every plan")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    info = commands.add_parser("info", help="the machine, the libraries, what is missing")
    info.add_argument("--json", action="store_true", help="print JSON")
    info.set_defaults(run=_info)

    schemes = commands.add_parser("schemes", help="the catalogue of schemes")
    schemes.add_argument("format", nargs="?", help='only this format, such as "3x4x4"')
    schemes.add_argument("--show", metavar="NAME", help="print the formulas of a scheme")
    schemes.add_argument("--verify", metavar="FILE", help="check a file by the Brent equations")
    schemes.set_defaults(run=_schemes)

    plan = commands.add_parser("plan", help="what would run for a shape, and why")
    for size in "MNK":
        plan.add_argument(size, type=int)
    _common(plan)
    plan.set_defaults(run=_plan)

    bench = commands.add_parser(
        "bench", help="falcon beside NumPy and other libraries",
        description="Measure falcon's choice, falcon's classical path and np.matmul; or, with "
        "--peers, every library that is installed.",
    )  # fmt: skip
    command.add_bench(bench)
    _common(bench)
    bench.set_defaults(run=_bench, dtype=None)

    report = commands.add_parser("report", help="a page with pictures from a record file")
    command.add_report(report)
    report.set_defaults(run=command.report)

    _add_discover(commands)
    return parser


def _add_discover(commands: Any) -> None:
    discover = commands.add_parser(
        "discover", help="search for schemes",
        description="Search for schemes of a format <m,k,n>, or improve known ones.",
    )  # fmt: skip
    for size in "mkn":
        discover.add_argument(size, type=int, metavar=size.upper())
    discover.add_argument("--rank", type=int, help="stop at a scheme of this rank")
    discover.add_argument("--minutes", type=float, default=10.0,
                          help="CPU time per worker (default 10)")  # fmt: skip
    discover.add_argument("--flips", type=int, help="flips per worker instead: repeatable runs")
    discover.add_argument("--seed", type=int, default=0)
    discover.add_argument("--objective", choices=("nnz", "growth", "additions"),
                          help="improve schemes of the rank instead of lowering it")  # fmt: skip
    discover.add_argument("--ring", choices=("both", "ternary", "mod2"), default="both")
    discover.add_argument("--scratch", action="store_true",
                          help="begin at the classical algorithm alone")  # fmt: skip
    discover.add_argument("--threads", type=int, help="workers (default: all cores)")
    discover.add_argument("--out", default="discovered", metavar="FOLDER",
                          help="where finds and checkpoints go (default ./discovered)")  # fmt: skip
    discover.set_defaults(run=_discover)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dtype", default="float32", help="NumPy dtype (default float32)")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--scheme", default="auto", help="auto, classical, or a scheme's name")
    parser.add_argument("--max-growth", type=float, help="error growth that auto may spend")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--workspace-limit", type=parse_bytes, metavar="BYTES", help="e.g. 256MiB")


def _gemm_options(options: argparse.Namespace) -> dict[str, Any]:
    names = ("backend", "scheme", "max_growth", "threads", "workspace_limit")
    return {name: getattr(options, name) for name in names}


def _dtype(options: argparse.Namespace) -> np.dtype:
    try:
        return np.dtype(options.dtype)
    except TypeError:
        raise ValueError(f"--dtype {options.dtype!r} is not a NumPy dtype") from None


def _info(options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps(falcon.show_config("dict"), indent=2))
    else:
        falcon.show_config()
    return 0


def _schemes(options: argparse.Namespace) -> int:
    if options.show:
        print(falcon.schemes.get(options.show))
        return 0
    if options.verify:
        for scheme in falcon.schemes.load_all(options.verify):
            print(f"{scheme!r}: all Brent equations hold")
            print(str(scheme).split("\n\n", 1)[0])
        return 0
    found = [falcon.schemes.get(name) for name in falcon.schemes.names()]
    if options.format:
        wanted = _format(options.format)
        found = [
            falcon.schemes.permuted(x, *wanted) for x in found if sorted(x.format) == sorted(wanted)
        ]
        best = falcon.schemes.best(*wanted)
        if all(best != x for x in found):
            found.append(best)
    rows = [("name", "format", "rank", "bound", "nnz U+V+W", "additions", "shared", "RMS growth",
             "e_max", "source")]  # fmt: skip
    for x in sorted(found, key=lambda x: (sorted(x.format), x.rank, sum(x.nnz))):
        rows.append(
            (
                x.name,
                "<{},{},{}>".format(*x.format),
                str(x.rank),
                f"{x.speedup_bound:.3f}",
                "+".join(map(str, x.nnz)),
                str(x.additions.naive),
                str(x.additions.reduced),
                f"{x.rms_growth:.2f}",
                str(x.e_max),
                x.source.split(",")[0].split(";")[0],
            )
        )
    print(format_table(rows, left=2))
    return 0


def _format(text: str) -> tuple[int, int, int]:
    match = re.fullmatch(r"(\d{1,4})[x,](\d{1,4})[x,](\d{1,4})", text.lower(), re.ASCII)
    if not match:
        raise ValueError(f'format {text!r}: expected three sizes such as "3x4x4"')
    return int(match[1]), int(match[2]), int(match[3])


def _plan(options: argparse.Namespace) -> int:
    dtype = _dtype(options)
    shapes = (options.M, options.K), (options.K, options.N)
    print(falcon.plan(*shapes, dtype, **_gemm_options(options)).explain())
    return 0


def _bench(options: argparse.Namespace) -> int:
    return command.bench(options, _gemm_options(options))


def _discover(options: argparse.Namespace) -> int:
    try:
        from falcon.discover import cli
    except ImportError as error:
        raise OSError(f"the search core is not compiled ({error}); see docs/schemes.md") from None
    return cli.main(options)


if __name__ == "__main__":
    sys.exit(main())
