"""`machine`, `tune`, `compare`: the machine's profile; measuring candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from falcon._backends import available_backends, get_backend
from falcon._core.dtypes import BY_ARITHMETIC, FLOAT32, DType, dtype_of
from falcon._core.keywords import TuningOptions, takes_options
from falcon._core.options import TUNING, thread_count
from falcon._core.plan import Candidate, Method, Plan
from falcon._core.problem import Problem
from falcon._tools.checks import check_integer
from falcon._tools.timing import (
    LEAST_PAIRS,
    PAUSE,
    Estimate,
    Record,
    Side,
    interleave,
    repeats_for,
    withheld,
)
from falcon.decision import MachineProfile, profile
from falcon.decision.machine import add
from falcon.decision.rates import measure_all
from falcon.decision.select import choice_of, digest
from falcon.decision.store import Fastest
from falcon.schemes import get

from .planner import plan_for, predicted, resolve_options
from .validate import type_named

# Titles of tables of `Measured`.
COLUMNS = "candidate", "backend", "predicted ms", "measured ms", "error", "time over the choice's"
# Seconds of a comparison after which no rounds are added.
_SECONDS = 10.0
# Shapes for which choices before and after measuring are compared.
_USUAL = (
    *((x, x, x) for x in (1024, 2048, 4096)),
    *((512, 4096, 4096), (2048, 4096, 4096), (4096, 4096, 512)),
)
# If another candidate is faster by less than this factor, the model's choice is kept.
_CLEARLY = 1.01


def machine() -> MachineProfile:
    """Return the profile of this machine: rates stored earlier or measured in this process.

    Returns
    -------
    MachineProfile
        Immutable; a later decision that needs another backend or dtype makes a new one. Nothing is
        measured here, but by `python -m falcon tune` and by decisions that need it.

    Examples
    --------
    >>> import falcon
    >>> "cpu" in falcon.machine().key
    True
    """
    return profile(available_backends())


@dataclass(frozen=True, slots=True)
class Report:
    """What measuring the machine has brought."""

    profile: MachineProfile
    disturbed: dict[str, str]  # what was not measured, and why
    changed: tuple[str, ...]  # choices for usual shapes that changed, and what that gains

    def __str__(self) -> str:
        lines = [str(self.profile), ""]
        lines += [f"not stored: {name}: {why}" for name, why in self.disturbed.items()]
        if self.disturbed:
            lines.append("run it again when the machine is quiet")
        changes = f"{len(self.changed)} of the choices for usual shapes changed"
        return "\n".join([*lines, changes, *self.changed])


def measure_machine(
    dtypes: Iterable[npt.DTypeLike],
    threads: Sequence[int],
    tick: Callable[[str], None],
    seconds: float = 60.0,
) -> Report:
    """Measure this machine and store the profile; see `rates.measure_all`."""
    counts = sorted({thread_count(x) for x in threads})
    kinds = [dtype_of(np.dtype(x)) for x in dtypes]
    rows = [*kinds, *(BY_ARITHMETIC.values() if FLOAT32 in kinds else ())]
    before = [x for kind in kinds for count in counts for x in _usual_plans(kind, count)]
    made, disturbed = measure_all(available_backends(), rows, counts, tick, seconds)
    after = [plan_for(x.problem, x.options) for x in before]
    pairs = zip(before, after, strict=True)
    changed = (_changed(x, y) for x, y in pairs if x.label != y.label)
    return Report(made, disturbed, tuple(changed))


def _usual_plans(kind: DType, threads: int) -> list[Plan]:
    options = replace(resolve_options("tune", (), {}), threads=threads)
    return [plan_for(Problem.of_sizes(x, kind, options), options) for x in _USUAL]


def _changed(before: Plan, after: Plan) -> str:
    """Say what a choice was, and how much longer it is now predicted to take."""
    gain = predicted(replace(before, seconds=())).total / predicted(after).total
    return (
        f"{before.problem}, {before.threads} threads: {before.label} -> {after.label}, predicted "
        f"{gain:.3f} x as fast"
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate and its measured times."""

    candidate: Candidate
    record: Record  # its seconds in each round
    ratio: Estimate  # its time relative to that of the first candidate
    verdict: str  # how its speed compares with the first candidate's: `Estimate.verdict`

    @property
    def seconds(self) -> float:
        """Median of the rounds."""
        return self.record.median

    @property
    def cells(self) -> tuple[str, ...]:
        """Its cells of a table below `COLUMNS`."""
        method, predicted = self.candidate.method, self.candidate.total
        ms = f"{predicted * 1e3:.4g}" if predicted else "-", f"{self.seconds * 1e3:.4g}"
        error = f"{predicted / self.seconds - 1:+.1%}" if predicted else "-"
        return method.label, method.backend, *ms, error, f"{self.ratio}, {self.verdict}"


@dataclass(frozen=True, slots=True)
class Tuned:
    """The candidates that `tune` measured for a shape, the choice first."""

    problem: Problem
    measured: tuple[Measured, ...]

    @property
    def disturbed(self) -> str:
        """How other programs disturbed it, so that nothing was stored; "" if they did not."""
        return self.measured[0].ratio.disturbed

    def __str__(self) -> str:
        if self.disturbed:
            return f"not stored: {self.problem}: {withheld(self.disturbed)}"
        first = self.measured[0]
        label = f"{first.candidate.method.label} on {first.candidate.method.backend}"
        return f"{self.problem}: {label}, {first.seconds * 1e3:.2f} ms"


@takes_options(*TUNING)
def tune(
    shapes: Iterable[tuple[int, int, int]],
    *,
    dtype: npt.DTypeLike = np.float32,
    candidates: int = 5,
    rounds: int = 5,
    tick: Callable[[], None] | None = None,
    **options: Unpack[TuningOptions],
) -> list[Tuned]:
    """Measure the candidates of best predicted time for each shape, and store the fastest.

    Where other programs disturbed that, nothing is stored, which the result says in words.

    Later calls use the stored choice, also in other processes on this machine, unless the setting
    `tuned` is off (``falcon.config(tuned=False)`` or FALCON_TUNED=0). A profile pinned by
    FALCON_PROFILE has precedence.

    Parameters
    ----------
    shapes : iterable of (M, N, K)
    dtype : dtype
        float32 by default; with `modulus` it does not matter.
    candidates : int
        How many are measured per shape, besides the classical algorithms.
    rounds : int
        Least number of interleaved rounds; more are made for up to 10 s per shape until the ratios
        are known to 2 %.
    tick : callable, optional
        Called after every shape.
    {options}

    Returns
    -------
    list of Tuned

    Raises
    ------
    ValueError, TypeError
        As `gemm`; a shape is not three positive integers; `candidates` or `rounds` is below 1.

    Examples
    --------
    >>> import falcon
    >>> falcon.tune([], dtype="float64")
    []
    """
    kind = type_named(dtype)
    check_integer("candidates", candidates)
    check_integer("rounds", rounds)
    chosen = replace(resolve_options("tune", TUNING, options), tuned=False)
    found = []
    for shape in shapes:
        problem = Problem.of_sizes(sizes_of(shape), kind, chosen)
        plan = plan_for(problem, chosen)
        if chosen.modulus is not None:  # the products of residues
            plan = plan.parts[0].plan
            problem = plan.problem
        compared = compare(plan, rivals(plan, candidates), rounds)
        best = min(compared, key=lambda x: x.ratio.median)
        few = best.ratio.count < LEAST_PAIRS
        decided = best.ratio.high < 1 if few else best.verdict == "faster"
        if best.ratio.median * _CLEARLY > 1 or best.ratio.disturbed or not decided:
            best = compared[0]
        others = tuple(x for x in compared if x is not best)
        found.append(Tuned(problem, (best, *others)))
        if not found[-1].disturbed:
            _keep(problem, best, others)  # after every shape: Ctrl-C does not lose those before
        if tick is not None:
            tick()
    return found


def _keep(problem: Problem, best: Measured, others: Sequence[Measured]) -> None:
    """Store the fastest of some candidates, for this process and later ones."""
    choice, why = choice_of(best.candidate.method), "measured as the fastest by falcon.tune"
    if others:
        near = min(others, key=lambda x: x.seconds)
        label = choice_of(near.candidate.method).label
        why += f", {near.seconds / best.seconds:.3f} x as fast as {label}"
    add(available_backends(), choices={digest(problem): Fastest(str(problem), choice, why)})


def sizes_of(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return a shape as three positive integers; raises ValueError."""
    sizes = tuple(shape) if isinstance(shape, Iterable) else ()
    if len(sizes) != 3 or not all(
        isinstance(x, int | np.integer) and not isinstance(x, bool) and x > 0 for x in sizes
    ):
        hint = "" if sizes else "; several in a list: [(M, N, K), ...]"
        raise ValueError(f"shape {shape!r}: expected three positive integers M, N, K{hint}")
    M, N, K = map(int, sizes)
    return M, N, K


def rivals(plan: Plan, most: int) -> list[Candidate]:
    """Return the choice, its `most` - 1 best rivals by predicted time, and the classical ones.

    For a scheme by name, the rivals are those that "auto" would compare, and Strassen's.
    """
    problem, backends = plan.problem, available_backends()
    first, others = predicted(plan), list(plan.candidates[1:])
    if plan.options.scheme != "auto":
        auto = plan_for(problem, replace(plan.options, scheme="auto"))
        others = [x for x in auto.candidates if x.method != plan.method]
        backend = get_backend(plan.backend.name)
        if backend.why_classical_only(problem) is None:
            found = backend.candidates(problem, (get("strassen"),), plan.options.workspace_limit)
            strassen = [predicted(plan.instead(x, backend)) for x in found if x != plan.method]
            others = [*strassen, *(x for x in others if x.method not in found)]
    known = [first.method, *(x.method for x in others)]
    for backend in (x for x in backends if x.why_not(problem) is None):
        for x in backend.candidates(problem, (None,), plan.options.workspace_limit):
            if x not in known:
                able = problem.operand.has_blas  # else nothing is known of NumPy's loops
                others.append(predicted(plan.instead(x, backend)) if able else Candidate(x, ()))
    allowed = [x for x in others if x.allowed]
    rest = [x for x in allowed[most - 1 :] if x.method.is_classical]
    return [first, *allowed[: most - 1], *rest]


def duration(candidates: Sequence[Candidate], rounds: int) -> float:
    """Return about how many seconds `compare` takes, by the predictions."""
    rests = (get_backend(x.method.backend).rest + PAUSE for x in candidates)
    times = [x.total for x in candidates if x.seconds]
    calls = max(map(repeats_for, times), default=1)
    once = sum(times) * len(candidates) / max(len(times), 1)
    rest = sum(rests)
    return max(once + rest + rounds * (calls * once + rest), _SECONDS)


def compare(
    plan: Plan,
    candidates: Sequence[Candidate],
    rounds: int,
    seconds: float = _SECONDS,
    **limits: Any,
) -> list[Measured]:
    """Measure candidates for a plan's problem, interleaved; ratios are to the first of them.

    `rounds`: the least number; more are made for up to `seconds`, until the ratios are known.
    `limits`: others of `interleave`.
    """
    arrays = operands_of(plan.problem)
    sides = [side_of(plan, x.method, arrays) for x in candidates]
    first, *others = interleave(sides, rounds, seconds=seconds, **limits)
    return [
        Measured(candidate, record, first.over(record), record.over(first).verdict)
        for candidate, record in zip(candidates, (first, *others), strict=True)
    ]


def operands_of(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return some a and b, and an out, for a problem."""
    some, operand = np.random.default_rng(0).integers(0, 9, 2**12), problem.operand
    a = np.resize(some.astype(operand.left.numpy), (problem.M, problem.K))
    b = np.resize(some.astype(operand.right.numpy), (problem.K, problem.N))
    if operand.is_complex:  # without imaginary parts, no plan would use three real products
        a.imag, b.imag = a.real[::-1], b.real[::-1]
    return a, b, np.empty((problem.M, problem.N), problem.result.numpy)


def side_of(plan: Plan, method: Method, arrays: Sequence[np.ndarray]) -> Side:
    """Return a side of a comparison that runs a method for a plan's problem."""
    made = plan.instead(method, get_backend(method.backend))
    a, b, out = arrays
    run, rest = made.runner.bind(a, b, None, out), made.backend.rest + PAUSE
    more = ", more workspace" if method.large_workspace else ""  # names of sides must differ
    return Side.of(
        f"{method.backend} {method.label}{more}",
        lambda: run(a, b, None, out),
        rest,
    )
