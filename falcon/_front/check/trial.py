"""What a step finds: how many products, the largest error, what failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .exact import beyond, unlike


@dataclass(frozen=True, slots=True)
class Failure:
    """A product that is wrong, or that raised.

    Attributes
    ----------
    step : str
        Name of the step.
    where : dict of str to str
        What multiplied: the kernel with its type and instruction set, or the backend; sizes (M, N,
        K), scheme, threads.
    what : str
        How far the product is off, or the error.
    """

    step: str
    where: dict[str, str]
    what: str

    def __str__(self) -> str:
        where = ", ".join(self.where.values())
        return f"{self.step}: {where}\n    {self.what}"


@dataclass(slots=True)
class Trial:
    """Counts and compares the products of a step."""

    step: str
    products: int = 0
    worst: float = 0.0  # largest error of products that are rounded, over its bound
    about: str = ""  # what was multiplied, or why not
    is_skipped: bool = False
    failures: list[Failure] = field(default_factory=list)

    def skip(self, why: str) -> None:
        """Say why the step multiplies nothing here."""
        self.about, self.is_skipped = why, True

    def same(
        self, where: dict[str, str], call: Callable[[], np.ndarray], expected: np.ndarray
    ) -> None:
        """Compare a product with what it is exactly; NaN equals NaN."""
        c = self._called(where, call)
        if c is not None:
            self.note(where, unlike(c, expected))

    def near(
        self,
        where: dict[str, str],
        call: Callable[[], np.ndarray],
        ratios_of: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray | None:
        """Compare a product's errors with their bounds: `ratios_of` it are at most 1.

        Returns the product; None if the call raised.
        """
        c = self._called(where, call)
        if c is not None:
            ratios = ratios_of(c)
            self.worst = max(self.worst, float(np.fmax(ratios, 0).max(initial=0)))
            self.note(where, beyond(ratios))
        return c

    def _called(self, where: dict[str, str], call: Callable[[], Any]) -> Any:
        self.products += 1
        try:
            return call()
        except Exception as error:  # whatever it is, it is what the user wants to be told
            self.fail(where, error)
            return None

    def fail(self, where: dict[str, str], error: Exception) -> None:
        """Note an error that was raised."""
        self.note(where, f"raised {type(error).__name__}: {error}")

    def note(self, where: dict[str, str], what: str) -> None:
        """Add a failure, unless `what` is empty."""
        if what:
            self.failures.append(Failure(self.step, where, what))


def sizes_of(sizes: tuple[int, int, int]) -> str:
    """Return M, N, K as a problem is called: the shapes of A and B."""
    M, N, K = sizes
    return f"{M} x {K} @ {K} x {N}"
