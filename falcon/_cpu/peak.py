"""The measured peak: micro-kernels alone, on panels in L1: a ceiling of classical products."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from falcon._core.dtypes import ENGINE

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
    try:
        from . import _core
    except ImportError:
        return []
    kernels = {x.engine: x for x in reversed(ENGINE)}  # unsigned types may share one
    return [
        Peak(kernels[engine].name, isa, threads, _core.peak(engine, threads, isa, seconds) / 1e9)
        for isa in _core.supported_isas()
        for engine in kernels
        if (dtypes is None or kernels[engine].name in dtypes)
        and _core.kernel_info(engine, isa)["isa"] == isa
    ]
