"""`Packed`: the sums of B in GPU memory, formed once; `of_group`: the sums of A or B."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from falcon._core.dtypes import DType
from falcon._core.plan import Plan
from falcon.codegen.cuda_plan import Group

from . import device
from .geometry import Sizes, staged
from .matrix import Matrix, Memory, Operand


@dataclass(frozen=True, eq=False)
class Packed:
    """The R sums of B."""

    memory: Memory  # the sums, chains side by side
    block: Sizes  # rows, columns and inner length of a block; the rows do not matter
    by_columns: bool  # every sum is stored by columns, as B is
    operand: DType  # of the problem
    powers: Memory | None = None  # powers of two by which columns of B were multiplied first

    def group(self, group: Group, first_column: int) -> Operand:
        """Return the operands of a group's products, starting at a column of every block."""
        _, columns, inner = self.block
        along = self.by_columns
        found = of_group(self.memory.pointer, group, columns, inner, along, along, self.operand)
        skipped = first_column * (found.ld if along else 1)
        return replace(found, pointer=found.pointer + skipped * found.dtype.itemsize)


class Payload:
    """What a packed operand of this backend holds: B and its sums, if a scheme is used.

    Pools hand memory out again in the order of the stream in which it was allocated. So that stream
    waits, before the sums are freed, for products in other streams that read them.
    """

    def __init__(self, source: Matrix, packed: Packed | None) -> None:
        self.source, self.packed = source, packed
        self._stream = device.stream()
        self._uses: dict[int, Any] = {}  # events behind the last use in every other stream
        self.repeated: dict[Any, Any] = {}  # calls by properties of A, for `falcon._front`

    def packed_for(self, plan: Plan) -> Packed | None:
        """Return the sums, where a plan uses them."""
        return None if staged(plan.problem.operand, plan.scheme) is None else self.packed

    def note_use(self) -> None:
        """Note that the current stream reads the sums."""
        used_in = device.stream()
        if used_in.ptr != self._stream.ptr and not used_in.is_capturing():
            self._uses[used_in.ptr] = device.event()

    def __del__(self) -> None:
        with suppress(Exception):  # at the end of the process
            for event in self._uses.values():
                self._stream.wait_event(event)

    @property
    def nbytes(self) -> int:
        """Bytes of the sums."""
        return 0 if self.packed is None else self.packed.memory.nbytes


def of_group(
    pointer: int,
    group: Group,
    lines: int,
    inner: int,
    along: bool,
    by_columns: bool,
    operand: DType,
) -> Operand:
    """Return the sums of A or B of a group's products, and all parts of them.

    `pointer`: address of all sums.
    `lines`, `inner`: sizes of a sum: rows of A or columns of B, and the inner dimension.
    `along`, `by_columns`: neighbours along the inner dimension, and in a column, are adjacent.
    `operand`: of the problem.
    """
    long, plane = group.length * inner * operand.parts, lines * inner
    at = pointer + group.block * plane * operand.panel_bytes
    ld = long if along else lines
    return Operand(at, ld, by_columns, long * lines, operand.multiplied)
