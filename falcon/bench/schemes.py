"""Which schemes pay: the best scheme of every format beside falcon's own classical path.

Every scheme runs at sizes that its format divides; ``python -m falcon bench --schemes`` prints the
table or writes CSV. ``python -m falcon schemes 3x4x5`` shows how fast those of one format are.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import falcon
from falcon._backends import available_backends
from falcon._core.plan import Candidate
from falcon._front.tune import measured
from falcon.decision.rates import rates
from falcon.decision.select import preferred
from falcon.schemes import Scheme, get, names

from .here import Effort, compare
from .records import estimate_of
from .tables import format_cases
from .workloads import Case, Shape

SIZES = (2048, 4096)


def best_names() -> list[str]:
    """Return, per format, the stored scheme of lowest rank with the fewest additions."""
    found: dict[tuple[int, ...], Scheme] = {}
    for scheme in (get(name) for name in names()):
        if scheme.is_classical:
            continue
        held = found.setdefault(tuple(sorted(scheme.format)), scheme)
        if (scheme.rank, scheme.additions.reduced) < (held.rank, held.additions.reduced):
            found[tuple(sorted(scheme.format))] = scheme
    return [found[key].name for key in sorted(found)]


def shape_of(scheme: Scheme, size: int) -> Shape:
    """Return sizes near `size` that the format divides."""
    m, k, n = (max(1, round(size / x)) * x for x in scheme.format)
    return Shape(m, n, k, scheme.name)


def case(name: str, size: int, dtype: str) -> Case:
    """Return the case of a scheme at about that size."""
    return Case(str(size), shape_of(get(name), size), dtype)


def measure(case: Case, options: dict[str, Any], effort: Effort) -> dict[str, Any]:
    """Measure a scheme beside the classical path of the same backend; return the case."""
    sides = {"falcon": case.shape.label, "falcon classical": "classical"}
    return compare(case, {x: {**options, "scheme": y} for x, y in sides.items()}, effort)


class Speeds(NamedTuple):
    """How fast the schemes of a format are at one shape, and what "auto" chooses there.

    Attributes
    ----------
    shape : Shape
    speeds : list of str
        Time of falcon's classical path over that of each scheme.
    chosen : str
        Label of what "auto" chooses among all schemes.
    best : str or None
        Label of the best scheme of this format; None if "auto" considers none of them.
    """

    shape: Shape
    speeds: list[str]
    chosen: str
    best: str | None


def speeds(found: Sequence[Scheme], size: int, rounds: int = 0) -> Speeds:
    """Predict the speeds of schemes of one format in float32, or measure them in `rounds`."""
    shape = shape_of(found[0], size)
    backends = available_backends()
    known = {x.name: x for x in backends}
    wanted: list[str | Scheme] = ["auto", "classical", *found]
    auto, classical, *plans = (
        falcon.plan((shape.M, shape.K), (shape.K, shape.N), "float32", scheme=x) for x in wanted
    )
    if rounds:
        first, *others = measured(
            classical, [Candidate(x.option, ()) for x in (classical, *plans)], rounds, 10.0
        )
        told = [str(x.record.over(first.record)) for x in others]
    else:
        times = []
        for plan in (classical, *plans):
            backend, problem = known[plan.backend.name], plan.problem
            rated = rates(backend, problem, backends)
            times.append(backend.predicted(problem, plan.option, rated).total)
        told = [f"{times[0] / x:.3f}" for x in times[1:]]
    mine = [
        (known[x.option.backend], x)
        for x in auto.candidates
        if x.allowed and x.option.scheme and x.option.scheme.format == found[0].format
    ]
    best = preferred(mine, backends[0].policy(auto.problem))[1].option.label if mine else None
    return Speeds(shape, told, auto.option.label, best)


def fastest_first(cases: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort cases by size, then by the speed-up over the classical path."""
    return sorted(cases, key=lambda x: (int(x["workload"]), -_speedup(x).median))


def _speedup(case: dict[str, Any]) -> Any:
    return estimate_of(case["speedups"]["falcon classical"])


def to_csv(cases: Iterable[dict[str, Any]]) -> str:
    """Return the text of a CSV file; a speed-up is known to ± its uncertainty."""
    text = io.StringIO()
    head = ("size", "scheme", "M", "K", "N", "gflops", "classical_gflops", "speedup", "uncertainty")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    for x in cases:
        rates = (x["sides"][name]["gflops"] for name in ("falcon", "falcon classical"))
        found = _speedup(x)
        known = (round(y, 4) for y in (found.median, found.uncertainty * found.median))
        writer.writerow([x["workload"], x["label"], x["M"], x["K"], x["N"], *rates, *known])
    return text.getvalue()


def format_speeds(cases: Iterable[dict[str, Any]]) -> str:
    """Return the tables, one per size, the fastest scheme first."""
    sizes: dict[str, list[dict[str, Any]]] = {}
    for x in fastest_first(cases):
        sizes.setdefault(x["workload"], []).append(x)
    return "\n\n".join(f"about {size}\n{format_cases(found)}" for size, found in sizes.items())
