"""Every kernel by itself, whatever the instruction set in use: for `falcon.check`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from falcon._core.bound import PROMISED
from falcon._core.dtypes import BY_ARITHMETIC, BY_FLOAT, ENGINE, INT64, PAIRS, DType
from falcon.schemes import M4, Scheme

try:
    from . import _core, rounding
    from .programs import complex_scheme, engine_scheme
except ImportError:  # `extension.why_unavailable` says so
    _core = None  # type: ignore[assignment]

# One type for each kernel (unsigned integers share those of signed ones), and complex ones.
_ROWS = {
    (x.engine, x.is_complex): x
    for x in reversed((*ENGINE, *PAIRS, *BY_ARITHMETIC.values(), BY_FLOAT[INT64]))
}


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of an instruction set, and a type that it multiplies."""

    name: str
    isa: str
    operand: DType
    # Rows and columns of a micro-tile, and the columns of a vector.
    mr: int
    nr: int
    vlen: int

    def result(self, *, wide: bool = False) -> DType:
        """Return the type of C: that of the operands if there is one, or the accumulators."""
        return self.operand.wide[0] if wide else self.operand.result

    def can_run(self, scheme: Scheme, *, wide: bool = False) -> bool:
        """Whether a scheme's result is right: its sums of elements may not fit the panels."""
        is_narrow = self.result(wide=wide) is self.operand.left
        return is_narrow or rounding.why_classical_only(self.operand, scheme, self.isa) is None

    def product(
        self,
        a: np.ndarray,
        b: np.ndarray,
        scheme: Scheme | None = None,
        *,
        wide: bool = False,
        threads: int = 1,
    ) -> np.ndarray:
        """Return ``a @ b``; bfloat16 is passed as the integers of 16 bits that hold it.

        `threads` may be more than the CPUs.
        """
        (M, K), N, result = a.shape, b.shape[1], self.result(wide=wide)
        is_wide = result is not self.operand.left
        form: Any = complex_scheme(M4, scheme) if self.operand.is_complex else scheme
        layout = _core.plan(
            *(M, N, K, self.operand.engine),
            isa=self.isa,
            scheme=engine_scheme(form),
            threads=threads,
            a_by_columns=a.strides[0] == a.itemsize,
            b_by_rows=b.strides[1] == b.itemsize,
            c_wide=is_wide,
        )
        c = np.empty((M, N), result.numpy if is_wide else a.dtype)
        _core.gemm(layout, a, b, c)
        return c

    def relative_bound(self, K: int, scheme: Scheme | None, *, wide: bool = False) -> float:
        """Return what errors on random data stay below, relative to the norms of row and column."""
        row, growth = self.operand, None
        if not wide:
            growth = rounding.rounded_growth(row, scheme, self.isa)
        if growth is None:
            growth = 1.0 if scheme is None else scheme.rms_growth
        unit = (self.result(wide=wide) if row.arithmetic is None else row).unit_roundoff
        unit *= 2 * 2**0.5 if row.is_complex else 1.0
        return PROMISED * growth * unit * K**0.5


def kernels() -> list[Kernel]:
    """Return the kernels that run here, best instruction set first; none without the extension."""
    if _core is None:
        return []
    found = []
    for isa in _core.supported_isas():
        for row in reversed(_ROWS.values()):
            try:
                info = _core.kernel_info(row.engine, isa)
            except ValueError:  # only tiles multiply parts of float32
                continue
            if info["isa"] == isa:
                tile = info["mr"], info["nr"], info["vlen"]
                found.append(Kernel(info["name"], isa, row, *tile))
    return found
