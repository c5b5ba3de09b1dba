"""Products modulo p: how they are planned, and the passes before and after an ordinary product.

::

    gemm, matmul, pack --> Product --> planner --> choose --> Plan, whose backend is a `Modular`
    Plan --> Modular.execute, per slice of K --> residues of a and b
                                             --> the backend of the plan of their product
                                             --> its sums, reduced to out
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, log2
from threading import get_ident
from typing import Any, ClassVar

import numpy as np

from falcon._backends import host_engine
from falcon._core.backend import Backend
from falcon._core.bound import growth_of_sums
from falcon._core.dtypes import FLOAT64
from falcon._core.modular import KINDS, Residues
from falcon._core.options import Options
from falcon._core.packed import PackedOperand
from falcon._core.plan import Candidate, Method, Plan
from falcon._core.problem import Problem
from falcon._core.symmetric import same_memory
from falcon._cpu import residues as by_engine
from falcon._cpu.extension import why_unavailable
from falcon._numpy import residues as by_numpy
from falcon.decision.rates import rates
from falcon.decision.select import plan_for
from falcon.schemes import Scheme

# Most parts of an element; shortest slice of K that is worth a pass over C.
_MOST_PARTS, _SHORTEST = 6, 256
# By how much a scheme may be faster than the classical algorithm, at most.
_MOST_GAIN = 1.5
# To how many times the least number of slices K is cut: schemes then have more room.
_FINER = (1, 1.5, 2, 4)
# Seconds in which a thread reads or writes a part, all in cache (Zen 4: 0.3 to 0.55 ns), and
# numbers from which there are several threads.
_PART, _SHARED = 5e-10, 2**16
# Steps of K by which blocks may be longer than their share of a slice.
_ROUNDED_UP = 64
# Products that are kept, by the function that runs them and its thread, and their most bytes each.
_MOST_READY, _SMALL = 32, 2**18


def modulo(*matrices: Any) -> None:
    """Reduce matrices by the engine, or by NumPy where there is none: see `by_numpy.modulo`."""
    (by_engine if why_unavailable() is None else by_numpy).modulo(*matrices)


@dataclass(frozen=True)
class Modular:
    """The backend of one plan: residues of A and of B, multiplied by another backend, and sums."""

    way: Residues
    count: int  # of slices of K
    first: Plan  # of the products of parts, in all slices but the last
    last: Plan
    packed: tuple[PackedOperand, ...] = ()  # the parts of each slice of a B that is packed

    is_library: ClassVar = False
    rest: ClassVar = 0.0

    @property
    def name(self) -> str:
        """The backend of the products."""
        return self.first.backend.name

    @property
    def nbytes(self) -> int:
        """Bytes of a B that is packed."""
        return sum(x.nbytes for x in self.packed)

    @property
    def method(self) -> Method:
        """How parts are multiplied, with the bytes of all that is allocated."""
        nbytes = self._nbytes + self.first.workspace
        return replace(self.first.method, name=f"{self.way} {self.first.label}", workspace=nbytes)

    def why_unavailable(self, *_: Any) -> str | None:
        """Return why a pickled plan cannot run here."""
        backend: Any = self.first.backend
        return backend.why_unavailable()

    why_not = why_unavailable

    def candidates(self, *_: Any) -> list[Method]:
        """Return the method of a pickled plan."""
        return [self.method]

    def execute(
        self, _: Any, a: Any, b: Any, c: Any, out: Any, *, alpha: int = 1, beta: int = 0, **__: Any
    ) -> None:
        """Write ``(alpha a b + beta c) % modulus`` to `out`, which may overlap all operands."""
        packed = b.payload.packed if isinstance(b, PackedOperand) else ()
        read = [x for x in (a, b) if self.count > 1 and isinstance(x, np.ndarray)]
        read += [] if c is None or same_memory(c, out) else [c]
        overlaps = any(np.may_share_memory(out, x) for x in read)
        target = np.empty(out.shape, out.dtype) if overlaps else out
        pool = by_engine.memory() if why_unavailable() is None else None
        nbytes = self._nbytes
        memory = bytearray(nbytes) if pool is None else pool.take(nbytes)
        try:
            for i, (part, at) in enumerate(self._slices()):
                x, y = a[:, at], packed[i] if packed else b[at]
                self._product(part, memory, x, y, out.shape)(x, y, c, target, alpha, beta)
                c, beta = target, 1
        finally:
            if pool is not None:
                pool.give(memory)
        if overlaps:
            out[...] = target

    def direct_product(self, _: Any) -> Callable[..., np.ndarray] | None:
        """Return a function for operands that lie as those of another call; None: of large ones."""

        def run(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
            key, ready = (run, get_ident()), by_engine.ready
            product = ready.pop(key, None)
            if product is None:
                product = self._product(self.first, bytearray(self._nbytes), a, b, out.shape)
            product(a, b, None, out, 1, 0)
            if len(ready) >= _MOST_READY:
                ready.clear()
            ready[key] = product
            return out

        return run if self.count == 1 and self._nbytes <= _SMALL else None

    @property
    def _nbytes(self) -> int:
        """Bytes of residues and sums."""
        p, (of_a, of_b) = self.first.problem, self.way.parts
        return self.way.nbytes(p.M // of_a, p.N // of_b, p.K)

    def _slices(self) -> Iterator[tuple[Plan, slice]]:
        """Yield the plan of each slice, and its part of K."""
        step = self.first.problem.K
        for at in range(0, step * (self.count - 1), step):
            yield self.first, slice(at, at + step)
        yield self.last, slice(step * (self.count - 1), None)

    def _product(
        self, part: Plan, memory: Any, a: Any, b: Any, shape: tuple[int, int]
    ) -> Callable[..., None]:
        """Return what writes ``(alpha a b + beta c) % modulus`` for slices that lie as a and b."""
        way, (rows, columns), (M, N) = self.way, self.way.parts, shape
        p, (base_a, base_b), threads = way.modulus, way.bases, part.threads
        left, of_a, end = _stacked(memory, 0, way.kind.numpy, rows, a)
        right: np.ndarray | None = None
        of_b: list[np.ndarray] = []
        if isinstance(b, np.ndarray):
            right, of_b, end = _stacked(memory, end, way.kind.numpy, columns, b.T)
            right, of_b = right.T, [x.T for x in of_b]
        sums = np.frombuffer(memory, way.sums.numpy, rows * M * columns * N, end)
        sums = sums.reshape(rows * M, columns * N)
        places = [(i, j) for i in range(rows) for j in range(columns)]
        terms = [sums[i * M : (i + 1) * M, j * N : (j + 1) * N] for i, j in places]

        def product(a: Any, b: Any, c: Any, out: Any, alpha: int, beta: int) -> None:
            modulo([a], [1], of_a, p, base_a, threads)
            if right is not None:
                modulo([b], [1], of_b, p, base_b, threads)
            part.backend.execute(part, left, b if right is None else right, None, sums)
            weights = [alpha * base_a**i * base_b**j % p for i, j in places]
            if c is None:
                modulo(terms, weights, [out], p, 0, threads)
            else:
                modulo([*terms, c], [*weights, beta], [out], p, 0, threads)

        return product

    def execute_batch(self, *_: Any, **__: Any) -> bool:
        """Leave the matrices of a batch to be multiplied one by one."""
        return False

    def pack(self, b: np.ndarray, plan: Plan) -> Modular:
        """Pack the residues of B; where it is empty, zeros."""
        b = b if b.size else np.zeros([max(x, 1) for x in b.shape], b.dtype)
        nothing: Any = None
        way, made = self.way, []
        panels = None if way.sums is way.kind else way.kind.numpy
        for part, at in self._slices():
            memory = bytearray(way.nbytes(0, b.shape[1], part.problem.K))
            right, parts, _ = _stacked(memory, 0, way.kind.numpy, way.parts[1], b[at].T)
            modulo([b[at].T], [1], parts, way.modulus, way.bases[1], part.threads)
            right = right.T
            about = right.shape, way.sums.numpy, part.scheme, self.name
            payload = part.backend.pack(right, part)
            made.append(PackedOperand(*about, payload, None, nothing, nothing, panels=panels))
        return replace(self, packed=tuple(made))

    def plan(self, problem: Problem, options: Options, *compared: Candidate) -> Plan:
        """Return the plan of a product; `compared`: the choice first."""
        way, K = self.way, self.first.problem.K
        bits = log2(max(growth_of_sums(self.first.scheme) * way.most / way.room(K), 1))
        cut = "one slice" if self.count == 1 else f"{self.count} slices"
        why = f"exact modulo {way.modulus}: in {cut} of K, sums stay below 2^{bits:.1f}"
        seconds = compared[0].seconds if compared else ()
        backend: Any = self
        about: dict[str, Any] = {"options": options, "table": lambda: compared}
        return Plan(problem, backend, self.method, why, seconds, **about)


def _stacked(
    memory: Any, place: int, kind: np.dtype, count: int, x: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray], int]:
    """Return matrices like `x`, one below the other, each of them, and where they end in memory.

    They lie by rows or columns as `x` does.
    """
    rows, columns = x.shape
    stack = np.frombuffer(memory, kind, count * rows * columns, place)
    end = place + -(-stack.nbytes // 64) * 64
    by_columns = abs(x.strides[0]) < abs(x.strides[1])
    shape = (columns, count * rows) if by_columns else (count * rows, columns)
    stack = stack.reshape(shape).T if by_columns else stack.reshape(shape)
    return stack, [stack[i * rows : (i + 1) * rows] for i in range(count)], end


def choose(problem: Problem, options: Options, backends: Sequence[Backend]) -> Plan:
    """Plan a product modulo p by the fastest of its ways, predicted with the passes.

    Raises ValueError: every way to multiply exceeds the workspace limit.
    """
    if problem.symmetric:
        raise TypeError("gram takes no modulus; multiply by falcon.matmul(x.T, x, modulus=...)")
    limit, K, ways = options.workspace_limit, max(problem.K, 1), []
    usual = replace(options, scheme="classical", workspace_limit=None)
    for way, longest in _ways(problem, options, backends):
        made = _planned(problem, way, ceil(K / longest), usual, backends)
        ways.append((_candidate(problem, made, backends).total, ceil(K / longest), way))
    found: list[tuple[Candidate, Modular]] = []
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
                made = _planned(problem, way, count, options, backends)
            except ValueError:
                if limit is None:
                    raise
                continue
            found.append((_candidate(problem, made, backends), made))
            fits, best = True, min(best, found[-1][0].total)
    if not found:
        needed = min(way.nbytes(problem.M, problem.N, 1) for _, _, way in ways)
        raise ValueError(
            f"workspace_limit is {limit} bytes; a product modulo {options.modulus} needs at least "
            f"{needed} for residues and sums"
        )
    found.sort(key=lambda x: x[0].total)
    slower = [replace(x, refused=f"{x.total / best:.2f} x as long") for x, _ in found[1:]]
    return found[0][1].plan(problem, options, found[0][0], *slower)


def choose_packed(
    problem: Problem, made: Modular, options: Options, plan_packed: Callable[..., Plan]
) -> Plan:
    """Plan a product by a B that `Modular.pack` has packed."""
    first, last = (
        plan_packed(_part(problem, made.way, x.shape[0], inner), x, inner)
        for x in (made.packed[0], made.packed[-1])
        for inner in [_of_parts(options, made.way.nbytes(problem.M, problem.N, x.shape[0]))]
    )
    return replace(made, first=first, last=last).plan(problem, options)


def _ways(
    problem: Problem, options: Options, backends: Sequence[Backend]
) -> Iterator[tuple[Residues, int]]:
    """Yield types and parts that may be the fastest, and the longest slice of K of each."""
    scheme = options.scheme if isinstance(options.scheme, Scheme) else None
    growth, rounded_up = growth_of_sums(scheme), 0 if scheme is None else _ROUNDED_UP
    if growth > 2.0**50:
        raise TypeError(f"scheme {scheme!r} divides by others than powers of two: it is not exact")
    K, name = max(problem.K, 1), options.backend
    pairs = ((i, j) for i in range(1, _MOST_PARTS + 1) for j in range(1, i + 1))
    ordered = sorted(pairs, key=lambda x: x[0] * x[1])
    for kind, most in KINDS.items():
        usual = Problem(1, 1, 1, kind, result=Residues(2, kind).sums)
        able = any(x.why_not(usual) is None for x in backends if name in ("auto", x.name))
        if not able or (scheme is not None and kind.is_exact):
            continue
        reached = min(K, _SHORTEST) - 1
        for more, fewer in ordered:
            parts = (more, fewer) if problem.M <= problem.N else (fewer, more)
            way = Residues(options.modulus or 2, kind, parts)
            longest = min(int(way.room(1) / growth) - rounded_up, K)
            if max(way.largest) <= most and longest > reached:
                reached = longest
                yield way, longest


def _planned(
    problem: Problem, way: Residues, count: int, options: Options, backends: Sequence[Backend]
) -> Modular:
    """Plan the products of the parts of about so many slices of K."""
    K = max(problem.K, 1)
    length = ceil(K / count)
    inner = _of_parts(options, way.nbytes(problem.M, problem.N, length))
    count = ceil(K / length)
    rest = K - (count - 1) * length
    plans = {x: plan_for(_part(problem, way, x, inner), inner, backends) for x in {length, rest}}
    return Modular(way, count, plans[length], plans[rest])


def _of_parts(options: Options, nbytes: int) -> Options:
    """Return the options of the products of parts, beside so many bytes."""
    limit, name = options.workspace_limit, options.backend
    if limit is not None and limit < nbytes:
        raise ValueError(f"workspace_limit is {limit} bytes; residues and sums take {nbytes}")
    return replace(
        options,
        modulus=None,
        # Small products by NumPy take three times as long to call.
        backend=host_engine().name if name == "auto" else name,
        max_growth=inf,
        arithmetic="native",
        check="none",
        workspace_limit=None if limit is None else limit - nbytes,
    )


def _part(problem: Problem, way: Residues, K: int, options: Options) -> Problem:
    """Describe the product of the parts of a slice of K of that length."""
    rows, columns = way.parts
    about: dict[str, Any] = {"layout": (K == 1, True, False), "packed": problem.packed}
    about |= {"a_strided": True, "b_strided": True, "result": way.sums}
    about["room"] = 0.0 if way.kind.is_exact else way.room(K)
    sizes = rows * max(problem.M, 1), columns * max(problem.N, 1), K
    return Problem.of(sizes, way.kind, options, **about)


def _candidate(problem: Problem, made: Modular, backends: Sequence[Backend]) -> Candidate:
    """Predict the time of the products, and of the passes beside them."""
    part, (of_a, of_b), name = made.first, made.way.parts, made.method.name
    backend: Any = part.backend
    M, N, K = problem.M, problem.N, problem.K
    known = rates(backend, part.problem, backends, part.method.operand)
    times = backend.predicted(part.problem, part.method, known)
    sums = made.count * M * N
    nbytes = made.way.nbytes(M, N, K) + (made.count - 1) * made.way.nbytes(M, N, 0)
    parts = of_a * M * K + of_b * K * N + of_a * of_b * sums
    passes = parts * _PART / (part.threads if parts > _SHARED else 1)
    double = replace(part.problem, operand=FLOAT64, result=FLOAT64, accumulator=FLOAT64)
    memory = 8 * rates(host_engine(), double, backends).bandwidth
    passes = max(passes, (nbytes + 8 * K * (M + N) + 8 * sums) / memory)
    if made.count > 1:
        name = f"{name} in {made.count} slices"
    seconds = ("products", made.count * times.total), ("passes", passes)
    return Candidate(replace(made.method, name=name), seconds)
