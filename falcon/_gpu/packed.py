"""`Sums`: the sums of A or B in GPU memory. `Payload`: those of a packed B, formed once."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from falcon._core.dtypes import DType
from falcon._core.matrix import Matrix
from falcon.codegen.cuda_plan import Group

from . import device, workspaces
from .matrix import Memory, Operand


@dataclass(frozen=True, slots=True)
class Sums:
    """The R sums of A or B, or of a part of each block, and all parts of their elements."""

    pointer: int
    lines: int  # rows of a sum of A, columns of one of B
    inner: int
    by_columns: bool  # they are stored by columns, as the matrix is
    of_b: bool
    operand: DType  # of the problem
    first: int = 0  # the line with which products begin

    @property
    def along(self) -> bool:
        """Whether neighbours along the inner dimension are adjacent."""
        return self.by_columns == self.of_b

    def of_group(self, group: Group) -> Operand:
        """Return what the products of a group multiply: chains side by side."""
        long, plane = group.length * self.inner * self.operand.splits, self.lines * self.inner
        ld, dtype = long if self.along else self.lines, self.operand.multiplied
        skipped = self.first * (ld if self.along else 1) * dtype.itemsize
        at = self.pointer + group.block * plane * self.operand.panel_bytes + skipped
        return Operand(at, ld, self.by_columns, long * self.lines, dtype)


@dataclass(frozen=True, eq=False)
class Packed:
    """The sums of B, and the powers of two by which its columns were multiplied first."""

    sums: Sums
    memory: Memory  # of the sums
    powers: Memory
    segments: Memory  # the sums of the segments of its columns, for products by parts
    steps: Memory  # powers of two along K


class Payload:
    """What a packed operand of this backend holds: B and its sums, if a scheme is used.

    Pools hand memory out again in the order of the stream in which it was allocated. So that stream
    waits, before the sums are freed, for products in other streams that read them.
    """

    def __init__(self, source: Matrix, packed: Packed | None) -> None:
        self.source, self.packed = source, packed
        self._stream, self._index = device.stream(), device.current()
        self._uses: dict[int, Any] = {}  # events behind the last use in every other stream

    def note_use(self) -> None:
        """Note that the current stream reads the sums."""
        used_in = device.stream()
        if used_in.ptr != self._stream.ptr and not used_in.is_capturing():
            self._uses[used_in.ptr] = device.event()

    def __del__(self) -> None:
        with suppress(Exception):  # at the end of the process
            if self._uses and self._stream.is_capturing():
                workspaces.keep_always(self.packed)  # a wait would become part of the graph
                return
            with device.on(self._index):  # the null stream is that of the current device
                for event in self._uses.values():
                    self._stream.wait_event(event)

    @property
    def nbytes(self) -> int:
        """Bytes of the sums."""
        return 0 if self.packed is None else self.packed.memory.nbytes
