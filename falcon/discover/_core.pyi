"""Types of the compiled search core."""

from collections.abc import Sequence
from typing import Any

import numpy as np

MAX_RANK: int
MAX_ORBITS: int
MAX_CUBES: int

def violations(dims: Sequence[int], terms: Any, *, mod2: bool = False) -> int: ...
def relax(
    target: Any,
    x: Any,
    weight: Any,
    centre: Any,
    moving: Any,
    *,
    single: bool,
    steps: int,
    damping: float,
    goal: float,
    stall: float,
    accuracy: float,
    iterations: int,
    least_damping: float,
) -> tuple[float, np.ndarray, float]: ...
def share(
    matrix: Any, *, rounds: int, seed: int, pairs: Sequence[tuple[int, int, int]] = ()
) -> tuple[int, list[tuple[int, int, int]]]: ...

class Walker:
    def __init__(
        self, dims: Sequence[int], terms: Any, seed: int, *, mod2: bool = False
    ) -> None: ...
    @property
    def rank(self) -> int: ...
    @property
    def flips(self) -> int: ...
    @property
    def terms(self) -> np.ndarray: ...
    def walk(self, flips: int, *, plus_after: int = 20_000, margin: int = 2) -> bool: ...
    def anneal(
        self, moves: int, *, phi: bool = False, hot: float = 1.6, cold: float = 0.25
    ) -> tuple[int, np.ndarray]: ...

class SymmetricWalker:
    def __init__(self, orbits: Any, cubes: Any, seed: int) -> None: ...
    @property
    def rank(self) -> int: ...
    @property
    def flips(self) -> int: ...
    @property
    def orbits(self) -> np.ndarray: ...
    @property
    def cubes(self) -> np.ndarray: ...
    @property
    def terms(self) -> np.ndarray: ...
    def walk(self, flips: int, *, plus_after: int = 2_000, margin: int = 2) -> bool: ...
