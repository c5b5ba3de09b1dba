"""Products modulo p: their types, their plan, and the passes before and after an ordinary product.

::

    gemm, matmul --> Product --> multiply --> ModularPlan.execute: residues of a and b
                                              Plan.execute for each slice of K, reduced to out
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import ceil, inf, log2
from typing import Any

import numpy as np

from falcon._backends import available_backends, get_backend, host_engine
from falcon._core.dtypes import FLOAT32, FLOAT64, TABLE, DType, of
from falcon._core.modular import Residues
from falcon._core.options import Options, threads_of
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._core.symmetric import same_memory
from falcon._cpu import residues as by_engine
from falcon._cpu.extension import why_unavailable
from falcon._numpy import residues as by_numpy
from falcon.codegen.sums import growth_of_sums
from falcon.decision.rates import rates
from falcon.schemes import Scheme

from .adapters import Adapter
from .adapters.host import NUMPY
from .arithmetic import result_type
from .planner import plan_for as plan_of_parts
from .planner import plan_packed, planning_state, predicted

# Types of the parts that are compared, and the largest magnitude that each holds.
_KINDS = {of("int8"): 2**7 - 1, of("int16"): 2**15 - 1, FLOAT32: 2**24, FLOAT64: 2**53}
# Most parts of an element; shortest slice of K that is worth a pass over C.
_MOST_PARTS, _SHORTEST = 6, 256
# By how much a scheme may be faster than the classical algorithm, at most.
_MOST_GAIN = 1.5
# To how many times the least number of slices K is cut: schemes then have more room.
_FINER = (1.0, 1.5, 2.0, 4.0)
# Seconds in which a thread reads or writes a part, all in cache (Zen 4: 0.25 to 0.45 ns), and
# numbers from which there are several threads.
_PART, _SHARED = 3e-10, 2**16
# Steps of K by which blocks may be longer than their share of a slice.
_ROUNDED_UP = 64


def residue_type(
    adapter: Adapter, operands: Mapping[str, Any], dtype: Any, out: Any, modulus: int
) -> DType:
    """Return the type of a result modulo p: `dtype`, or that of `out`, or the operands' common one.

    Raises TypeError: it is no integer, or does not hold ``modulus - 1``; an operand is no integer.
    Raises ValueError: the operands are in GPU memory.
    """
    if adapter.device is not None:
        raise ValueError("modulus= multiplies arrays in host memory; these are in GPU memory")
    for name, x in operands.items():
        row = adapter.dtype(x)
        if row is None or not row.is_exact:
            raise TypeError(f"{name} has dtype {x.dtype}; modulus= multiplies integers")
    given = None if out is None else adapter.dtype(out)
    if dtype is None and given is not None and given.is_exact:
        wanted, what = given, "out has dtype"
    else:
        wanted = result_type(adapter, operands, dtype)
        what = "the operands' common type is" if dtype is None else "dtype is"
    if wanted.is_exact and _most(wanted) >= modulus - 1:
        return wanted
    able = [x for x in TABLE if x.is_exact and _most(x) >= modulus - 1]
    least = min(able, key=lambda x: (x.itemsize, x.is_unsigned))
    why = f"does not hold {modulus - 1}" if wanted.is_exact else "is no integer"
    raise TypeError(f"{what} {wanted}, which {why}; ask for dtype={least.name!r}")


def _most(row: DType) -> int:
    return int(np.iinfo(row.numpy).max)


@dataclass(frozen=True, slots=True)
class PackedResidues:
    """The parts of a B that is packed, slice by slice of K: the payload of a `PackedOperand`."""

    residues: Residues
    length: int  # of the slices, but the last
    slices: tuple[PackedOperand, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all slices."""
        return sum(x.nbytes for x in self.slices)


class ModularPlan(Plan):
    """How a product modulo p is multiplied: the plan of a product of parts, and passes around it.

    Problem, method and predicted stages are those of the first slice of K.
    """

    residues: Residues
    sizes: tuple[int, int, int]  # M, N, K
    length: int  # of the slices of K, but the last
    slices: tuple[Plan, ...]  # of the products of parts
    compared: tuple[tuple[str, float], ...]  # ways to multiply and predicted seconds, best first
    bases: tuple[int, int]  # of the parts
    places: tuple[int, int, int]  # where parts of B and sums begin in memory, and its bytes

    @classmethod
    def of(cls, slices: tuple[Plan, ...], **about: Any) -> ModularPlan:
        """Return the plan of a product modulo p, from those of its slices."""
        made = cls(**{x.name: getattr(slices[0], x.name) for x in fields(Plan)})
        made.__dict__.update(about, slices=slices)
        made.__dict__.update(bases=made.residues.bases, places=made.residues.places(made.sizes))
        return made

    @property
    def label(self) -> str:
        """As which numbers it multiplies, and by which scheme."""
        return f"{self.residues} {self.method.label}"

    @property
    def workspace(self) -> int:
        """Bytes that the call allocates beyond its result."""
        return self.method.workspace + self.places[-1]

    def execute(
        self,
        a: Any,
        b: Any,
        c: Any,
        out: Any,
        *,
        alpha: Any = 1,
        beta: Any = 0,
        mirror: Any = None,
    ) -> None:
        """Write ``(alpha a b + beta c) % modulus`` to `out`, which may overlap all operands."""
        way, (M, N, K), threads = self.residues, self.sizes, self.threads
        (of_a, of_b), (of_right, of_sums, nbytes), bases = way.parts, self.places, self.bases
        if c is not None and np.may_share_memory(c, out) and not same_memory(c, out):
            c = c.copy()  # each entry is read before it is written
        factors = b.payload.slices if isinstance(b, PackedOperand) else None
        is_own = why_unavailable() is None
        passes: Any = by_engine if is_own else by_numpy
        memory = by_engine.memory().take(nbytes) if is_own else bytearray(nbytes)
        try:
            left = _stacked(memory, 0, way, of_a, bases[0], a, passes, threads)
            if factors is None:
                right = _stacked(memory, of_right, way, of_b, bases[1], b.T, passes, threads).T
                factors = [right[at : at + self.length] for at in range(0, K, self.length)]
            sums = np.frombuffer(memory, way.sums.numpy, of_a * M * of_b * N, of_sums)
            flat, sums = sums.reshape(of_a * M, of_b * N), sums.reshape(of_a, M, of_b, N)
            for i, (plan, factor) in enumerate(zip(self.slices, factors, strict=True)):
                part = left[:, i * self.length : (i + 1) * self.length]
                plan.backend.execute(plan, part, factor, None, flat)
                passes.reduce(sums, way.modulus, bases, out, alpha, c, beta, threads)
                c, beta = out, 1
        finally:
            if is_own:
                by_engine.memory().give(memory)

    def __call__(self, a: Any, b: Any, out: Any = None) -> Any:
        """Multiply two matrices of integers of the planned shapes."""
        (M, N, K), modulus = self.sizes, self.residues.modulus
        a, b = NUMPY.array("a", a), NUMPY.array("b", b)
        out = None if out is None else NUMPY.target(out)
        for name, x, shape in (("a", a, (M, K)), ("b", b, (K, N)), ("out", out, (M, N))):
            if x is not None and x.shape != shape:
                raise ValueError(f"{name} has shape {x.shape}; this plan is for {shape}")
        kind = residue_type(NUMPY, {"a": a, "b": b}, None, out, modulus)
        out = NUMPY.empty((M, N), kind) if out is None else out
        self.execute(a, b, None, out)
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return plan_for, (self.sizes, self.residues.modulus, self.options)

    def __str__(self) -> str:
        (M, N, K), way, count = self.sizes, self.residues, len(self.slices)
        growth = growth_of_sums(self.scheme)
        bits = log2(max(way.most / way.room(min(self.length, K)) * growth, 1))
        cut = "one slice" if count == 1 else f"{count} slices"
        lines = [
            f"{M} x {K} @ {K} x {N} modulo {way.modulus}: {self.label}",
            f"  exact      in {cut} of K: sums stay below 2^{bits:.1f} of 2^{log2(way.most):.0f}",
        ]
        if self.compared:
            told = (f"{name} {seconds * 1e3:.2f}" for name, seconds in self.compared)
            text = f"  compared   {', '.join(told)} ms"
            lines.append(textwrap.fill(text, 100, subsequent_indent=" " * 13))
        return "\n".join([*lines, super().__str__()])


def _stacked(
    memory: Any,
    place: int,
    way: Residues,
    count: int,
    base: int,
    x: np.ndarray,
    passes: Any,
    threads: int,
) -> np.ndarray:
    """Return the parts of the residues of a matrix, one below the other, at a place of `memory`.

    They lie by rows or columns as `x` does. `count`, `base`: of the parts of an element.
    """
    rows, columns = x.shape
    parts = np.frombuffer(memory, way.kind.numpy, count * rows * columns, place)
    if abs(x.strides[0]) < abs(x.strides[1]):
        parts = parts.reshape(columns, count, rows)
        passes.residues(x, way.modulus, base, parts.transpose(1, 2, 0), threads)
        return parts.reshape(columns, count * rows).T
    parts = parts.reshape(count, rows, columns)
    passes.residues(x, way.modulus, base, parts, threads)
    return parts.reshape(count * rows, columns)


def plan_for(
    sizes: tuple[int, int, int], modulus: int, options: Options, b: Any = None
) -> ModularPlan:
    """Plan a product modulo p; `b`: B, if it is packed, or True if it is to be packed.

    Raises ValueError: every way to multiply exceeds the workspace limit.
    """
    if isinstance(b, PackedOperand):
        return _of_packed(b, sizes[0], options)
    sizes = max(sizes[0], 1), max(sizes[1], 1), max(sizes[2], 1)
    return _planned(sizes, modulus, options, b is True, threads_of(options), planning_state())


@lru_cache(maxsize=1024)
def _planned(
    sizes: tuple[int, int, int], modulus: int, options: Options, packed: bool, *_state: Any
) -> ModularPlan:
    """Plan the product by the fastest of its ways, predicted with the passes."""
    asked, K = options, sizes[2]
    options = replace(options, max_growth=inf, check="none", arithmetic="native")
    if options.backend == "auto":  # small products by NumPy take three times as long to call
        options = replace(options, backend=host_engine().name)
    classical = replace(options, scheme="classical")
    estimates = []
    for way, longest in _ways(sizes, modulus, options):
        count = ceil(K / longest)
        part = plan_of_parts(_problem(way, sizes, ceil(K / count), classical, packed), classical)
        estimates.append((_seconds(part, way, sizes, count), count, way))
    estimates.sort(key=lambda x: x[0])
    best: tuple[float, Any] = inf, None
    compared: dict[str, float] = {}
    for estimate, least, way in estimates:
        if estimate > min(best[0], estimates[0][0]) * _MOST_GAIN:
            break
        for finer in _FINER if not way.kind.is_exact and options.scheme == "auto" else (1.0,):
            count = ceil(least * finer)
            length = ceil(K / count)
            if count > least and length < 2 * _SHORTEST:
                break
            first = plan_of_parts(_problem(way, sizes, length, options, packed), options)
            seconds = _seconds(first, way, sizes, count)
            name = f"{way} {first.method.label}" + (f" in {count}" if count > 1 else "")
            compared[name] = seconds
            limit = options.workspace_limit
            if limit is not None and first.workspace + way.places(sizes)[-1] > limit:
                continue
            if seconds < best[0]:
                best = seconds, (way, length, first)
    if best[1] is None:
        needed = [x.places(sizes)[-1] for _, _, x in estimates]
        raise ValueError(
            f"workspace_limit is {options.workspace_limit} bytes; a product modulo {modulus} needs "
            f"at least {min(needed)} for residues and sums"
        )
    way, length, first = best[1]
    last = K - (K - 1) // length * length
    tail = plan_of_parts(_problem(way, sizes, last, first.options, packed), first.options)
    slices = *[first] * ((K - 1) // length), tail
    order = sorted(compared.items(), key=lambda x: x[1])
    made = ModularPlan.of(
        slices, residues=way, sizes=sizes, length=length, compared=tuple(order[:6])
    )
    made.__dict__["options"] = asked
    return made


def scale(c: np.ndarray | None, beta: int, out: np.ndarray, modulus: int) -> None:
    """Write ``beta * c % modulus`` to `out`: what a product of no elements leaves."""
    M, N = out.shape
    by_numpy.reduce(np.zeros((1, M, 1, N), np.int8), modulus, (1, 1), out, 1, c, beta)


def _ways(
    sizes: tuple[int, int, int], modulus: int, options: Options
) -> Iterator[tuple[Residues, int]]:
    """Yield types and parts that may be the fastest, and the longest slice of K of each."""
    (M, N, K), scheme = sizes, options.scheme
    of_scheme = isinstance(scheme, Scheme)
    growth = growth_of_sums(scheme) if isinstance(scheme, Scheme) else 1.0
    if growth > 2.0**50:
        raise TypeError(f"scheme {scheme!r} divides by others than powers of two: it is not exact")
    name = options.backend
    backends = available_backends() if name == "auto" else [get_backend(name)]
    for kind, most in _KINDS.items():
        problem = Problem(1, 1, 1, kind, result=Residues(modulus, kind).sums)
        if (of_scheme and kind.is_exact) or all(x.why_not(problem) for x in backends):
            continue
        found: list[tuple[int, int]] = []  # products of parts, longest slice
        pairs = ((i, j) for i in range(1, _MOST_PARTS + 1) for j in range(1, i + 1))
        for more, fewer in sorted(pairs, key=lambda x: x[0] * x[1]):
            way = Residues(modulus, kind, (more, fewer) if M <= N else (fewer, more))
            longest = min(int(way.room(1) / growth) - (_ROUNDED_UP if of_scheme else 0), K)
            if max(way.largest) > most or longest < min(K, _SHORTEST):
                continue
            if all(longest > other for _, other in found):
                found.append((more * fewer, longest))
                yield way, longest


def _problem(
    way: Residues, sizes: tuple[int, int, int], length: int, options: Options, packed: bool
) -> Problem:
    """Describe the product of the parts of a slice of K of that length."""
    M, N, _ = sizes
    about: dict[str, Any] = {"layout": (length == 1, True, False), "packed": packed}
    about |= {"a_strided": True, "b_strided": True, "result": way.sums}
    about["room"] = 0.0 if way.kind.is_exact else way.room(length)
    return Problem.of((way.parts[0] * M, way.parts[1] * N, length), way.kind, options, **about)


def _seconds(part: Plan, way: Residues, sizes: tuple[int, int, int], count: int) -> float:
    """Predict the time of a product by `count` slices like that of `part`."""
    (M, N, K), (_, of_sums, nbytes) = sizes, way.places(sizes)
    moved = of_sums + 8 * K * (M + N) + count * (nbytes - of_sums + 8 * M * N)
    of_a, of_b = way.parts
    parts = of_a * M * K + of_b * K * N + count * of_a * of_b * M * N
    passes = parts * _PART / (part.threads if parts > _SHARED else 1)
    problem = replace(part.problem, operand=FLOAT64, result=FLOAT64, accumulator=FLOAT64)
    memory = 8 * rates(host_engine(), problem, available_backends()).bandwidth
    return count * predicted(part).total + max(moved / memory, passes)


def _of_packed(b: PackedOperand, rows: int, options: Options) -> ModularPlan:
    """Return the plan of a product by a packed B."""
    payload, (K, N) = b.payload, b.shape
    way, sizes = payload.residues, (rows, N, K)
    inner = replace(options, max_growth=inf, check="none", arithmetic="native")
    slices = tuple(
        plan_packed(_problem(way, sizes, x.shape[0], inner, True), x, inner) for x in payload.slices
    )
    return ModularPlan.of(slices, residues=way, sizes=sizes, length=payload.length, compared=())


def packed_residues(
    b: np.ndarray, rows: int, modulus: int, options: Options, again: Any, matmul: Any
) -> tuple[Plan, PackedResidues]:
    """Pack the residues of a matrix, for products by so many rows; return their plan, too.

    `again`, `matmul`: those of `PackedOperand`.
    """
    (K, N), threads = b.shape, threads_of(options)
    plan = plan_for((rows, N, K), modulus, options, True)
    way, passes = plan.residues, by_engine if why_unavailable() is None else by_numpy
    memory = bytearray(way.parts[1] * K * N * way.kind.itemsize)
    right = _stacked(memory, 0, way, way.parts[1], plan.bases[1], b.T, passes, threads).T
    made = []
    for i, part in enumerate(plan.slices):
        factor = right[i * plan.length : (i + 1) * plan.length]
        about = factor.shape, way.sums.numpy, part.scheme, part.backend.name
        payload: Any = part.backend.pack(factor, part)
        panels = None if way.sums is way.kind else way.kind.numpy
        inner: Any = PackedOperand(*about, payload, None, again, matmul, panels=panels)
        made.append(inner)
    return plan, PackedResidues(way, plan.length, tuple(made))
