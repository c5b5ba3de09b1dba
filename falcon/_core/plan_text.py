"""A plan in words: what `str` and `Plan.explain` return."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from falcon._tools.text import format_table

from .bound import promised
from .centring import may_centre
from .ladder import is_bound, rungs_of

_LONG = 10.0  # seconds, from which times are not in ms


def summary(plan: Any) -> str:
    """Return what will run, and what is predicted, in a few lines."""
    p = plan.problem
    lines = [
        f"{p}: {plan.method.label} on backend {plan.backend.name}",
        f"  why        {plan.why}",
    ]
    if plan.scheme is not None:
        s = plan.scheme
        lines.append(
            f"  scheme     <{s.m},{s.k},{s.n};{s.rank}>, speed-up bound {s.speedup_bound:.3f}"
        )
        lines.append(f"  chunks     M, N, K = {', '.join(map(str, plan.method.chunks))}")
    lines += () if plan.rewrite is None else (f"  {x}" for x in plan.rewrite.told(plan))
    exact = "exact" if p.is_exact else f"{plan.growth:.2f} x classical RMS error"
    exact += ", less where data have a mean" if may_centre(plan) else ""
    by_integers = plan.rewrite is not None and plan.rewrite.promised(plan) is not None
    lines += [] if by_integers else [f"  growth     {exact}"]
    if is_bound(p, plan.options):
        lines.append(f"  error      {promised(plan):.1e} promised, {plan.options.error:.1e} asked")
    lines.append(f"  workspace  {plan.workspace / 2**20:.1f} MiB")
    if plan.seconds:
        total = sum(time for _, time in plan.seconds)
        unit, per_second = ("ms", 1e3) if total < _LONG else ("s", 1)
        parts = ", ".join(f"{name} {time * per_second:.2f}" for name, time in plan.seconds)
        lines.append(f"  predicted  {total * per_second:.2f} {unit} ({parts})")
        if plan.rates:
            lines.append(f"  rates      {plan.rates}")
    return "\n".join(lines)


def explained(plan: Any, most: int) -> str:
    """Return the summary, the rungs of an error that is named, and the table of candidates."""
    p = plan.problem
    shown, found = [], set()
    for at, x in enumerate(plan.candidates):
        is_first = x.method.is_classical and x.method.backend not in found
        if at < most or is_first:
            shown.append(x)
        if is_first:
            found.add(x.method.backend)
    rows = [("candidate", "backend", "ms", "growth", "MiB", "")]
    for at, x in enumerate(shown):
        chosen = "the best of floats, with which the others are compared" if at else "chosen"
        rows.append(
            (
                x.method.label,
                x.method.backend,
                f"{x.total * 1e3:.2f}",
                f"{x.method.growth:.2f}",
                f"{x.method.workspace / 2**20:.1f}",
                x.refused or chosen,
            )
        )
    ladder = f"{format_table(_rungs(plan), left=1)}\n\n" if is_bound(p, plan.options) else ""
    left = len(plan.candidates) - len(shown)
    table = format_table(rows, left=2) if len(rows) > 1 else "no candidates were compared"
    return f"{plan}\n\n{ladder}{table}" + (f"\n... and {left} more" if left > 0 else "")


def _rungs(plan: Any) -> list[tuple[str, ...]]:
    """Return the fastest candidate of each arithmetic, its promise, and why it was not taken."""
    p, error = plan.problem, plan.options.error
    rows: list[tuple[str, ...]] = [("arithmetic", "ms", "promises", "")]
    known = dict.fromkeys((*(x.method.compute_type for x in plan.candidates), *rungs_of(p), None))
    chosen = sum(seconds for _, seconds in plan.seconds)
    of_parts = plan.rewrite is not None
    if of_parts:
        rows.append((plan.label, f"{chosen * 1e3:.2f}", f"{promised(plan):.1e}", "chosen"))
    for row in known:
        alike = [x for x in plan.candidates if x.method.compute_type is row and not x.method.name]
        some = [x for x in alike if x.allowed]
        best = min(some, key=lambda x: x.total, default=None)
        ms, least = "", _least(plan, row)
        if best is not None:
            ms = f"{best.total * 1e3:.2f}"
        if row is plan.method.compute_type and not of_parts:
            least, why = promised(plan), "chosen"
            ms = f"{chosen * 1e3:.2f}" if chosen else ""
        elif least is None:
            why = plan.backend.why_not(p, row)
        elif least > error:
            why = f"errs by more than {error:.1e}"
        elif alike and not some:
            why = alike[0].refused
        else:
            why = f"{error / least:.3g} times as accurate as needed"
            if best is not None and chosen:
                why += f", {best.total / chosen:.1f} x as long"
        told = "" if least is None else f"{least:.1e}"
        rows.append(("native" if row is None else row.arithmetic.name, ms, told, why))
    return rows


def _least(plan: Any, row: Any) -> float | None:
    """Return what classical products by an arithmetic promise; None: the backend has none."""
    p, backend = plan.problem, plan.backend
    if backend.why_not(p, row) is not None:
        return None
    method = backend.candidates(p, (None,), None, row)[0]
    units = [(x or p.operand).unit_roundoff for x in (row, None, *rungs_of(p))]
    higher = plan if min(units) < units[0] else None  # as which it is made again
    return promised(replace(plan, method=method, guarded=False, rewrite=None, higher=higher))
