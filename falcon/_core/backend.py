"""The contract that backends fulfil, in host memory and on a device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from falcon.schemes import Scheme

from .packed import PackedOperand
from .plan import Candidate, Executor, Option
from .policy import Policy
from .problem import Problem


class Backend(Executor, Protocol):
    """What falcon asks of a backend; the table of them is `falcon._backends`."""

    @property
    def rates_type(self) -> type:
        """The type of what `measure` returns: a frozen dataclass (`falcon._core.rates`)."""

    def why_unavailable(self) -> str | None:
        """Return None if the backend runs here, else the reason in a short sentence."""

    def why_not(self, problem: Problem) -> str | None:
        """Return None if the backend can multiply the problem at all, else the reason."""

    def why_classical_only(self, problem: Problem, scheme: Scheme | None = None) -> str | None:
        """Return None if LCMAs, or `scheme`, may run on the problem, else why only the classical.

        Where some LCMAs may, `candidates` leaves the others out.
        """

    def policy(self, problem: Problem) -> Policy:
        """Return when LCMAs are worth comparing, and what they must gain."""

    def candidates(
        self, problem: Problem, schemes: Iterable[Scheme | None], limit: int | None
    ) -> list[Option]:
        """Return an option per scheme that can keep `limit`.

        None among the schemes is the classical algorithm, which runs whatever the limit. For a
        symmetric problem one may be a SymmetricScheme; a backend that runs none leaves it out.
        """

    def packed_option(self, problem: Problem, packed: PackedOperand, limit: int | None) -> Option:
        """Return how to multiply by a packed operand; the workspace may exceed `limit`."""

    def predicted(self, problem: Problem, option: Option, rates: Any) -> Candidate:
        """Return an option with its predicted seconds; `rates` are those that `measure` found."""

    def starting(self, problem: Problem, probe: bool) -> Any:
        """Return rates to begin with, before anything is measured; None: measure at once.

        Shipped ones; with `probe` scaled by what a small product takes here (15 ms), else the same
        on every machine. On the host alone.
        """

    def measure(self, problem: Problem, thorough: bool = False) -> Any:
        """Measure the rates for the dtype, threads and device of a problem of whatever sizes.

        About a second; thorough: some.
        """

    def identity(self, device: int | None = None, /) -> dict[str, str]:
        """What must be the same for a stored measurement to hold: kernels, versions, the device."""
