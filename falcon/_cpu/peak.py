"""The measured peak: multiply-adds on registers alone, the ceiling of classical multiplication.

A type that is converted while it is packed has the peak of the type that is multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass

from falcon._core.dtypes import ENGINE

_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Peak:
    """What the multiply-add units of so many cores reach, in GFLOP/s."""

    dtype: str
    isa: str
    threads: int
    gflops: float


def measure(threads: int, seconds: float = _SECONDS) -> list[Peak]:
    """Measure every type on the instruction sets that have a kernel for it here, best first.

    `seconds`: time per figure; the best burst of about 2 ms counts.
    Returns list of Peak: empty where falcon's compiled extension is missing. Left out are types
    whose kernel is plain C, with instructions of the compiler's choice.
    """
    try:
        from . import _core
    except ImportError:
        return []
    kernels = {x.engine: x for x in reversed(ENGINE)}  # unsigned types may share one
    found = [
        Peak(kernels[engine].name, isa, threads, _core.peak(engine, threads, isa, seconds) / 1e9)
        for isa in _core.supported_isas()
        for engine in kernels
        if _core.kernel_info(engine, isa)["isa"] == isa
    ]
    return [x for x in found if x.gflops > 0]
