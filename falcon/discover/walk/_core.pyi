"""Types of the compiled walks."""

from collections.abc import Sequence
from typing import Any

import numpy as np

MAX_RANK: int
MAX_ORBITS: int
MAX_CUBES: int

def violations(dims: Sequence[int], terms: Any, *, mod2: bool = False) -> int: ...
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
    def tied_walk(
        self,
        moves: int,
        *,
        temperature: float = 0.3,
        sparsity: float = 0,
        barred: int = 0,
        plus_after: int = 20_000,
        margin: int = 2,
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
