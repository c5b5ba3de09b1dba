"""Time NumPy beside falcon on a program's own operands, within a share of the program's time."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np

from falcon._backends import BACKENDS
from falcon._core.observe import Operands
from falcon._core.plan import Plan
from falcon._core.timing import Side, interleave
from falcon._numpy import original
from falcon._numpy.threads import limited

from ..plan import by_numpy

# What all comparisons may take: a share of the program's time, and seconds if it is short.
_SHARE, _ALWAYS = 0.1, 2.0
# Pairs of a product that are timed in a row, and in all.
_ROUNDS, _MOST = 3, 6
# Seconds after each timing, besides those until threads sleep; of the calls of a timing.
_REST, _TIMING = 0.02, 0.02


class Beside:
    """Ratios of NumPy's time to falcon's, by product."""

    def __init__(self) -> None:
        self.spent = 0.0  # seconds of all comparisons
        self._lock = Lock()
        self._ratios: dict[tuple, list[float]] = {}
        self._is_warm = False

    def ratios(self, plan: Plan, is_batch: bool) -> list[float]:
        """Return what is known of a product."""
        return self._ratios.get(_key(plan, is_batch), [])

    def see(
        self, plan: Plan, seconds: float, is_batch: bool, operands: Operands, elapsed: float
    ) -> None:
        """Compare a product that falcon has just computed in `seconds`, if there is time left.

        `elapsed`: seconds of the program. Its result is put back in the end, bit by bit.
        """
        found = by_numpy(plan)
        if found is None or plan.problem.packed or is_numpy(plan):
            return
        if not self._lock.acquire(blocking=False):  # another thread compares, which disturbs
            return
        start = perf_counter()
        try:
            ratios = self._ratios.setdefault(_key(plan, is_batch), [])
            room = max(_ALWAYS, _SHARE * elapsed) - self.spent
            numpy, calls = BACKENDS["numpy"], min(40, int(_TIMING / seconds) + 1)
            rests = plan.backend.rest + _REST, numpy.rest + _REST
            cost = sum(rests) + 2 * calls * seconds  # of a pair
            if len(ratios) >= _MOST or cost > room:
                return
            a, b, c, out, alpha, beta = operands
            about: dict[str, Any] = {"alpha": alpha, "beta": beta}
            other = plan.instead(found.method, numpy)

            def mine() -> None:
                if not is_batch:
                    plan.execute(a, b, c, out, **about)
                else:
                    plan.backend.execute_batch(plan, a, b, out)

            def theirs() -> None:
                if not is_batch:
                    other.execute(a, b, c, out, **about)
                else:
                    with limited(plan.threads), np.errstate(all="ignore"):
                        original.matmul(a, b, out=out)

            sides = [Side.of("numpy", theirs, rests[1]), Side.of("falcon", mine, rests[0])]
            limits: dict[str, Any] = {"most": _ROUNDS, "calls": calls, "limit": room - cost}
            with suppress(MemoryError):  # the program need not know
                kept = out.copy()
                try:
                    if not self._is_warm:  # a BLAS allocates buffers in its first call
                        theirs()
                        self._is_warm = True
                    first, second = interleave(sides, _ROUNDS, **limits)
                finally:
                    np.copyto(out, kept)
                ratios += [x / y for x, y in zip(first.seconds, second.seconds, strict=True)]
        finally:
            self.spent += perf_counter() - start
            self._lock.release()


def is_numpy(plan: Plan) -> bool:
    """Whether falcon leaves a product to NumPy's BLAS, and so gains nothing by definition."""
    method = plan.method
    plain = method.is_classical and method.arithmetic is None
    return plan.backend.name == "numpy" and plain and not plan.parts


def _key(plan: Plan, is_batch: bool) -> tuple:
    return plan.problem, plan.label, plan.backend.name, is_batch
