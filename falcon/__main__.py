"""The command line: ``python -m falcon info | schemes | plan | bench | discover``."""

from __future__ import annotations

import argparse
import dataclasses
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
        "bench", help="falcon and NumPy side by side on real shapes",
        description="Measure falcon's choice, falcon's classical path and np.matmul.",
    )  # fmt: skip
    bench.add_argument("--model", action="append", help="layers of a language model (repeatable)")
    bench.add_argument("--tokens", type=int, default=2048, help="M for --model (default 2048)")
    bench.add_argument("--shape", action="append", metavar="M,N,K", help="a shape (repeatable)")
    bench.add_argument("--max-gib", type=float, default=4.0,
                       help="skip shapes whose matrices need more memory (default 4)")  # fmt: skip
    bench.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5)")
    bench.add_argument("--targets", action="store_true", help="falcon against other libraries")
    bench.add_argument("--baking", action="store_true", help="generated C against interpreter")
    bench.add_argument("--peak", action="store_true", help="the multiply-add peak, measured")
    bench.add_argument("--large", action="store_true", help="with --targets: 8192 too")
    bench.add_argument("--json", action="store_true", help="print JSON instead of a table")
    _common(bench)
    bench.set_defaults(run=_bench)

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


def _targets(options: argparse.Namespace) -> int:
    from tqdm import tqdm

    from falcon._config import thread_count
    from falcon.bench import targets

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
    from falcon.bench import workloads

    shape = workloads.parse_shape((options.shape or ["2048,2048,2048"])[0])
    bar = tqdm(total=len(baking.SCHEMES), leave=False, disable=not sys.stderr.isatty())
    with bar:
        gains = baking.measure(shape.M, shape.N, shape.K, options.rounds, bar.update)
    print(baking.format_gains(gains))
    return 0


def _peak(options: argparse.Namespace) -> int:
    from falcon._config import thread_count
    from falcon._cpu import peak

    found = peak.measure(thread_count(options.threads))
    if options.json:
        print(json.dumps([dataclasses.asdict(x) for x in found], indent=2))
    else:
        print(peak.format_peaks(found))
    return 0


def _bench(options: argparse.Namespace) -> int:
    if options.peak:
        return _peak(options)
    if options.targets:
        return _targets(options)
    if options.baking:
        return _baking(options)
    from tqdm import tqdm

    from falcon.bench import table, workloads

    dtype = _dtype(options)
    if options.tokens < 1 or options.rounds < 1:
        raise ValueError("--tokens and --rounds must be at least 1")
    shapes = [workloads.parse_shape(text) for text in options.shape or ()]
    for model in options.model or ():
        shapes.extend(workloads.model_shapes(model, options.tokens))
    shapes = shapes or workloads.quick_shapes()
    kept = []
    for shape in shapes:
        # A, B, three results, and as much again for workspaces.
        elements = shape.M * shape.K + shape.K * shape.N + 3 * shape.M * shape.N
        gib = 2 * elements * dtype.itemsize / 2**30
        if gib <= options.max_gib:
            kept.append(shape)
        else:
            print(f"skipped {shape.label or 'shape'} {shape.M} x {shape.N} x {shape.K}: about "
                  f"{gib:.1f} GiB > --max-gib {options.max_gib:g}", file=sys.stderr)  # fmt: skip
    if not kept:
        raise ValueError("no shape is left to measure")
    records = []
    sides = 3
    with tqdm(total=len(kept) * options.rounds * sides, unit="call", leave=False,
              disable=not sys.stderr.isatty()) as bar:  # fmt: skip
        for shape in kept:
            bar.set_description(f"{shape.M} x {shape.N} x {shape.K}")
            arguments = (shape, dtype, options.rounds, _gemm_options(options), bar.update)
            records.append(table.run_shape(*arguments))
    found = table.document(records)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print(f"{found['cpu']}; numpy {found['numpy']} with {found['numpy_blas']}\n")
        print(table.format_records(records))
    return 0


def _discover(options: argparse.Namespace) -> int:
    try:
        from falcon.discover import cli
    except ImportError as error:
        raise OSError(f"the search core is not compiled ({error}); see docs/schemes.md") from None
    return cli.main(options)


if __name__ == "__main__":
    sys.exit(main())
