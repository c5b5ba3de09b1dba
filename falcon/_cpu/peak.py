"""The measured peak: multiply-adds on registers alone, the ceiling of classical multiplication."""

from __future__ import annotations

from dataclasses import dataclass

from falcon._core.dtypes import ENGINE
from falcon._core.text import format_table

_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Peak:
    """What the multiply-add units of so many cores reach, in GFLOP/s."""

    dtype: str
    isa: str
    threads: int
    gflops: float


def measure(threads: int, seconds: float = _SECONDS) -> list[Peak]:
    """Measure float32 and float64 on every instruction set that runs here, best first.

    Parameters
    ----------
    threads : int
    seconds : float
        Time per figure; the best burst of about 2 ms counts.

    Returns
    -------
    list of Peak
        Empty where falcon's compiled extension is missing.
    """
    try:
        from . import _core
    except ImportError:
        return []
    return [
        Peak(x.name, isa, threads, _core.peak(x.engine, threads, isa, seconds) / 1e9)
        for isa in _core.supported_isas()
        for x in ENGINE
        if x.has_blas
    ]


def format_peaks(peaks: list[Peak]) -> str:
    """Return the table."""
    rows = [("instruction set", "dtype", "threads", "GFLOP/s", "")]
    rows += [(x.isa, x.dtype, str(x.threads), f"{x.gflops:.1f}", "") for x in peaks]
    return format_table(rows, left=2)
