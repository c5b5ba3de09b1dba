"""The command `schemes`: how fast those of a format, or named ones, are; files are checked."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

import falcon
from falcon import schemes
from falcon._core.plan import Candidate
from falcon._front.planner import predicted, preferred_for
from falcon._front.tune import compare
from falcon._tools.progress import Progress
from falcon._tools.text import format_table
from falcon._tools.timing import withheld
from falcon.schemes import Scheme
from falcon.schemes.catalogue import facts_of
from falcon.schemes.loaders import content_of, load_each, text_of
from falcon.schemes.records import FORMULAS, SUFFIXES

from .tables import INTERVAL
from .workloads import Shape

_WIDTH = 80
_COLUMNS = """\
bound: mkn / rank; nnz: non-zeros; adds: additions per block; shared: with
shared sums; growth: RMS error over classical's; e_max: factor of the error bound"""
# A source of more schemes is that of all others.
_MOST_NAMES = 6
# What is taken where a scheme's name is.
A_FILE = f"a file ({', '.join(SUFFIXES)})"


def add_schemes(commands: Any) -> None:
    """Declare ``python -m falcon schemes``; `commands`: what `add_subparsers` returned."""
    parser = commands.add_parser("schemes", help="list, print or verify schemes")
    parser.add_argument("format", nargs="?", help='only this format <m,k,n>, with speeds: "3x4x4"')
    parser.add_argument("--size", type=int, default=2048, metavar="S", help="the speeds at "
                        "about S x S x S (default 2048)")  # fmt: skip
    parser.add_argument("--measure", action="store_true",
                        help="measure the speeds, do not predict them")  # fmt: skip
    parser.add_argument("--seconds", type=float, metavar="S", help="with --measure: for about "
                        "how long (default 10)")  # fmt: skip
    parser.add_argument("--show", metavar="NAME", help="print the formulas of a scheme, or of "
                        f"those in {A_FILE}")  # fmt: skip
    parser.add_argument("--verify", metavar="FILE", nargs="+", help="check files by the Brent "
                        "equations: schemes, or formulas")  # fmt: skip
    parser.add_argument("--compare", metavar="NAME", nargs="+", help="costs and speeds of these "
                        "schemes, or files, side by side")  # fmt: skip
    parser.set_defaults(run=command)


def registered(text: str) -> str:
    """Return the name of a scheme; the scheme of a file is first registered by the file's name."""
    if not text.lower().endswith(SUFFIXES):
        return text
    scheme, name = schemes.load(text), re.sub(r"[@()\[\]]", "_", Path(text).name)
    schemes.register(scheme.renamed(name, f"file {text}; {scheme.source}"), overwrite=True)
    return name


def shape_of(scheme: Scheme, size: int) -> Shape:
    """Return sizes near `size` that the format divides."""
    m, k, n = (max(1, round(size / x)) * x for x in scheme.format)
    return Shape(m, n, k, scheme.name)


def speeds(
    some: Sequence[Scheme],
    size: int,
    rounds: int = 0,
    after_round: Callable[[object], None] | None = None,
    seconds: float | None = None,
) -> tuple[Shape, list[str], str, str, str | None]:
    """Predict the speeds of schemes in float32, or measure them in `rounds`.

    Returns the shape, which the format of the schemes divides, if they have one format; the time of
    falcon's classical path over each scheme's; how other programs disturbed that; what "auto"
    chooses among all schemes, and the best of the first one's format, None if it considers none of
    them.
    """
    alike = len({x.format for x in some}) == 1
    shape = shape_of(some[0], size) if alike else Shape(size, size, size)
    wanted: list[str | Scheme] = ["auto", "classical", *some]
    auto, *plans = (
        falcon.plan((shape.M, shape.K), (shape.K, shape.N), "float32", scheme=x) for x in wanted
    )
    disturbed = ""
    if rounds:
        methods = list(dict.fromkeys(x.method for x in plans))  # those of equal schemes once
        measured = compare(
            *(plans[0], [Candidate(x, ()) for x in methods], rounds, seconds or 10.0),
            after_round=after_round,
        )
        records = {x.candidate.method: x.record for x in measured}
        found = [records[x.method].over(records[plans[0].method]) for x in plans[1:]]
        disturbed = max(x.doubt for x in found)
        speeds = [f"{x}, {x.verdict}" for x in found]
    else:
        times = [predicted(x).total for x in plans]
        speeds = [f"{times[0] / x:.3f}" for x in times[1:]]
    candidates = [
        x
        for x in auto.candidates
        if x.allowed and x.method.scheme and x.method.scheme.format == some[0].format
    ]
    best = preferred_for(auto, candidates).method.label if candidates else None
    return shape, speeds, disturbed, auto.method.label, best


def verify_files(paths: list[str]) -> int:
    """Print what files hold, schemes or formulas, a line each, and equations that fail."""
    width, wrong = max(len(Path(x).name) for x in paths), 0
    titles = "file", "format", "equations that fail", "additions", "RMS growth", ""
    with Progress("verifying", unit="schemes") as progress:
        for path in ("", *paths):
            progress.say(f"verifying {path}")
            for name, *cells in _verified(path) if path else [titles]:
                text = "{:14}{:>21}{:>11}{:>12}  {}".format(*cells)
                progress.print(f"{name:{width}}  {text}".rstrip())
                wrong += path != "" and cells[1] != "0"
    return 1 if wrong else 0


def _verified(path: str) -> Iterator[tuple[str, ...]]:
    """Yield the lines of a file, as cells; of schemes that are right no equation fails: "0"."""
    name = Path(path).name
    try:
        if path.lower().endswith(FORMULAS):
            with suppress(falcon.SchemeError):  # other formats, or `load_each` says why
                found = schemes.check(text_of(content_of(Path(path)), Path(path)))
                if not found:
                    size = f"<{','.join(map(str, found.format))};{found.rank}>"
                    count = f"{len(found.violations)} of {found.equations}"
                    yield name, size, count, "", "", "; ".join(found.notes + found.differences)
                    return
        for x in load_each(path):
            if isinstance(x, falcon.SchemeError):
                yield name, "", "", "", "", str(x)
                continue
            told = [x.name] * (x.name != Path(path).stem) + [f"equals {y}" for y in equal_to(x)]
            size, adds = repr(x).split()[-1][:-1], str(x.additions.reduced)
            yield name, size, "0", adds, f"{x.rms_growth:.2f}", ", ".join(told)
    except (falcon.SchemeError, OSError) as error:
        yield name, "", "", "", "", str(error)


def equal_to(scheme: Scheme) -> list[str]:
    """Return stored schemes of which an image has the same products, in any order."""
    return [
        name
        for name in schemes.names()
        if (stored := facts_of(name)[0]).rank == scheme.rank
        and sorted(stored[1:4]) == sorted(scheme.format)
        and any(_products(x) == _products(scheme) for x in schemes.symmetries(schemes.get(name)))
    ]


def _products(scheme: Scheme) -> list[list[Any]]:
    """Return the coefficients of the products in order, the first ones of each sum positive."""
    rows = [x.reshape(scheme.rank, -1) for x in (scheme.U, scheme.V, scheme.W)]
    for i, x in enumerate(rows[:2]):
        signs = np.sign(x[np.arange(len(x)), (x != 0).argmax(1)])[:, None]
        rows[i], rows[2] = x * signs, rows[2] * signs
    return sorted(np.hstack(rows).tolist())


def command(options: argparse.Namespace) -> int:
    """Run `schemes`: print, verify or compare schemes."""
    if options.show is not None:
        name = options.show
        for scheme in _held(name):
            with Progress("counting additions"):
                naive, reduced = scheme.additions
            print(f"{str(scheme).split(chr(10) * 2, 1)[0]}\n\n{scheme.to_formulas()}")
            if reduced < naive:
                print(f"\nwith shared sums, {reduced} additions:\n")
                print(scheme.to_formulas(shared=True))
        return 0
    if options.verify:
        return verify_files(options.verify)
    if options.seconds is not None and not (options.measure and options.seconds > 0):
        raise ValueError("--seconds goes with --measure, and is more than 0")
    if options.size < 1:
        raise ValueError("--size must be at least 1")
    if options.compare:
        held = [(y, x) for x in options.compare for y in _held(x)]
        times = Counter(x.name for x, _ in held)
        # Schemes of one name, such as a find beside the catalogue's, are told apart by their files.
        _print_speeds(
            [x if times[x.name] == 1 else x.renamed(y, x.source) for x, y in held], options
        )
        for x, path in held:
            if path.lower().endswith(SUFFIXES) and (same := equal_to(x)):
                print(f"{path} equals {', '.join(same)}")
        return 0
    found = [schemes.get(name) for name in schemes.names()]
    if options.format is not None:
        return _schemes_of_format(found, options)
    if options.measure:
        raise ValueError("--measure goes with --compare, or a format such as 3x4x4")
    _print_schemes(found)
    return 0


def _schemes_of_format(found: list[Scheme], options: argparse.Namespace) -> int:
    """Print the costs and speeds of a format's schemes, and what "auto" chooses."""
    wanted = _format(options.format)
    found = [schemes.permuted(x, *wanted) for x in found if sorted(x.format) == sorted(wanted)]
    with Progress("building the best scheme"):
        best = schemes.best(*wanted)
    if all(best != x for x in found):
        found.append(best)
    chosen, label = _print_speeds(found, options)
    of_these = f"of these it would take {label}" if label else "it considers none of these"
    print(f'"auto" takes {chosen} there; {of_these}')
    return 0


def _held(name: str) -> list[Scheme]:
    """Return the scheme of a name, or those in a file."""
    is_file = name.lower().endswith(SUFFIXES)
    return schemes.load_all(name) if is_file else [schemes.get(name)]


def _print_speeds(found: list[Scheme], options: argparse.Namespace) -> tuple:
    """Print costs and speeds; return what "auto" chooses, and what it takes of these."""
    how, rounds = ("measured", 5) if options.measure else ("predicted", 0)
    with Progress("measuring" if rounds else "predicting") as progress:
        shape, told, disturbed, *chosen = speeds(
            found, options.size, rounds, progress.step, options.seconds
        )
    note = f"{how} speed, over falcon's classical algorithm, {shape.M} x {shape.N} x {shape.K} "
    note += f"float32; {INTERVAL}" if rounds else "float32; --measure measures it"
    note += f"; undecided: {withheld(disturbed)}" if disturbed else ""
    _print_schemes(found, (how, *told), note)
    return tuple(chosen)


def _print_schemes(found: list[Scheme], column: Sequence[str] = ("",), note: str = "") -> None:
    """Print a table of schemes, and their sources.

    `column`: an additional one with its title; `note`: what it means.
    """
    title, *cells = column
    held = sorted(
        zip(found, cells or [""] * len(found), strict=True),
        key=lambda x: (sorted(x[0].format), x[0].rank, sum(x[0].nnz)),
    )
    rows: list[tuple[str, ...]] = [("name", "format", "rank", "bound", "nnz U+V+W", "adds",
                                    "shared", "growth", "e_max", title, "")]  # fmt: skip
    sources: dict[str, list[str]] = {}
    with Progress("counting additions"):
        for x, cell in held:
            sources.setdefault(re.split("[,;]", x.source)[0], []).append(x.name)
            rows.append((
                x.name, "<{},{},{}>".format(*x.format), str(x.rank), f"{x.speedup_bound:.3f}",
                "+".join(map(str, x.nnz)), str(x.additions.naive), str(x.additions.reduced),
                f"{x.rms_growth:.2f}", str(x.e_max), cell, "",
            ))  # fmt: skip
    *few, (most, names) = sorted(sources.items(), key=lambda x: len(x[1]))
    few.append((most, names if len(names) <= _MOST_NAMES else ["all others" if few else "all"]))
    print(format_table(rows, left=2))
    print(f"\n{_COLUMNS}", *([fill(note, _WIDTH)] if note else []), sep="\n")
    print(*(fill(f"{', '.join(of)}: {x}", _WIDTH, subsequent_indent="  ") for x, of in few),
          sep="\n")  # fmt: skip


def _format(text: str) -> tuple[int, int, int]:
    match = re.fullmatch(r"(\d{1,4})[x,](\d{1,4})[x,](\d{1,4})", text.lower(), re.ASCII)
    if not match:
        hint = f"; --show {text} prints that scheme" if text in schemes.names() else ""
        raise ValueError(f'format {text!r}: expected three sizes such as "3x4x4"{hint}')
    return int(match[1]), int(match[2]), int(match[3])
