"""What `falcon.bench.regret` writes down for a shape."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Record:
    """What was measured for one shape; times in seconds, ratios above 1: falcon is faster."""

    dtype: str
    threads: int
    kind: str
    M: int
    N: int
    K: int
    choice: str
    rival: str
    regret: float
    # (backend and scheme, predicted or 0, measured)
    candidates: list[tuple[str, float, float]]
    over_numpy: float
    over_library: float
    library: str
    planned: float  # seconds of a fresh plan, all that it needs being at hand
    date: str
