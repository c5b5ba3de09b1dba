"""`Backend`: the interface of backends, for host memory and for a GPU."""

from __future__ import annotations

from typing import Any, Protocol

from falcon.schemes import Scheme

from .dtypes import DType
from .packed import PackedOperand
from .plan import Candidate, Executor, Method
from .policy import Policy
from .problem import Problem


class Backend(Executor, Protocol):
    """The interface; `falcon._backends` is the table of backends."""

    @property
    def rates_type(self) -> type:
        """Type of the rates that `measure` returns: a frozen dataclass (`falcon._core.rates`)."""

    def why_unavailable(self) -> str | None:
        """Return None if the backend runs here, else the reason in a short sentence."""

    def why_not(self, problem: Problem, operand: DType | None = None) -> str | None:
        """Return None if the backend can multiply the problem, else the reason.

        `operand`, here and below: as which elements are multiplied, if not as those of their own
        type (a row of `falcon._core.dtypes` with an `arithmetic`).
        """

    def why_classical_only(
        self, problem: Problem, scheme: Scheme | None = None, operand: DType | None = None
    ) -> str | None:
        """Return why only the classical algorithm may run; None if LCMAs (or `scheme`) may.

        None does not mean that every LCMA may run: `candidates` leaves out those that may not.
        """

    def policy(self, problem: Problem) -> Policy:
        """Return the rules by which a method is chosen for the problem."""

    def beats_blas(self, problem: Problem, count: int = 1) -> bool:
        """Whether its classical algorithm is at least as fast as a BLAS's; asked on the host."""

    def packed_method(self, problem: Problem, packed: PackedOperand, limit: int | None) -> Method:
        """Return how to multiply by a packed operand; the workspace may exceed `limit`."""

    def predicted(self, problem: Problem, method: Method, rates: Any) -> Candidate:
        """Return a method with its predicted seconds; `rates` come from `measure`."""

    def kernels(self) -> str:
        """Return which kernels run here, such as an instruction set; shipped rates are theirs."""

    def describe(self) -> dict[str, str]:
        """Return what `falcon.show_config` reports of it: kernels, libraries, kept workspace."""

    def release_workspace(self) -> None:
        """Free the workspaces that are kept between calls, if any are."""

    def measure(
        self, operand: DType, threads: int, budget: float = 1.0, device: int | None = None
    ) -> Any:
        """Measure the rates for a type and a number of threads, or on a device.

        `budget`: about how many seconds it may take on the host.
        """

    def identity(self, device: int | None = None, /) -> dict[str, str]:
        """Return what a stored measurement depends on: kernels, versions, the device."""
