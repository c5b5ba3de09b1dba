"""The choice: what `tune` has found, else the best predicted time within max_growth and limits."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from falcon._core.arithmetic import BY_INTEGERS
from falcon._core.ladder import is_bound, may_be_integers
from falcon._core.options import Options
from falcon._core.plan import Backend, Method, Plan
from falcon._core.problem import Problem
from falcon._tools.locks import importing
from falcon.schemes.catalogue import generation

from .candidates import scheme_candidates
from .machine import profile
from .rewrites import home_of
from .search import search_for
from .store import Choice
from .ways import check_given


def decide(problem: Problem, options: Options, backends: Sequence[Backend]) -> Plan:
    """Plan a problem: by what `falcon.tune` has measured for it, else by the model.

    `options`: its scheme is "auto", "classical" or a Scheme.
    `backends`: all that run on the host; on a GPU, that one.
    Raises ValueError: the requested scheme, or every candidate, exceeds the workspace limit.
    Raises TypeError: the requested scheme, backend or arithmetic cannot run on the problem.
    """
    if options.arithmetic == BY_INTEGERS and not may_be_integers(problem):
        check_given(problem, options)
        options = replace(options, arithmetic="auto")
    home = home_of(problem, options)
    if home is not None:
        rewritten: Plan = home.plan(problem, options, backends, decide)
        return rewritten
    search = search_for(problem, options, backends)
    is_general = problem.device is None and not problem.symmetric
    by_time = options.tuned and is_general and not is_bound(problem, options)
    if by_time and options.scheme == "auto" and not generation():
        choice = profile(backends).choices.get(digest(problem))
        tuned_plan = choice and search.stored(choice)
        if tuned_plan:
            return tuned_plan
    found = search.plan()
    if not is_bound(problem, options):
        return found
    with importing():
        from .rewrites.quantised import faster
    return faster(found, backends, decide)


# Of what the key of a choice is the hash. It never changes: profiles hold keys alone.
_KEY = (
    "Problem(M={0.M}, N={0.N}, K={0.K}, operand={0.operand!r}, accumulator={0.accumulator!r}, "
    "result={0.result!r}, buffered=False, a_direct=True, b_direct=True, a_strided=True, "
    "b_strided=True, layout=({1}, True, False), out_direct=True, out_overlaps_c=False, "
    "packed=False, threads={0.threads}, device={0.device}, reproducible=False, symmetric='', "
    "weighted=False)"
)


def digest(problem: Problem) -> str:
    """Return the key of a choice, which is that for operands by rows."""
    text = _KEY.format(problem, problem.K == 1)
    text += f" with room {problem.headroom}" if problem.headroom else ""
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
