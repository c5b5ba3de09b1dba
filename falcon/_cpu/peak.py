"""The measured peak: micro-kernels alone, on panels in L1: a ceiling of classical products."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from falcon._core.dtypes import ENGINE

from .each import kernels

_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Peak:
    """What a micro-kernel reaches on so many threads, in GFLOP/s."""

    dtype: str
    isa: str
    threads: int
    gflops: float


def measure(
    threads: int, dtypes: Collection[str] | None = None, seconds: float = _SECONDS
) -> list[Peak]:
    """Measure every type on the instruction sets that have a kernel for it here, best first.

    `dtypes`: only these types. `seconds`: time per figure; the best burst of a few ms counts.
    Returns list of Peak: empty where falcon's compiled extension is missing.
    """
    return [
        Peak(x.operand.name, x.isa, threads, x.peak(threads, seconds) / 1e9)
        for x in kernels()
        if x.operand in ENGINE and not x.operand.is_complex
        if dtypes is None or x.operand.name in dtypes
    ]
