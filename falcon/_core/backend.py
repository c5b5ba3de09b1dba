"""The contract that backends fulfil, in host memory and on a device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from falcon.schemes import Scheme

from .dtypes import DType
from .packed import PackedOperand
from .plan import Candidate, Executor, Option, Plan, Rates
from .problem import Problem


class Backend(Executor, Protocol):
    """What falcon asks of a backend; the table of them is `falcon._backends`."""

    def why_unavailable(self) -> str | None:
        """Return None if the backend runs here, else the reason in a short sentence."""

    def why_not(self, problem: Problem) -> str | None:
        """Return None if the backend can multiply the problem at all, else the reason."""

    def supports(self, problem: Problem) -> str | None:
        """Return None if an LCMA may run on the problem, else the reason why only classical."""

    def candidates(
        self, problem: Problem, schemes: Iterable[Scheme | None], limit: int | None
    ) -> list[Option]:
        """Return an option per scheme that can keep `limit`.

        None among the schemes is the classical algorithm, which runs whatever the limit.
        """

    def packed_option(self, problem: Problem, packed: PackedOperand, limit: int | None) -> Option:
        """Return how to multiply by a packed operand; the workspace may exceed `limit`."""

    def measure(self, dtype: DType, threads: int, thorough: bool = False) -> Rates:
        """Measure the backend's speed on this machine (about a second; thorough: some)."""

    def identity(self) -> dict[str, str]:
        """What must be the same for a stored measurement to hold: kernels, versions."""


class DeviceBackend(Backend, Protocol):
    """What is asked, on top, of a backend whose operands are in a device's memory."""

    def predicted(self, problem: Problem, option: Option) -> Candidate:
        """Return the option with its seconds on the problem's device."""

    def call(self, plan: Plan, a: Any, b: Any, out: Any) -> Any:
        """Run a plan on arrays; `out` may be None."""
