"""`GpuRunner`: one plan, run by steps that are made once; calls fill in addresses alone.

Steps depend on shapes, strides, types, alignment and options. They are made for arrays in slots of
an address space so large that an address tells its slot, and the offset in it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from falcon._core.matrix import Matrix, meet
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._core.reals import chosen, composed
from falcon._core.runner import BoundRun, PlanRunner
from falcon._tools.lazy import lazy
from falcon.codegen.cuda_plan import ACCESS_BYTES

from . import cublas, device, direct, driver, embedded, kernels, repaired, workspaces
from .arrays import Library, library_of
from .cublas import Product
from .geometry import triangle
from .matrix import Memory
from .steps import Launch, Step, run

_log = logging.getLogger("falcon")

# Bytes of a slot. Addresses of memory are smaller.
_SLOT = 2**56
# Kernels access as many bytes at a time, if addresses allow it: steps are for equal remainders.
ALIGNMENT = ACCESS_BYTES


class GpuRunner(PlanRunner):
    """See the module's docstring; no symmetric product on a device is cut, or has a `mirror`."""

    _plan: Plan

    def _bind_matrices(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any, beta: Any, mirror: Any
    ) -> BoundRun:
        number = complex if self._plan.problem.operand.is_complex else float
        return Steps(self._plan, (a, b, c, out), number(alpha), number(beta))

    def _is_one_call(self, library: Library, a: Any, b: Any, out: Any) -> bool:
        """Whether one strided-batched product of cuBLAS multiplies a batch."""
        whole = [library.broadcast(x, (*out.shape[:-2], *x.shape[-2:])) for x in (a, b)]
        plan, (left, right, target) = self._plan, map(library.batch, (*whole, out))
        able = plan.method.is_classical and plan.operand.splits == 1
        able = able and plan.options.workspace_limit is None
        able = able and not plan.method.layout.buffers.fixed  # which is that of one product
        if plan.problem.symmetric:  # a launch mirrors at most so many
            able = able and plan.problem.count < 2**16 and len(triangle(plan.problem.M)) == 1
        if not able or left is None or right is None or target is None:
            return False
        able = embedded.real_of(plan) is None or embedded.takes_batch(
            plan.problem, left, right, target
        )
        return (able and (target.step != 0 or plan.problem.count == 1)) and (
            left.dtype is right.dtype is target.dtype
        )

    def _bind_batch(self, a: Any, b: Any, out: Any, alpha: Any) -> BoundRun | None:
        library = library_of(a)
        if not self._is_one_call(library, a, b, out):
            return None
        p, plan, factor = self._plan.problem, self._plan, complex(alpha)
        turned = embedded.real_of(plan)
        real = p if turned is None else turned.problem
        assert p.device is not None
        index: int = p.device

        def multiply(a: Any, b: Any, c: Any, out: Any) -> None:
            shapes = (*out.shape[:-2], p.M, p.K), (*out.shape[:-2], p.K, p.N), out.shape
            with device.on(index), library.stream(index):
                views: Any = [library.batch(library.broadcast(x, shape))
                              for x, shape in zip((a, b, out), shapes, strict=True)]  # fmt: skip
                steps: list[Step] = []
                how: dict[str, Any] = {"batch": p.count, "operand": plan.operand}
                if real is not p:  # B' has the factor, and memory until the steps have begun
                    turn, _kept, *views = embedded.reals_of_batch(p, library, factor, *views)
                    steps.append(turn)
                how["alpha"] = factor if real is p else 1.0
                steps += cublas.products(real.M, real.N, real.K, *views, **how)
                if p.symmetric:
                    steps.append(kernels.mirror(library.matrix(out).first, p.count, views[2].step))
                run(*steps, workspace=workspaces.for_cublas(library, p.reproducible))

        return multiply


class Steps:
    """The steps of ``out = alpha a b + beta c`` by one plan, for arrays that lie as some others."""

    def __init__(
        self, plan: Plan, given: tuple[Any, Any, Any, Any], alpha: complex, beta: complex
    ) -> None:
        a, b, c, out = given
        p = plan.problem
        self._plan, self._factors, self._library = plan, (alpha, beta), library_of(a)
        self._index = p.device or 0
        with device.on(self._index):
            self._flag = repaired.flag_of(plan.reals or plan)
        matrices = [self._library.matrix(x) for x in (a, out)]
        payload = b.payload if type(b) is PackedOperand else None
        if payload is None:
            matrices.append(self._library.matrix(b))
        # A c that the result replaces lies in the same slot.
        added = None if c is None else self._library.matrix(c)
        self._is_added, self._in_place = c is not None, added and added.is_same(matrices[1])
        if added is not None and not self._in_place:
            matrices.append(added)
        self._spans = [(x.span[0] - x.pointer, x.span[1] - x.pointer) for x in matrices]
        # Steps for operands that overlap the result do for others, but not the other way round.
        self._is_apart = not self._overlaps([x.pointer for x in matrices])
        bases = [(1 + at) * _SLOT + x.pointer % ALIGNMENT for at, x in enumerate(matrices)]
        bases.append((1 + len(matrices)) * _SLOT)  # of the workspace
        placed = [replace(x, pointer=y, owner=None)
                  for x, y in zip(matrices, bases, strict=False)]  # fmt: skip
        left, target = placed[:2]
        right, packed = (payload.source, payload.packed) if payload else (placed[2], None)
        if added is not None:
            added = target if self._in_place else placed[-1]
        steps_of: Any = driver.steps_of
        self._nbytes: int = plan.method.layout.nbytes
        self._fixed = plan.method.layout.buffers.fixed  # the last of these bytes
        if embedded.real_of(plan) is not None:
            steps_of, self._nbytes = embedded.steps_of, embedded.nbytes_of(plan, alpha, beta)
        if 0 in (p.M, p.N, p.K):
            steps: list[Any] = [kernels.copy(None, target)] if p.M * p.N else []
        else:
            operands, how = (left, right, added, target), {"alpha": alpha, "beta": beta}
            steps = steps_of(plan, operands, packed, bases[-1], **how)
        self._multiplies = any(isinstance(x, Product) for x in steps)
        places = [_places(x.arguments, bases) for x in steps]
        by_driver = any(isinstance(x, Launch) for x in steps) and direct.trial.works(self._index)
        with device.on(self._index):
            self._program = direct.Program(steps, places, by_driver)

    def __call__(self, a: Any, b: Any, c: Any, out: Any) -> None:
        """Multiply."""
        if device.current() != self._index:
            with device.on(self._index):
                self(a, b, c, out)
            return
        library, payload = self._library, b.payload if type(b) is PackedOperand else None
        given = [library.address(a), library.address(out)]
        if payload is None:
            given.append(library.address(b))
        if self._is_added and not self._in_place:
            given.append(library.address(c))
        if self._is_apart and self._overlaps(given):
            self._anew(a, b, c, out)
            return
        with library.stream(self._index):
            if self._flag is not None and self._flag.take():
                self._classical("it was repaired before", a, b, c, out)
                return
            try:
                memory = workspaces.allocate(library, self._nbytes, optional=self._plan.optional)
            except MemoryError as error:
                if not self._plan.optional:
                    raise
                self._classical(str(error), a, b, c, out)
                return
            given.append(memory.pointer)
            handle = self._handle(memory) if self._multiplies else 0
            self._program.start(given, handle)
            if payload is not None:
                payload.note_use()

    def _handle(self, memory: Memory) -> int:
        """Return cuBLAS's handle, with what it may use of the workspace, if any."""
        for_cublas: Memory | None
        if self._fixed:
            for_cublas = Memory(memory.pointer + self._nbytes - self._fixed, self._fixed, None)
        else:
            for_cublas = workspaces.for_cublas(self._library, self._plan.problem.reproducible)
        return cublas.handle(for_cublas)

    def _overlaps(self, given: list[int]) -> bool:
        spans = [(x + y[0], x + y[1]) for x, y in zip(given, self._spans, strict=False)]
        of_out = spans.pop(1)
        return any(meet(x, of_out) for x in spans)

    def _classical(self, why: str, *operands: Any) -> None:
        """Multiply by the library alone."""
        _log.debug("falcon: %s is multiplied classically: %s", self._plan.problem, why)
        a, b, c, out = operands
        self._alone(a, b, c, out, *self._factors)

    @lazy
    def _alone(self) -> GpuRunner:
        plan = self._plan.reals or self._plan
        compute_type = None if plan.method.splits > 1 else plan.method.compute_type
        limits = replace(plan.options, workspace_limit=None)
        method = plan.backend.candidates(plan.problem, (None,), None, compute_type)[0]
        how: dict[str, Any] = {"guarded": False, "optional": False, "options": limits}
        made, whole = replace(plan, method=method, **how), self._plan
        if whole is plan:
            return GpuRunner(made)
        is_packed = embedded.real_of(whole) is not None and whole.problem.packed  # B' is
        return GpuRunner((composed if is_packed else chosen)(whole.problem, limits, made))

    def _anew(self, a: Any, b: Any, c: Any, out: Any) -> None:
        """Multiply by steps for operands that overlap."""
        plan, p, known = self._plan, self._plan.problem, self._library.matrix
        packed = type(b) is PackedOperand
        right: Matrix = b.payload.source if packed else known(b)
        added = known(c) if self._is_added else None
        how: dict[str, Any] = {"device": p.device, "packed": packed}
        types = p.operand, p.result
        problem = Problem.of(known(a), right, added, known(out), types, plan.options, **how)
        plan.fitted(problem).runner(a, b, c, out, *self._factors)


def _places(arguments: tuple, bases: list[int]) -> list[tuple[int, int, int]]:
    """Return which arguments are addresses in slots: place, slot and offset of each."""
    places = []
    for place, x in enumerate(arguments):
        if type(x) is int and x >= _SLOT:
            slot = x // _SLOT - 1
            places.append((place, slot, x - bases[slot]))
    return places
