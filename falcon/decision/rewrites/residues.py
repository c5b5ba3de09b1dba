"""Products modulo p: as which type, by which moduli, and in how many slices of K.

::

    Problem --> ways: types and moduli --> a plan per length of a slice --> Plan with `parts`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf, log2
from typing import Any, cast

import numpy as np

from falcon._core.bound import growth_of_sums
from falcon._core.dtypes import FLOAT64
from falcon._core.modular import KINDS, Residues
from falcon._core.options import Options
from falcon._core.packed import PackedOperand
from falcon._core.plan import Backend, Candidate, Part, Plan
from falcon._core.problem import Problem
from falcon._core.residues import ResidueRunner, residues_like
from falcon._core.rewrite import Rewrite
from falcon._core.runner import Runner
from falcon.decision.rates import rates
from falcon.decision.ways import check_given
from falcon.schemes import Scheme

# Shortest slice of K that is worth a pass over C, and one for which moduli are chosen besides K.
_SHORTEST, _LONG = 256, 2048
# How many times the largest sum moduli leave room for: sums of no scheme, of one and two levels.
_HEADROOMS = 1, 16, 64
# By how much a scheme may be faster than the classical algorithm, at most.
_MOST_GAIN = 1.5
# To how many times the least number of slices K is cut: schemes then have more room.
_FINER = (1, 1.5, 2, 4)
# Seconds in which a thread reads or writes a residue, in cache (0.3 to 0.6 ns on two machines), and
# numbers of a matrix in all its residues from which there are several threads.
_RESIDUE, _SHARED = 5e-10, 2**16
# Steps of K by which blocks may be longer than their share of a slice.
_ROUNDED_UP = 64

Planner = Callable[[Problem, Options, Sequence[Backend]], Plan]


@dataclass(frozen=True)
class PackedResidues:
    """The residues of a B that is packed."""

    way: Residues
    packed: tuple[PackedOperand, ...]  # of each slice, and in it of each modulus

    @property
    def nbytes(self) -> int:
        """Bytes of the panels."""
        return sum(x.nbytes for x in self.packed)


@dataclass(frozen=True)
class Modular(Rewrite):
    """A product modulo p, slice by slice of K."""

    way: Residues

    def runner(self, plan: Plan) -> Runner:
        """Return what runs the slices, and the passes between them."""
        slices = [(x.plan.runner, x.inner) for x in plan.parts]
        return ResidueRunner(self.way, slices, plan.backend.reduce, plan.threads)

    def fitted(self, plan: Plan, problem: Problem) -> Plan:
        """Return the same: passes over the operands write what the parts multiply."""
        return replace(plan, problem=problem)

    def pack(self, plan: Plan, b: np.ndarray) -> PackedResidues:
        """Pack the residues of B; where it is empty, zeros."""
        way, made, nothing = self.way, [], cast(Any, None)
        b = b if b.size else np.zeros([max(x, 1) for x in b.shape], b.dtype)
        panels = None if way.sums is way.kind else way.kind.numpy
        for part in plan.parts:
            x, p = b[part.inner], part.plan
            residues, _ = residues_like(x, way, bytearray(way.nbytes(0, x.shape[1], len(x))))
            p.backend.reduce([(x, 1, 0, 0)], *way.of_operand(residues), threads=p.threads)
            about = x.shape, way.sums.numpy, p.scheme, p.backend.name
            payloads = (p.backend.pack(y, p) for y in residues)
            made += [PackedOperand(*about, y, None, nothing, nothing, panels=panels)
                     for y in payloads]  # fmt: skip
        return PackedResidues(way, tuple(made))


def plan(
    problem: Problem, options: Options, backends: Sequence[Backend], plan_for: Planner
) -> Plan:
    """Plan a product modulo p by the fastest of its ways, predicted with the passes.

    `plan_for` plans the products of the parts.
    Raises ValueError: every way to multiply exceeds the workspace limit.
    """
    check_given(problem, options)
    planned = partial(_planned, problem, backends, plan_for)
    if problem.symmetric:
        raise TypeError("gram takes no modulus; multiply by falcon.matmul(x.T, x, modulus=...)")
    limit, K, ways = options.workspace_limit, max(problem.K, 1), []
    usual = replace(options, scheme="classical", workspace_limit=None)
    for way, longest in _ways(problem, options, backends):
        made = planned(way, ceil(K / longest), usual)
        ways.append((_candidate(problem, way, made, backends).total, ceil(K / longest), way))
    found: list[tuple[Candidate, Plan]] = []
    best = inf
    for estimate, least, way in sorted(ways, key=lambda x: x[0]):
        if estimate > best * _MOST_GAIN:
            break
        several = options.scheme == "auto" and not way.kind.is_exact
        counts = [ceil(least * x) for x in (_FINER if several else _FINER[:1])]
        if limit is not None:  # shorter slices take less memory
            counts += [least << i for i in range(1, K.bit_length() + 1)]
        fits = False
        for count in counts:
            if fits and 2 * _SHORTEST * count > K:
                break
            try:
                made = planned(way, count, options)
            except ValueError:
                if limit is None:
                    raise
                continue
            found.append((_candidate(problem, way, made, backends), made))
            fits, best = True, min(best, found[-1][0].total)
    if not found:
        needed = min(way.nbytes(problem.M, problem.N, 1) for _, _, way in ways)
        raise ValueError(
            f"workspace_limit is {limit} bytes; a product modulo {options.modulus} needs at least "
            f"{needed} for residues and sums"
        )
    found.sort(key=lambda x: x[0].total)
    slower = [replace(x, refused=f"{x.total / best:.2f} x as long") for x, _ in found[1:]]
    best_of, compared = found[0][1], (found[0][0], *slower)
    return replace(best_of, seconds=compared[0].seconds, table=lambda: compared)


def plan_packed(
    problem: Problem, packed: PackedOperand, options: Options, plan_for: Callable[..., Plan]
) -> Plan:
    """Plan a product by a B whose residues are packed."""
    check_given(problem, options)
    residues: PackedResidues = packed.payload
    made, way, plans = [], residues.way, {}
    for x in residues.packed[:: len(way.moduli)]:
        K = x.shape[0]
        if K not in plans:
            inner = _of_parts(options, way.nbytes(problem.M, problem.N, K), ())
            plans[K] = plan_for(_part(problem, way, K, inner), x, inner)
        made.append(plans[K])
    return _plan(problem, way, made, options)


def _ways(
    problem: Problem, options: Options, backends: Sequence[Backend]
) -> Iterator[tuple[Residues, int]]:
    """Yield types and moduli that may be the fastest, and the longest slice of K of each."""
    scheme = options.scheme if isinstance(options.scheme, Scheme) else None
    growth, rounded_up = growth_of_sums(scheme), 0 if scheme is None else _ROUNDED_UP
    if growth > 2.0**50:
        raise TypeError(f"scheme {scheme!r} divides by others than powers of two: it is not exact")
    K, name, p = max(problem.K, 1), options.backend, options.modulus
    results = p if isinstance(p, tuple) else (p or 2,)
    modulus = Residues(results, FLOAT64).modulus
    # Residues of least magnitude are rounded to them: a little more than half the modulus.
    bound = K * (modulus // 2 + modulus // 2**16 if modulus else 2**64) ** 2
    for kind, most in KINDS.items():
        usual = Problem(1, 1, 1, kind, result=Residues((2,), kind).sums)
        able = any(x.why_not(usual) is None for x in backends if name in ("auto", x.name))
        if not able or (scheme is not None and kind.is_exact):
            continue
        is_one = modulus and modulus // 2 <= most
        found: list[Residues | None] = [Residues(results, kind)] if is_one else []
        for headroom in (1,) if kind.is_exact or scheme is not None else _HEADROOMS:
            for longest in {K, min(K, _LONG)}:
                sums = min(headroom * growth * (longest + rounded_up), 2.0**40)
                found.append(Residues.several(results, kind, sums, bound))
        for way in dict.fromkeys(found):
            longest = 0 if way is None else min(int(way.headroom(1) / growth) - rounded_up, K)
            if way is not None and longest >= min(K, _SHORTEST):
                yield way, longest


def _planned(
    problem: Problem,
    backends: Sequence[Backend],
    plan_for: Planner,
    way: Residues,
    count: int,
    options: Options,
) -> Plan:
    """Plan a product in about so many slices of K."""
    K = max(problem.K, 1)
    length = ceil(K / count)
    inner = _of_parts(options, way.nbytes(problem.M, problem.N, length), backends)
    count = ceil(K / length)
    rest = K - (count - 1) * length
    plans = {x: plan_for(_part(problem, way, x, inner), inner, backends) for x in {length, rest}}
    return _plan(problem, way, [*[plans[length]] * (count - 1), plans[rest]], options)


def _plan(problem: Problem, way: Residues, slices: Sequence[Plan], options: Options) -> Plan:
    """Return the plan of a product in slices of K, all but the last as long as the first."""
    first, step, count = slices[0], slices[0].problem.K, len(slices)
    bits = log2(max(growth_of_sums(first.scheme) * way.most / way.headroom(step), 1))
    cut = "one slice" if count == 1 else f"{count} slices"
    moduli = ", ".join(map(str, way.results))
    why = f"exact modulo {moduli}: in {cut} of K, sums stay below 2^{bits:.1f}"
    nbytes = way.nbytes(problem.M, problem.N, step) + first.workspace
    about: dict[str, Any] = {"name": f"{way} {first.label}", "workspace": nbytes, "layout": ()}
    method = replace(first.method, **about)
    ends = [*[(i + 1) * step for i in range(count - 1)], None]
    parts = tuple(Part(x, inner=slice(i * step, end))
                  for i, (x, end) in enumerate(zip(slices, ends, strict=True)))  # fmt: skip
    about = {"options": options, "parts": parts, "rewrite": Modular(way)}
    return Plan(problem, first.backend, method, why, **about)


def _of_parts(options: Options, nbytes: int, backends: Sequence[Backend]) -> Options:
    """Return the options of the products of parts, beside so many bytes."""
    limit, name = options.workspace_limit, options.backend
    if limit is not None and limit < nbytes:
        raise ValueError(f"workspace_limit is {limit} bytes; residues and sums take {nbytes}")
    if name == "auto" and backends:  # small products by NumPy take three times as long to call
        name = min(backends, key=lambda x: x.is_library).name
    return replace(
        options,
        modulus=None,
        backend=name,
        max_growth=inf,
        arithmetic="native",
        check="none",
        workspace_limit=None if limit is None else limit - nbytes,
    )


def _part(problem: Problem, way: Residues, K: int, options: Options) -> Problem:
    """Describe the product of the residues of a slice of K of that length."""
    about: dict[str, Any] = {"packed": problem.packed, "result": way.sums}
    about["headroom"] = 0.0 if way.kind.is_exact else way.headroom(K)
    sizes = max(problem.M, 1), max(problem.N, 1), K
    return Problem.of_sizes(sizes, way.kind, options, **about)


def _candidate(
    problem: Problem, way: Residues, made: Plan, backends: Sequence[Backend]
) -> Candidate:
    """Predict the time of the products, and of the passes beside them."""
    part, count, name = made.parts[0].plan, len(made.parts), made.method.name
    moduli, engine = len(way.moduli), min(backends, key=lambda x: x.is_library)
    M, N, K = problem.M, problem.N, problem.K
    known = rates(part.backend, part.problem, backends, part.method.compute_type)
    times = part.backend.predicted(part.problem, part.method, known)
    sums = count * M * N
    nbytes = way.nbytes(M, N, K) + (count - 1) * way.nbytes(M, N, 0)
    residues = moduli * (K * (M + N) + len(way.results) * sums)
    largest = moduli * max(M * K, K * N, sums)
    passes = residues * _RESIDUE / (part.threads if largest > _SHARED else 1)
    double = replace(part.problem, operand=FLOAT64, result=FLOAT64, accumulator=FLOAT64)
    memory = 8 * rates(engine, double, backends).bandwidth
    passes = max(passes, (nbytes + 8 * K * (M + N) + 8 * sums) / memory)
    if count > 1:
        name = f"{name} in {count} slices"
    seconds = ("products", count * moduli * times.total), ("passes", passes)
    return Candidate(replace(made.method, name=name), seconds)
