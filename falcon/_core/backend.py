"""`Backend`: the interface of backends, for host memory and for a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from falcon.schemes import Scheme

from .packed import PackedOperand
from .plan import Candidate, Option, Plan
from .policy import Policy
from .problem import Problem


class Backend(Protocol):
    """The interface; `falcon._backends` is the table of backends."""

    name: str
    # Whether its classical algorithm is a library's product: no overhead, and no risk.
    is_library: bool

    @property
    def rates_type(self) -> type:
        """Type of the rates that `measure` returns: a frozen dataclass (`falcon._core.rates`)."""

    def why_unavailable(self) -> str | None:
        """Return None if the backend runs here, else the reason in a short sentence."""

    def why_not(self, problem: Problem) -> str | None:
        """Return None if the backend can multiply the problem, else the reason."""

    def why_classical_only(self, problem: Problem, scheme: Scheme | None = None) -> str | None:
        """Return why only the classical algorithm may run; None if LCMAs (or `scheme`) may.

        None does not mean that every LCMA may run: `candidates` leaves out those that may not.
        """

    def policy(self, problem: Problem) -> Policy:
        """Return the rules by which an option is chosen for the problem."""

    def beats_blas(self, problem: Problem) -> bool:
        """Whether its classical algorithm is at least as fast as a BLAS's; asked on the host."""

    def candidates(
        self, problem: Problem, schemes: Iterable[Scheme | None], limit: int | None
    ) -> list[Option]:
        """Return an option per scheme that can keep the workspace `limit`.

        None among `schemes` is the classical algorithm, which runs whatever the limit.
        """

    def packed_option(self, problem: Problem, packed: PackedOperand, limit: int | None) -> Option:
        """Return how to multiply by a packed operand; the workspace may exceed `limit`."""

    def predicted(self, problem: Problem, option: Option, rates: Any) -> Candidate:
        """Return an option with its predicted seconds; `rates` come from `measure`."""

    def kernels(self) -> str:
        """Return which kernels run here, such as an instruction set; shipped rates are theirs."""

    def measure(self, problem: Problem, budget: float = 1.0) -> Any:
        """Measure the rates for a problem's dtype, threads and device; its sizes do not matter.

        `budget`: about how many seconds it may take on the host.
        """

    def identity(self, device: int | None = None, /) -> dict[str, str]:
        """Return what a stored measurement depends on: kernels, versions, the device."""

    @property
    def rest(self) -> float:
        """Seconds after a product until its threads sleep, and leave the CPUs to others."""

    def execute(
        self,
        plan: Plan,
        a: np.ndarray,
        b: np.ndarray | PackedOperand,
        c: np.ndarray | None,
        out: np.ndarray,
        *,
        alpha: Any = 1,
        beta: Any = 0,
        mirror: Any = None,
    ) -> None:
        """Write ``alpha a b + beta c`` to `out` as planned; `c` is read only if `beta` is not 0.

        The result is also written to `mirror`, of the same shape, if it is given.
        """

    def execute_batch(
        self, plan: Plan, a: np.ndarray, b: np.ndarray, out: np.ndarray, *, alpha: Any = 1
    ) -> bool:
        """Write the products of all matrices of a batch; False where they must be run one by one.

        `plan` is that of the first matrices; `out` overlaps no operand.
        """

    def pack(self, b: np.ndarray, plan: Plan) -> Any:
        """Combine and pack `b` for the scheme of `plan`; the result has `nbytes`."""

    def column_norms(self, b: np.ndarray, plan: Plan) -> Any:
        """Return what products by a packed `b` need to know about the norms of its columns."""
