"""`Packed`: the sums of B in GPU memory, formed once."""

from __future__ import annotations

from dataclasses import dataclass

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
    dtype : DType
    powers : Memory or None
        Powers of two by which columns of B were multiplied first (see `kernels.scales`).
    """

    memory: Memory
    block: Sizes
    by_columns: bool
    dtype: DType
    powers: Memory | None = None

    @property
    def nbytes(self) -> int:
        """Bytes held besides B itself."""
        return self.memory.nbytes

    def group(self, group: Group, first_column: int) -> Operand:
        """Return the operands of a group's products, starting at a column of every block."""
        _, columns, inner = self.block
        long, plane = group.length * inner, inner * columns
        ld = long if self.by_columns else columns
        skipped = first_column * (long if self.by_columns else 1)
        pointer = self.memory.pointer
        pointer += (group.block * plane + skipped) * self.dtype.itemsize
        return Operand(pointer, ld, self.by_columns, group.length * plane, self.dtype)
