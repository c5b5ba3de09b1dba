"""Make and cache plans: from a call's keywords and settings to a plan."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from falcon import schemes
from falcon._backends import DEVICE, ENGINE, available_backends, get_backend, host_engine
from falcon._core.bound import promised
from falcon._core.dtypes import dtype_of
from falcon._core.ladder import is_bound
from falcon._core.options import FIELDS, Options, merge_keywords
from falcon._core.packed import PackedOperand
from falcon._core.plan import Backend, Candidate, Plan
from falcon._core.problem import Problem
from falcon._tools.locks import ForkLock
from falcon.decision.library import LEAST_BATCH_OF_TENSORS, is_faster, is_long_batch
from falcon.decision.machine import revision
from falcon.decision.rates import rates
from falcon.decision.rewrites import home_of
from falcon.decision.search import compared_seconds, preferred
from falcon.decision.select import decide
from falcon.decision.ways import named_row
from falcon.schemes import Scheme
from falcon.schemes.catalogue import generation

_log = logging.getLogger("falcon")

# Plans are small; beyond this number the oldest one is dropped.
_CACHED_PLANS = 1024
_plans: dict[tuple, Plan] = {}
_plans_lock = ForkLock()


def resolve_options(
    function: str, names: tuple[str, ...], keywords: Mapping[str, Any], device: int | None = None
) -> Options:
    """Merge the keywords of a call with the settings, for arrays in host memory or on a device.

    In the result, `scheme` is "auto", "classical" or a Scheme: names are looked up here. A backend
    by name must be available.
    """
    options = asked = merge_keywords(function, names, keywords)
    if "error" in options.given:  # settings of how a product is made are for others
        own: dict[str, Any] = {"scheme": "auto", "arithmetic": "auto"}
        options = replace(options, **{x: y for x, y in own.items() if x not in options.given})
    if isinstance(options.modulus, tuple) and function != "matmul":
        raise TypeError(f"{function} takes one modulus; falcon.matmul takes several")
    scheme = options.scheme
    if isinstance(scheme, str) and scheme not in ("auto", "classical"):
        try:
            scheme = schemes.get(scheme)
        except ValueError as error:
            raise _named(error, "scheme", asked) from None
        options = replace(options, scheme=scheme)
    if device is not None:
        options = _on_device(options)
    if options.reproducible:
        options = _reproducible(options)
    if options.backend != "auto":
        try:
            get_backend(options.backend)
        except ValueError as error:
            raise _named(error, "backend", asked) from None
    return options


def _on_device(options: Options) -> Options:
    """Allow only the GPU backend, and no check="verify", which needs results on the host."""
    if options.backend not in ("auto", DEVICE):
        raise ValueError(
            f"backend is {options.backend!r}, but the operands are in GPU memory; use 'auto' "
            f"or {DEVICE!r}, or move them to the host (cupy.asnumpy(a), or a.cpu() of torch)"
        )
    if options.check == "verify":
        raise ValueError(
            "check='verify' works on the host; use falcon.verify on host copies, or check='finite'"
        )
    get_backend(DEVICE)
    return replace(options, backend=DEVICE)


def _reproducible(options: Options) -> Options:
    """Return options that leave nothing to the machine; see `Problem.reproducible`."""
    how = f"reproducible={options.reproducible!r} is for"
    if options.backend == DEVICE and options.reproducible is True:
        arithmetic = "native" if options.arithmetic == "auto" else options.arithmetic
        return replace(options, arithmetic=arithmetic)
    if options.backend not in ("auto", ENGINE.name):
        raise ValueError(
            f"{how} falcon's own kernels on the host, backend {ENGINE.name!r}; "
            f"backend is {options.backend!r}"
        )
    if options.reproducible == "rows":
        for name, most in (("scheme", "classical"), ("arithmetic", "native"), ("centre", None)):
            if (value := getattr(options, name)) not in ("auto", most, False):
                raise ValueError(f"{how} products with {name}={most!r}; {name} is {value!r}")
        options = replace(options, scheme="classical", centre=False)
    arithmetic = options.arithmetic
    if arithmetic == "auto" and options.error is None:
        arithmetic = "native"
    return replace(options, backend=ENGINE.name, tuned=False, arithmetic=arithmetic)


def _named(error: ValueError, option: str, asked: Options) -> ValueError:
    """Return an error that says where the option was set, if that is no keyword of the call."""
    if option in asked.given or getattr(asked, option) == "auto":
        return error
    variable = FIELDS[option].metadata["variable"]
    return ValueError(f"{error} (set by {variable}, falcon.config or falcon.set_config)")


def planning_state() -> tuple:
    """What plans depend on besides the problem and the settings."""
    return generation(), revision()


def _key(problem: Problem, options: Options) -> tuple:
    """Return what is equal for equal plans."""
    scheme = options.scheme  # equal ones may differ in their names
    name = "" if isinstance(scheme, str) else scheme.name
    return problem, options, name, planning_state()


def plan_for(problem: Problem, options: Options) -> Plan:
    """Return the cached plan of a problem, or make one."""
    key = _key(problem, options)
    cached = _plans.get(key)
    if cached is not None:
        return cached
    backends = _backends_for(problem, options.backend)
    try:
        plan = decide(problem, options, backends)
    except MemoryError as error:  # a GPU cannot be measured: the next call tries again
        if problem.device is None:
            raise
        classical = decide(problem, replace(options, scheme="classical"), backends)
        return replace(classical, options=options, why=f"rates could not be measured: {error}")
    with _plans_lock.lock:
        while len(_plans) >= _CACHED_PLANS:
            del _plans[next(iter(_plans))]
        _plans[key] = plan
    if options.verbose:
        _show(plan)
    return plan


def is_kept(plan: Plan) -> bool:
    """Whether calls like that of a plan take it again."""
    return _plans.get(_key(plan.problem, plan.options)) is plan


def predicted(plan: Plan) -> Candidate:
    """Return a plan's option with its predicted seconds."""
    plan = plan.reals or plan
    if plan.seconds:
        return Candidate(plan.method, plan.seconds)
    problem, backend = plan.problem, get_backend(plan.method.backend)
    measured = rates(backend, problem, _backends_for(problem, "auto"), plan.method.compute_type)
    return backend.predicted(problem, plan.method, measured)


def compared_seconds_of(made: Plan) -> float:
    """Return the seconds by which a plan's option is compared with those of another plan."""
    return compared_seconds(predicted(made), get_backend(made.backend.name).policy(made.problem))


def preferred_for(made: Plan, candidates: Sequence[Candidate]) -> Candidate:
    """Return what would be chosen for a plan's problem among some candidates."""
    return preferred(candidates, get_backend(made.backend.name).policy(made.problem))


@lru_cache(1024)
def does_batch_pay(sizes: tuple[int, int, int], dtype: str, count: int, threads: int) -> bool:
    """Whether falcon's engine multiplies such a batch of tensors, and long enough for a call."""
    problem = Problem.of_sizes(sizes, dtype_of(dtype), Options(threads=threads), count=count)
    engine = host_engine()
    is_long = is_long_batch(problem, least=LEAST_BATCH_OF_TENSORS)
    return is_long and engine.why_not(problem) is None and is_faster(problem, engine)


def _show(made: Plan) -> None:
    """Log a plan; to standard error if the program has not configured logging."""
    if not _log.isEnabledFor(logging.INFO):
        _log.setLevel(logging.INFO)
    if not _log.hasHandlers():
        _log.addHandler(logging.StreamHandler())
    _log.info("%s", made.explain())


def plan_packed(problem: Problem, packed: PackedOperand, options: Options) -> Plan:
    """Plan for the scheme and the backend that B was packed for."""
    home = home_of(problem, options)
    if home is not None:
        made: Plan = home.plan_packed(problem, packed, options, plan_packed)
        return made
    named_row(problem, options)  # raises
    backend = get_backend(packed.backend)
    option = backend.packed_method(problem, packed, options.workspace_limit)
    if "error" not in options.given:
        options = replace(options, error=packed.error)
    how = "auto" if "arithmetic" not in options.given else options.arithmetic
    if how not in ("auto", packed.arithmetic):
        raise ValueError(f"arithmetic is {how!r}, but b was packed for {packed.arithmetic!r}")
    if options.centre and "centre" in options.given and packed.column_totals is None:
        raise ValueError(
            "centre is True, but b was packed without means, which falcon's own kernels take: "
            "pack(b, centre=True)"
        )
    limit = options.workspace_limit
    in_order = option.is_plain and option.product != "3M" and option.chunks[2] >= problem.K
    if options.reproducible == "rows" and not in_order:
        raise ValueError(
            "reproducible is 'rows'; b must be packed so: pack(b, reproducible='rows')"
        )
    if limit is not None and option.workspace > limit:
        raise ValueError(
            f"workspace_limit is {limit} bytes; {option.label} multiplication of {problem} with "
            f"the packed operand needs at least {option.workspace}"
        )
    # A scheme that is named, and for which b was packed, runs without scaling.
    by_name = isinstance(options.scheme, Scheme) and packed.is_for(options.scheme)
    guarded = packed.column_norms is not None and not by_name
    higher = None
    if packed.error is not None and (packed.lines is not None or packed.arithmetic != "native"):
        own = options  # by B itself, which compares and may go up in turn
        if packed.arithmetic != "native":
            own = replace(own, arithmetic="native", given=own.given - {"arithmetic"})
        higher = partial(plan_for, replace(problem, packed=False), own)
    about: dict[str, Any] = {"guarded": guarded, "options": options, "higher": higher}
    plan = Plan(problem, backend, option, "b was packed for it", **about)
    asked = options.error if "error" in options.given and is_bound(problem, options) else None
    if asked is not None and (least := promised(plan)) > asked:
        raise ValueError(
            f"error is {asked:g}, but b was packed by {option.label}, which promises {least:.1e}: "
            "pack it for that error"
        )
    return plan


def _backends_for(problem: Problem, name: str) -> list[Backend]:
    """Return all backends that run here, on the host or on the problem's device.

    One of that name, which says why it cannot multiply the problem, is among them.
    """
    if problem.device is not None or name == DEVICE:
        return [get_backend(DEVICE)]
    return available_backends()
