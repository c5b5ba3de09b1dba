"""x.T @ x, of which one triangle is computed.

::

    whole    one triangle by the classical algorithm
    cut      C = | C11      |   C21: an ordinary product, chosen like any other
                 | C21  C22 |   C11, C22: symmetric products, chosen in the same way

A cut saves what an LCMA saves in the product off the diagonal, which is half of the work at the
first cut and a quarter at the second. (Arrigoni, Maggioli, Massini and Rodolà, arXiv:2110.13042,
cut this way, with Strassen's scheme.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from falcon._core.options import Options
from falcon._core.plan import Backend, Candidate, Method, Part, Plan
from falcon._core.problem import Problem
from falcon._core.rewrite import Rewrite
from falcon._core.runner import Runner, SymmetricRunner
from falcon.decision.search import Search, search_for
from falcon.schemes import Scheme

_ON, _OFF = "on the diagonal", "off the diagonal"


@dataclass(frozen=True)
class Triangle(Rewrite):
    """A triangle as a block off the diagonal and two triangles on it."""

    def runner(self, plan: Plan) -> Runner:
        """Return what runs the parts one after the other."""
        parts = [(x.plan.runner, x.rows, x.columns) for x in plan.parts]
        return SymmetricRunner(parts, is_full=plan.problem.symmetric == "full")

    def error_bound(self, plan: Plan, a: np.ndarray, b: np.ndarray, proved: bool) -> np.ndarray:
        """Return the bounds of the blocks, and of their mirror images."""
        bound = np.empty((plan.problem.M, plan.problem.N))
        for x in plan.parts:
            block = x.plan.error_bound(a[x.rows], b[..., x.columns], proved=proved)
            bound[x.rows, x.columns] = block
            bound[x.columns, x.rows] = block.T
        return bound

    def told(self, plan: Plan) -> Iterator[str]:
        """Yield a line for each block."""
        for x in plan.parts:
            where = f"C[{x.rows.start}:{x.rows.stop}, {x.columns.start}:{x.columns.stop}]"
            yield f"{where}: {x.plan.method.label} on backend {x.plan.backend.name}"


def plan(
    problem: Problem, options: Options, backends: Sequence[Backend], _: Callable[..., Plan]
) -> Plan:
    """Plan a symmetric product whole or cut, as is predicted to be faster."""
    return _chosen(search_for(problem, options, backends))


def _chosen(search: Search) -> Plan:
    problem, options, policy = search.problem, search.options, search.policy
    if options.scheme == "classical":
        return search.plan()
    by_name = isinstance(options.scheme, Scheme)
    classical = replace(
        search, options=replace(options, scheme="classical"), kept=[], weights=[], refused=[]
    )
    why = policy.why_too_small(problem) or policy.no_gain
    whole = replace(classical.plan(), why=why, options=options)
    if problem.device is not None:  # tiles save more there than a scheme off the diagonal
        return replace(whole, why="one triangle, and its mirror")
    # If out overlaps x, later parts would read what an earlier one has written.
    if not problem.out_direct or problem.M < 2:
        return whole
    corner_size = replace(problem, M=problem.M // 2, N=problem.M // 2, symmetric="")
    if not by_name and (not whole.seconds or policy.why_too_small(corner_size)):
        return whole
    parts = _parts(search)
    if parts is None:
        return whole
    corner, *ends = (x.plan for x in parts)
    times = (_OFF, _total(corner)), (_ON, sum(map(_total, ends)))
    workspace = max(x.plan.workspace for x in parts)
    if problem.out_overlaps_c:  # the runner copies c
        workspace += problem.M * problem.N * problem.result.itemsize
    if options.workspace_limit is not None and workspace > options.workspace_limit:
        if by_name:
            raise ValueError(
                f"workspace_limit is {options.workspace_limit} bytes; {corner.method.label} off "
                f"the diagonal needs {workspace} with a copy of c, which overlaps out"
            )
        return whole
    method = Method(
        corner.method.backend,
        None,
        (problem.M, problem.N, problem.K),
        workspace,
        corner.method.fused_output,
        rounded_growth=max(x.plan.method.growth for x in parts),
        name=f"{corner.method.label} off the diagonal",
        compute_type=corner.method.compute_type,
    )
    made = Candidate(method, times)
    if not by_name and made.total * policy.least_gain > _total(whole):
        return replace(whole, table=lambda: _table(whole, made, policy.too_little))
    why = "requested"
    if not by_name:
        why = f"predicted {_total(whole) / made.total:.3f} x as fast as classical"
    return Plan(
        *(problem, corner.backend, method, why, () if by_name else times),
        table=lambda: _table(whole, made),
        guarded=corner.guarded,
        rates="" if by_name else corner.rates,
        options=options,
        parts=parts,
        rewrite=Triangle(),
    )


def _parts(search: Search) -> tuple[Part, ...] | None:
    """Cut x in halves and plan the parts; None where no scheme pays off the diagonal."""
    problem, options = search.problem, search.options
    M = problem.M
    half = -(-M // 2)
    first, second = slice(0, half), slice(half, M)
    rows, columns = (first, second) if problem.symmetric == "upper" else (second, first)
    sizes = rows.stop - rows.start, columns.stop - columns.start
    off = replace(problem, M=sizes[0], N=sizes[1], symmetric="")
    corner = search_for(off, options, search.backends).plan()
    if corner.scheme is None:
        return None
    smallest = isinstance(options.scheme, Scheme) and search.policy.why_too_small(
        replace(problem, M=half // 2, N=half // 2, symmetric="")
    )
    inner = replace(options, scheme="classical") if smallest else options
    ends = []
    for at in (first, second):
        size = at.stop - at.start
        part = replace(problem, M=size, N=size)
        ends.append(Part(_chosen(search_for(part, inner, search.backends)), at, at))
    return Part(corner, rows, columns), *ends


def _total(plan: Plan) -> float:
    return Candidate(plan.method, plan.seconds).total


def _table(whole: Plan, made: Candidate, lost: str = "") -> tuple[Candidate, ...]:
    """Return what was compared, the choice first."""
    times = whole.seconds or ((_ON, inf),)
    classical = Candidate(whole.method, times)
    if lost:
        return classical, replace(made, refused=lost), *whole.candidates[1:]
    slower = (classical.total - made.total) * 1e3
    return made, replace(classical, refused=f"{slower:.2f} ms slower"), *whole.candidates[1:]
