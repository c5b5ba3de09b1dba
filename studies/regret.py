"""How good the decisions are, judged by recorded times: ``python studies/regret.py``.

Regret is how much longer the choice takes than the fastest method that was timed: 0.02 is 2 %.
The records in ``studies/records`` (made by ``records.py``) hold the times; nothing is measured here,
so that any model and any rates are judged on all machines, in seconds, anywhere::

    python studies/regret.py                  # every machine: shipped rates, and without its rows
    python studies/regret.py --ablation       # regret without each term of the model, refitted
    python studies/regret.py --problems       # every problem with its choice and the fastest method
    python studies/regret.py --fit >new.json  # rows of falcon/decision/shipped.json from the records

"Without its rows" is what most users have: rates of another machine. A fit is least squares of the
relative errors of all methods, no cost negative; in ``--ablation`` the problems of one half are
judged by a fit to the other half.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from statistics import mean, median
from types import SimpleNamespace

import ml_dtypes  # noqa: F401 - registers bfloat16
import numpy as np

from falcon._core.dtypes import of
from falcon._core.fit import fit_rates
from falcon._core.model import seconds
from falcon._core.plan import Candidate, Option
from falcon._core.policy import host_policy
from falcon._core.problem import Problem
from falcon._core.rates import Rates
from falcon._core.text import format_table
from falcon.decision import rates as shipped
from falcon.decision.select import preferred

RECORDS = Path(__file__).with_name("records")


@dataclass(frozen=True)
class Case:
    """One recorded problem: its methods, and the median seconds of each."""

    machine: dict
    problem: Problem
    options: tuple[Option, ...]
    times: tuple[float, ...]

    @property
    def group(self):
        return self.problem.operand.name, self.problem.threads


def load(path):
    """Return the cases of a record file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return [_case(content["machine"], x) for x in content["problems"]]


def _case(machine, x):
    operand = of(np.dtype(x["dtype"]))
    problem = Problem(*x["shape"], operand, threads=x["threads"])
    options = tuple(_option(y) for y in x["methods"])
    return Case(machine, problem, options, tuple(median(y["seconds"]) for y in x["methods"]))


def _option(x):
    """Return a method as the model sees it; its scheme is a stand-in with the same counts."""
    m, k, n, rank, *additions = x["counts"]
    scheme = None
    if rank > 1:
        sums = tuple(SimpleNamespace(additions=y) for y in additions)
        scheme = _scheme(x["scheme"], m, k, n, rank, tuple(additions), x["growth"], x["levels"])
        scheme.shared_sums = sums
    return Option(x["backend"], scheme, tuple(x["chunks"]), x["workspace"], x["fused"],
                  tuple(x["again"]), few_rows=x["few_rows"], is_roomy=x["roomy"],
                  rounded_growth=x["growth"])  # fmt: skip


class _Stub(SimpleNamespace):
    __hash__ = object.__hash__


@cache
def _scheme(name, m, k, n, rank, _additions, growth, levels):
    return _Stub(name=name, m=m, k=k, n=n, rank=rank, rms_growth=growth, levels=levels)


# --- the choice -----------------------------------------------------------------------------


def choice(case, rates):
    """Return the number of the method that falcon would choose by some rates of its own kernels."""
    policy, problem = host_policy(case.problem), case.problem
    own = [at for at, x in enumerate(case.options) if x.backend == "cpu"]
    if policy.why_too_small(problem) is not None:
        return next(at for at in own if case.options[at].is_classical)
    kept = [Candidate(case.options[at], seconds(problem, case.options[at], rates)) for at in own]
    best = preferred(kept, policy).option
    return next(at for at in own if case.options[at] is best)


def regret(case, rates):
    """Return how much longer the choice takes than the fastest method."""
    return case.times[choice(case, rates)] / min(case.times) - 1


# --- rates ----------------------------------------------------------------------------------


def shipped_rates(case, without=False):
    """Return the rates that falcon ships for the case's machine; or those of another machine."""
    cpu = case.machine["cpu"].split("(")[-1].rstrip(")")
    rows = [x for x in shipped._rows() if not (without and x.cpu == cpu)]
    kernels = case.machine["kernels"]["cpu"]
    near = shipped.nearest(rows, "cpu", kernels, case.problem.operand, cpu)
    known = {x.threads: x.rates for x in near}
    return shipped.on_threads(known, case.problem.threads, 0.0)


def fit(cases):
    """Return the rates that fit the times of some cases of one type and number of threads best."""
    rows = [
        (case.problem, option, time)
        for case in cases
        for option, time in zip(case.options, case.times, strict=True)
        if option.backend == "cpu"
    ]
    *calls, times = zip(*rows, strict=True)
    return fit_rates(list(zip(*calls, strict=True)), times, shipped_rates(cases[0]).tile)[0]


def fitted(cases):
    """Return rates per group (dtype, threads)."""
    found = {}
    for group in sorted({x.group for x in cases}):
        some = [x for x in cases if x.group == group]
        found[group] = fit(some)
    return found


def halves(cases):
    """Return the regret of every case by a fit to the other half of the cases."""
    found = []
    for group in sorted({x.group for x in cases}):
        some = [x for x in cases if x.group == group]
        for half in (0, 1):
            learn, judge = some[half::2], some[1 - half :: 2]
            if learn:
                rates = fitted(learn)[group]
                found += [(x, regret(x, rates)) for x in judge]
    return found


# --- tables ---------------------------------------------------------------------------------


def summary(name, found):
    """Return a row: mean regret of the float types, of all, and the worst."""
    def of_type(dtype):
        some = [r for x, r in found if x.problem.operand.name == dtype]
        return f"{mean(some):.1%}" if some else "-"

    worst_case, worst = max(found, key=lambda x: x[1])
    return (name, len(found), of_type("float32"), of_type("float64"), f"{mean(r for _, r in found):.1%}",
            f"{worst:.1%}", f"{worst_case.problem}, {worst_case.problem.threads} threads")  # fmt: skip


TITLES = ("", "problems", "float32", "float64", "all", "worst", "")


def show(rows):
    print(format_table([(*map(str, row), "") for row in rows], 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=sorted(RECORDS.glob("*.json")))
    for name in ("ablation", "problems", "fit"):
        parser.add_argument(f"--{name}", action="store_true")
    options = parser.parse_args()
    for path in options.files:
        cases = load(path)
        print(f"\n{path.stem}: {cases[0].machine['cpu']}, {len(cases)} problems\n")
        rows = [TITLES]
        ways = {
            "shipped rates": lambda x: shipped_rates(x),
            "without this machine's rows": lambda x: shipped_rates(x, without=True),
        }
        for name, way in ways.items():
            rows.append(summary(name, [(x, regret(x, way(x))) for x in cases]))
        rows.append(summary("fitted", [(x, regret(x, t[x.group])) for t in (fitted(cases),) for x in cases]))
        rows.append(summary("fitted to the other half", halves(cases)))
        show(rows)


if __name__ == "__main__":
    main()
