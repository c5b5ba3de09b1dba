"""The choice: what `tune` has found, else the best predicted time within max_growth and limits.

That of x.T @ x, of which one triangle is computed:

::

    whole    one triangle by the classical algorithm
    cut      C = | C11      |   C21: an ordinary product, chosen like any other
                 | C21  C22 |   C11, C22: symmetric products, chosen in the same way

A cut saves what an LCMA saves in the product off the diagonal, which is half of the work at the
first cut and a quarter at the second. (Arrigoni, Maggioli, Massini and Rodolà, arXiv:2110.13042,
cut this way, with Strassen's scheme.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf

from falcon._core.options import Options
from falcon._core.plan import Backend, Candidate, Method, Part, Plan
from falcon._core.problem import Problem
from falcon._core.reals import planned
from falcon.schemes import Scheme
from falcon.schemes.catalogue import generation

from . import residues
from .candidates import scheme_candidates
from .machine import profile
from .search import Search, search_for
from .store import Choice
from .ways import check_given

_ON, _OFF = "on the diagonal", "off the diagonal"


def plan_for(problem: Problem, options: Options, backends: Sequence[Backend]) -> Plan:
    """Plan a problem: by what `falcon.tune` has measured for it, else by the model.

    `options`: its scheme is "auto", "classical" or a Scheme.
    `backends`: all that run on the host; on a GPU, that one.
    Raises ValueError: the requested scheme, or every candidate, exceeds the workspace limit.
    Raises TypeError: the requested scheme, backend or arithmetic cannot run on the problem.
    """
    if (of_reals := planned(problem, options, partial(plan_for, backends=backends))) is not None:
        return of_reals
    if options.modulus is not None:
        check_given(problem, options)
        return residues.choose(problem, options, backends, plan_for)
    search = search_for(problem, options, backends)
    is_general = problem.device is None and not problem.symmetric
    if options.tuned and is_general and options.scheme == "auto" and not generation():
        stored = profile(backends).choices.get(digest(problem))
        made = stored and search.stored(stored)
        if made:
            return made
    return choose(search)


def digest(problem: Problem) -> str:
    """Return the key of a choice, which is that for operands by rows."""
    text = repr(problem.plain) + (f" with room {problem.room}" if problem.room else "")
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def choice_of(method: Method) -> Choice:
    """Return a method as it is stored."""
    scheme, outer, image = method.stored, None, 0
    name = None if scheme is None else scheme.name
    for x in scheme_candidates().all if scheme is not None else ():
        if x.is_made and x.scheme is scheme:
            outer = None if x.outer is None else x.outer.name
            name, image = x.name, x.facts.image
    how = "" if method.arithmetic is None else method.arithmetic.name
    return Choice(method.backend, name, image, outer, method.large_workspace, method.product, how)


# --- one triangle of x.T @ x ----------------------------------------------------------------------


def choose(search: Search) -> Plan:
    """Plan a problem; a symmetric one whole or cut, as is predicted to be faster."""
    problem, options, policy = search.problem, search.options, search.policy
    if not problem.symmetric or options.scheme == "classical":
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
        operand=corner.method.operand,
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
        ends.append(Part(choose(search_for(part, inner, search.backends)), at, at))
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
