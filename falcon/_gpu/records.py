"""Calls that are repeated: their steps are made once, and only addresses are filled in.

Steps depend on shapes, strides, types, alignment and options, which the caller of `run` has
compared. They are made for arrays in slots of an address space so large that an address tells its
slot, and the offset in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from falcon._core.matrix import Matrix, meet
from falcon._core.plan import Plan
from falcon.codegen.cuda_plan import ACCESS_BYTES

from . import cublas, device, driver, repaired, workspaces
from .arrays import library_of
from .packed import Payload

# Bytes of a slot. Addresses of memory are smaller.
_SLOT = 2**56
# Kernels access as many bytes at a time, if addresses allow it: records are for equal remainders.
ALIGNMENT = ACCESS_BYTES


class Record:
    """The steps of ``out = a b + c`` by one plan."""

    def __init__(
        self, plan: Plan, a: Matrix, b: Matrix | Payload, out: Matrix, c: Matrix | None
    ) -> None:
        problem = plan.problem
        self._library, self._index = library_of(out.owner), problem.device or 0
        self._shape, self._result, self._optional = out.shape, problem.result, plan.optional
        given = [a, out] if isinstance(b, Payload) else [a, out, b]
        given += [] if c is None else [c]
        self._spans = [(x.span[0] - x.pointer, x.span[1] - x.pointer) for x in given]
        bases = [(1 + at) * _SLOT + x.pointer % ALIGNMENT for at, x in enumerate(given)]
        bases.append((1 + len(given)) * _SLOT)  # of the workspace
        placed = [replace(x, pointer=y, owner=None) for x, y in zip(given, bases, strict=False)]
        right, packed = (b.source, b.packed) if isinstance(b, Payload) else (placed[2], None)
        self._nbytes = plan.method.layout.nbytes
        operands = placed[0], right, None if c is None else placed[-1], placed[1]
        steps = driver.steps_of(plan, operands, packed, bases[-1], alpha=1.0, beta=1.0)
        self._steps = [(x.start, x.arguments, _places(x.arguments, bases)) for x in steps]
        self._flag = repaired.flag_of(plan)

    def run(self, given: list[int], out: Any, payload: Payload | None) -> Any:
        """Multiply; return the result, or None where the call must be planned.

        `given`: addresses of a, out (0: make a new one), b, unless that is `payload`, and c.
        """
        if self._flag is not None and self._flag.is_set():
            return None
        if device.current() != self._index:
            with device.on(self._index):
                return self.run(given, out, payload)
        with self._library.stream(self._index):
            if device.is_capturing():
                return None
            if out is None:
                out = self._library.empty(self._shape, self._result, self._index)
                given[1] = self._library.address(out)
            elif self._overlaps(given):
                return None
            try:
                memory = workspaces.allocate(self._library, self._nbytes, optional=self._optional)
            except MemoryError:
                return None
            given.append(memory.pointer)
            handle = cublas.handle(None)
            for start, arguments, places in self._steps:
                filled = list(arguments)
                for place, slot, offset in places:
                    filled[place] = given[slot] + offset
                start(handle, filled)
            if payload is not None:
                payload.note_use()
        return out

    def _overlaps(self, given: list[int]) -> bool:
        spans = [(x + y[0], x + y[1]) for x, y in zip(given, self._spans, strict=True)]
        of_out = spans.pop(1)
        return any(meet(x, of_out) for x in spans)


def _places(arguments: tuple, bases: list[int]) -> list[tuple[int, int, int]]:
    """Return which arguments are addresses in slots: place, slot and offset of each."""
    places = []
    for place, x in enumerate(arguments):
        if type(x) is int and x >= _SLOT:
            slot = x // _SLOT - 1
            places.append((place, slot, x - bases[slot]))
    return places
