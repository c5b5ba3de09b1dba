"""The command `schemes`: how fast those of a format, or named ones, are; files are checked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import falcon
from falcon._core.plan import Candidate
from falcon._core.text import format_table
from falcon._front.planner import predicted, preferred
from falcon._front.tune import compare
from falcon.schemes import Scheme
from falcon.schemes.loaders import FORMULAS, head_of, text_of

from .workloads import Shape


def shape_of(scheme: Scheme, size: int) -> Shape:
    """Return sizes near `size` that the format divides."""
    m, k, n = (max(1, round(size / x)) * x for x in scheme.format)
    return Shape(m, n, k, scheme.name)


def speeds(
    schemes: Sequence[Scheme], size: int, rounds: int = 0
) -> tuple[Shape, list[str], str, str | None]:
    """Predict the speeds of schemes in float32, or measure them in `rounds`.

    Returns the shape, which the format of the schemes divides, if they have one format; the time of
    falcon's classical path over each scheme's; what "auto" chooses among all schemes, and the best
    of the first one's format, None if it considers none of them.
    """
    alike = len({x.format for x in schemes}) == 1
    shape = shape_of(schemes[0], size) if alike else Shape(size, size, size)
    wanted: list[str | Scheme] = ["auto", "classical", *schemes]
    auto, *plans = (
        falcon.plan((shape.M, shape.K), (shape.K, shape.N), "float32", scheme=x) for x in wanted
    )
    if rounds:
        classical, *others = compare(plans[0], [Candidate(x.method, ()) for x in plans], rounds)
        speeds = [str(x.record.over(classical.record)) for x in others]
    else:
        times = [predicted(x).total for x in plans]
        speeds = [f"{times[0] / x:.3f}" for x in times[1:]]
    candidates = [
        x
        for x in auto.candidates
        if x.allowed and x.method.scheme and x.method.scheme.format == schemes[0].format
    ]
    best = preferred(auto, candidates).method.label if candidates else None
    return shape, speeds, auto.method.label, best


def verify_files(paths: list[str]) -> int:
    """Print what a file of schemes holds; of several files, or of formulas, a table."""
    if len(paths) == 1 and not paths[0].lower().endswith(FORMULAS):
        for scheme in falcon.schemes.load_all(paths[0]):
            print(f"{scheme!r}: all Brent equations hold")
            print(str(scheme).split("\n\n", 1)[0])
        return 0
    rows, wrong = [("file", "format", "equations that fail", "additions", "RMS growth", "")], False
    for path in paths:
        whole = None
        try:
            if path.lower().endswith(FORMULAS):
                with suppress(falcon.SchemeError):  # other formats, or `load_all` says why
                    whole = falcon.schemes.check(text_of(head_of(Path(path)), Path(path)))
            right = (
                falcon.schemes.load_all(path) if whole is None else [whole.scheme] if whole else []
            )
        except falcon.SchemeError as error:
            rows.append((Path(path).name, "", "", "", "", str(error)))
            wrong = True
            continue
        if whole is not None and not whole:
            wrong = True
            size = f"<{','.join(map(str, whole.format))};{whole.rank}>"
            count = f"{len(whole.violations)} of {whole.equations}"
            rows.append((Path(path).name, size, count, "", "", "; ".join(whole.differences)))
        rows += [
            (Path(path).name, repr(x).split()[-1][:-1], "0", str(x.additions.reduced),
             f"{x.rms_growth:.2f}", "")
            for x in right
        ]  # fmt: skip
    print(format_table(rows, left=2))
    return 1 if wrong else 0
