"""Matrix products by cuBLAS for operands in either order."""

from __future__ import annotations

from dataclasses import dataclass

from . import device
from .matrix import Matrix


@dataclass(frozen=True, slots=True)
class Operand:
    """A batch of matrices, each with one unit stride.

    Attributes
    ----------
    pointer : int
    ld : int
        Elements between neighbours along the other axis.
    by_columns : bool
        Neighbours along a column touch.
    step : int
        Elements between matrices.
    dtype : str
    """

    pointer: int
    ld: int
    by_columns: bool
    step: int
    dtype: str

    @classmethod
    def of(cls, x: Matrix) -> Operand:
        """Describe a single matrix, which must be direct."""
        return cls(x.pointer, x.ld, x.by_columns, 0, x.dtype)

    def strided(self, transposed: bool) -> device.Strided:
        """Return what cuBLAS, for which every matrix is by columns, is told."""
        return device.Strided(self.pointer, self.ld, self.step, self.dtype, transposed)


def multiply(
    rows: int,
    columns: int,
    inner: int,
    a: Operand,
    b: Operand,
    out: Operand,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    batch: int = 1,
    sums: str,
    tf32: bool = False,
) -> None:
    """Launch ``out = alpha a b + beta out``.

    A matrix stored by rows is, for cuBLAS, its transpose; so for an `out` by rows the product is
    ``b^T a^T``, and no operand is ever copied.
    """
    if out.by_columns:
        sizes = (rows, columns, inner)
        left, right = a.strided(not a.by_columns), b.strided(not b.by_columns)
    else:
        sizes = (columns, rows, inner)
        left, right = b.strided(b.by_columns), a.strided(a.by_columns)
    target = out.strided(False)
    device.gemm(
        sizes, left, right, target, alpha=alpha, beta=beta, batch=batch, sums=sums, tf32=tf32
    )
