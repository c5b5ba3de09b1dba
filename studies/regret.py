"""How good the decisions are, judged by recorded times: ``python studies/regret.py [FILE ...]``.

Regret is how much longer the choice takes than the fastest method that was timed: 0.02 is 2 %. The
records in ``studies/records`` (made by ``records.py``) hold the times; nothing is measured here, so
that any model and any rates are judged on all machines, in seconds, anywhere::

    python studies/regret.py             # each machine: shipped rates, without its rows, fitted
    python studies/regret.py --problems  # every problem, its choice and the fastest method
    python studies/regret.py --fit       # rows of falcon/decision/shipped.json from the records

Schemes are judged as "auto" runs them: their times hold what it measures before. "Without its rows"
is what most users have: rates of another kind of machine, and costs of the nearest that has them.
The last line is the mean of that over the records of this engine. The fastest of many
noisy times is too low, so that the fastest method is found in one half of the rounds, and compared
in the other half; regret may then be negative. The records hold the medians of these halves.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from itertools import permutations
from pathlib import Path
from statistics import mean
from types import SimpleNamespace

import ml_dtypes  # noqa: F401 - registers bfloat16
import numpy as np
from common import show

from falcon._core.dtypes import dtype_of
from falcon._core.fit import fit_rates
from falcon._core.model import seconds
from falcon._core.plan import Candidate, Method
from falcon._core.policy import host_policy
from falcon._core.problem import Problem
from falcon.decision.library import FEW_ROWS, has_costs, has_own_kernels, library_over
from falcon.decision.rates import on_threads, shipped, stand_ins
from falcon.decision.search import preferred

RECORDS = Path(__file__).with_name("records")
# Records of earlier days are of an engine that is no more.
SINCE = "2026-11-28"
TITLES = ("", "problems", "float32", "float64", "others", "all", "worst", "of", "least over NumPy")


@dataclass(frozen=True)
class Case:
    """One recorded problem: its methods, and of each the median seconds of two halves."""

    machine: str
    cpu: str
    kernels: str
    blas: str
    date: str
    problem: Problem
    options: tuple[Method, ...]
    halves: tuple[tuple[float, float], ...]

    @property
    def times(self):
        return [mean(x) for x in self.halves]

    def regret(self, chosen):
        """Return how much longer a method takes than the fastest of one half, in the other."""
        found = []
        for learn, judge in permutations(zip(*self.halves, strict=True)):
            found.append(judge[chosen] / judge[learn.index(min(learn))] - 1)
        return mean(found)

    def over_numpy(self, chosen):
        """Return how many times as fast as NumPy a method is; None: NumPy was not timed."""
        for x, time in zip(self.options, self.times, strict=True):
            if x.backend == "numpy" and x.is_classical:
                return time / self.times[chosen]
        return None


def load(path):
    """Return the cases of a record file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    machine = content["machine"]
    cpu = machine["cpu"].rpartition("(")[2].rstrip(")")
    schemes = [_scheme(*x) for x in content["schemes"]]
    kernels = (machine["kernels"][x] for x in ("cpu", "numpy"))
    about = machine["name"], cpu, *kernels, machine["date"]
    return [_case(about, schemes, x) for x in content["problems"]]


def _case(about, schemes, x):
    problem = Problem(*x["shape"], dtype_of(np.dtype(x["dtype"])), threads=x["threads"])
    options, halves = [], []
    for backend in ("numpy", "cpu"):
        for scheme, first, second, *other in x[backend]:
            how = other[0] if other else {}
            options.append(_option(backend, schemes[scheme], tuple(x["shape"]), how))
            halves.append((first / 1e3, second / 1e3))
    return Case(*about, problem, tuple(options), tuple(halves))


def _option(backend, scheme, shape, about):
    """Return a method as the model sees it; `about`: what is not as usual."""
    chunks, again = (tuple(about.get(x, y)) for x, y in (("chunks", shape), ("again", (1, 1, 1))))
    how = {
        "b_in_place": about.get("few_rows", False),
        "large_workspace": about.get("roomy", False),
        "rounded_growth": scheme.rms_growth,
    }
    held = scheme if scheme.rank > 1 else None
    return Method(backend, held, chunks, 0, backend == "cpu", again, **how)


def _scheme(name, m, k, n, rank, u, v, w, growth, levels):
    """Return a stand-in with the same counts."""
    sums = tuple(SimpleNamespace(additions=x) for x in (u, v, w))
    about = {"name": name, "m": m, "k": k, "n": n, "rank": rank, "format": (m, k, n)}
    return _Scheme(**about, shared_sums=sums, rms_growth=growth, levels=levels)


class _Scheme(SimpleNamespace):
    __hash__ = object.__hash__


# --- choices and rates ----------------------------------------------------------------------


def choice(case, rates, library=None):
    """Return the number of the method that falcon chooses by rates of its kernels and a BLAS's."""
    problem, policy = case.problem, host_policy(case.problem)
    few = any(x.b_in_place for x in case.options)
    own = few or has_own_kernels(problem) or not problem.operand.has_blas
    ratio = library_over(problem, rates, library) if library and has_costs(problem) else None
    if ratio is not None and not (own and problem.M <= FEW_ROWS):
        own = ratio >= 1
    classical = {x.backend: x for x in case.options if x.is_classical}
    if policy.why_too_small(problem) is not None or (not own and ratio is None):
        return case.options.index(classical["cpu" if own else "numpy"])
    kept = [Candidate(x, seconds(problem, x, rates)) for x in case.options if x.backend == "cpu"]
    if ratio is not None:
        total = next(x.total for x in kept if x.method is classical["cpu"])
        kept.append(Candidate(classical["numpy"], (("multiply", total * ratio),)))
    elif library and problem.operand.has_blas and "numpy" in classical:
        kept.append(Candidate(classical["numpy"], seconds(problem, classical["numpy"], library)))
    return case.options.index(preferred(kept, policy).method)


def rates_of(case, without=False, backend="cpu"):
    """Return the rates that falcon ships for the case's machine; or those of another machine."""
    rows = [x for x in shipped() if not (without and x.machine == case.machine)]
    operand = case.problem.operand
    kernels = case.kernels if backend == "cpu" else case.blas
    near = stand_ins(rows, backend, kernels, operand, "cpu", case.kernels, case.cpu)
    return on_threads({x.threads: x.rates for x in near}, case.problem.threads, 0.0)


# Models with fewer terms than falcon's.
FEWER = {
    "FalconGEMM's three rates": {"overlap": 1.0, "tile": (1, 1)},
    "without tiles": {"tile": (1, 1)},
    "combines overlap with memory": {"overlap": 1.0},
    "additions cost nothing": {"add": 1e15},
    "memory costs nothing": {"bandwidth": 1e15},
}


def group(case):
    return case.problem.operand.name, case.problem.threads


def fitted(cases):
    """Return rates per group (dtype, threads) that fit the times best."""
    found = {}
    for key in sorted({group(x) for x in cases}):
        some = [x for x in cases if group(x) == key]
        rows = [
            ((x.problem, method), time)
            for x in some
            for method, time in zip(x.options, x.times, strict=True)
            if method.backend == "cpu" and x.problem.flops > 1e9
        ]
        calls, times = zip(*rows, strict=True)
        known = rates_of(some[0])
        rates = fit_rates(calls, times, known.tile, guarded=True)[0]
        found[key] = replace(rates, classical=known.classical)
    return found


# --- tables ---------------------------------------------------------------------------------


def judged(cases):
    """Return the regret of each problem by rates and costs of other machines."""
    return [x.regret(choice(x, *(rates_of(x, True, y) for y in ("cpu", "numpy")))) for x in cases]


def summary(name, cases, rates, library=lambda case: rates_of(case, backend="numpy")):
    """Return a row: mean regrets, the worst, and the least speed over NumPy."""
    found = [(x, choice(x, rates(x), library(x))) for x in cases]

    def average(*dtypes):
        some = [x.regret(y) for x, y in found if x.problem.operand.name in dtypes]
        return f"{mean(some):.1%}" if some else "-"

    worst, at = max(found, key=lambda x: x[0].regret(x[1]))
    others = {x.problem.operand.name for x in cases} - {"float32", "float64"}
    speeds = [x.over_numpy(y) for x, y in found]
    return (
        *(name, len(cases), average("float32"), average("float64"), average(*others)),
        f"{mean(x.regret(y) for x, y in found):.1%}",
        f"{worst.regret(at):.1%}",
        f"{worst.problem}, {worst.problem.threads}",
        f"{min(x for x in speeds if x):.3f}",
    )


def overview(cases):
    fits = fitted(cases)
    rows = [TITLES, summary("shipped rates", cases, rates_of)]
    other = [lambda x, y=y: rates_of(x, True, y) for y in ("cpu", "numpy")]
    rows.append(summary("without this machine's", cases, *other))
    rows.append(summary("by rules of sizes", cases, rates_of, lambda _: None))
    rows.append(summary("fitted to these records", cases, lambda x: fits[group(x)]))
    for name, changes in FEWER.items():
        rows.append(summary(name, cases, lambda x, y=changes: replace(rates_of(x), **y)))
    show(rows)


def problems(cases):
    rows = [
        (
            "problem",
            "threads",
            "choice",
            "regret",
            "without its rows",
            "regret",
            "fastest",
            "over NumPy",
        )
    ]
    for x in cases:
        mine, others = (
            choice(x, *(rates_of(x, without, y) for y in ("cpu", "numpy")))
            for without in (False, True)
        )
        names = [f"{y.backend} {y.label}" for y in x.options]
        speed, best = x.over_numpy(mine), x.times.index(min(x.times))
        rows.append((x.problem, x.problem.threads, names[mine], f"{x.regret(mine):.1%}",
                     names[others], f"{x.regret(others):.1%}", names[best],
                     f"{speed:.3f}" if speed else "-"))  # fmt: skip
    show(rows)


def fit(cases):
    rows = []
    for (dtype, threads), rates in fitted(cases).items():
        x = cases[0]
        about = {"machine": x.machine, "cpu": x.cpu, "backend": "cpu", "kernels": x.kernels}
        values = {
            k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in asdict(rates).items()
        }
        rows.append(json.dumps({**about, "dtype": dtype, "threads": threads, **values}))
    print("[\n" + ",\n".join(rows) + "\n]")


def main():
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=how)
    parser.add_argument("files", nargs="*", type=Path, default=sorted(RECORDS.glob("*.json")))
    for name in ("problems", "fit"):
        parser.add_argument(f"--{name}", action="store_true")
    options, left_out = parser.parse_args(), []
    for path in options.files:
        cases = load(path)
        if options.fit:
            fit(cases)
            continue
        x = cases[0]
        older = ", of an older engine" if x.date < SINCE else ""
        print(f"\n{x.machine}: {x.cpu}, {x.kernels}, {len(cases)} problems{older}\n")
        (problems if options.problems else overview)(cases)
        left_out += [] if older else judged(cases)
    if left_out:
        print(f"\nEach machine left out: mean {mean(left_out):.1%}, worst {max(left_out):.1%}")


if __name__ == "__main__":
    main()
