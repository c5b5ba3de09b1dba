"""`Packed`: the sums of B in GPU memory, formed once; `of_group`: the sums of A or B."""

from __future__ import annotations

from dataclasses import dataclass, replace

from falcon._core.dtypes import DType
from falcon.codegen.cuda_plan import Group

from .geometry import Sizes
from .matrix import Memory, Operand


@dataclass(frozen=True, eq=False)
class Packed:
    """The R sums of B.

    Attributes
    ----------
    memory : Memory
        The sums, chains side by side.
    block : (int, int, int)
        Rows, columns and inner length of a block; the rows do not matter.
    by_columns : bool
        Every sum is stored by columns, as B is.
    operand : DType
        Of the problem.
    powers : Memory or None
        Powers of two by which columns of B were multiplied first (see `kernels.scales`).
    """

    memory: Memory
    block: Sizes
    by_columns: bool
    operand: DType
    powers: Memory | None = None

    @property
    def nbytes(self) -> int:
        """Bytes held besides B itself."""
        return self.memory.nbytes

    def group(self, group: Group, first_column: int) -> Operand:
        """Return the operands of a group's products, starting at a column of every block."""
        _, columns, inner = self.block
        along = self.by_columns
        found = of_group(self.memory.pointer, group, columns, inner, along, along, self.operand)
        skipped = first_column * (found.ld if along else 1)
        return replace(found, pointer=found.pointer + skipped * found.dtype.itemsize)


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

    Parameters
    ----------
    pointer : int
        Address of all sums.
    group : Group
    lines, inner : int
        Sizes of a sum: rows of A or columns of B, and the inner dimension.
    along : bool
        Neighbours along the inner dimension are adjacent in memory.
    by_columns : bool
        The same of neighbours in a column.
    operand : DType
        Of the problem.
    """
    long, plane = group.length * inner * operand.parts, lines * inner
    at = pointer + group.block * plane * operand.panel_bytes
    ld = long if along else lines
    return Operand(at, ld, by_columns, long * lines, operand.multiplied)
