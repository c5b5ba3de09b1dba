"""Every kernel by itself, whatever the instruction set in use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from falcon._core.dtypes import BY_ARITHMETIC, BY_FLOAT, ENGINE, INT64, PAIRS, DType
from falcon.schemes import M4, Scheme

try:
    from . import _core, rounding
    from .programs import complex_scheme, engine_scheme
except ImportError:  # `extension.why_unavailable` says so
    _core = None  # type: ignore[assignment]

# One type for each kernel (unsigned integers share those of signed ones), and complex ones.
_KINDS = *ENGINE, *PAIRS, *BY_ARITHMETIC.values(), BY_FLOAT[INT64]
_ROWS = {(x.engine, x.is_complex): x for x in reversed(_KINDS)}


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of an instruction set, and a type that it multiplies."""

    name: str
    isa: str
    operand: DType

    def growth(self, scheme: Scheme | None) -> float | None:
        """Return a scheme's RMS error where C is rounded to few bits; None: as is usual for it."""
        return rounding.rounded_growth(self.operand, scheme, self.isa)

    def peak(self, threads: int, seconds: float) -> float:
        """Return the flop/s of the micro-kernel alone."""
        return _core.peak(self.operand.engine, threads, self.isa, seconds)

    def product(
        self, a: np.ndarray, b: np.ndarray, result: DType, scheme: Scheme | None, **how: Any
    ) -> np.ndarray:
        """Return ``a @ b``; bfloat16 is passed as the integers of 16 bits that hold it.

        `how`: `threads`, which may be more than the CPUs; with `is_blocked`, small products are
        packed and cut as large ones.
        """
        (M, K), N, is_wide = a.shape, b.shape[1], result is not self.operand.left
        form: Any = complex_scheme(M4, scheme) if self.operand.is_complex else scheme
        how |= {"a_by_columns": a.strides[0] == a.itemsize, "c_wide": is_wide}
        how |= {"b_by_rows": b.strides[1] == b.itemsize, "scheme": engine_scheme(form)}
        c = np.empty((M, N), result.numpy if is_wide else a.dtype)
        _core.gemm(_core.plan(M, N, K, self.operand.engine, isa=self.isa, **how), a, b, c)
        return c


def kernels() -> list[Kernel]:
    """Return the kernels that run here, best instruction set first; none without the extension."""
    found = []
    for isa in () if _core is None else _core.supported_isas():
        for row in reversed(_ROWS.values()):
            try:
                info = _core.kernel_info(row.engine, isa)
            except ValueError:  # only tiles multiply parts of float32
                continue
            if info["isa"] == isa:
                found.append(Kernel(info["name"], isa, row))
    return found
