"""A plan in words: what `str` and `Plan.explain` return."""

from __future__ import annotations

from typing import Any

from falcon._tools.text import format_table

from .centring import may_centre

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
    lines.append(f"  growth     {exact}")
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
    """Return the summary and the table of candidates."""
    shown, found = [], set()
    for at, x in enumerate(plan.candidates):
        is_first = x.method.is_classical and x.method.backend not in found
        if at < most or is_first:
            shown.append(x)
        if is_first:
            found.add(x.method.backend)
    rows = [("candidate", "backend", "ms", "growth", "MiB", "")]
    for x in shown:
        rows.append(
            (
                x.method.label,
                x.method.backend,
                f"{x.total * 1e3:.2f}",
                f"{x.method.growth:.2f}",
                f"{x.method.workspace / 2**20:.1f}",
                x.refused or "chosen",
            )
        )
    left = len(plan.candidates) - len(shown)
    table = format_table(rows, left=2) if len(rows) > 1 else "no candidates were compared"
    return f"{plan}\n\n{table}" + (f"\n... and {left} more" if left > 0 else "")
