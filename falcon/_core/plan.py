"""`Plan`: how one problem will be multiplied, and why. `Backend`: what is asked of who does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from falcon._tools.lazy import lazy
from falcon._tools.locks import importing
from falcon.schemes import Scheme

from .arrays import to_array
from .bound import error_bound, fitting
from .dtypes import DType
from .matrix import Matrix
from .method import Candidate as Candidate
from .method import Method as Method
from .options import Options
from .packed import PackedOperand
from .policy import Policy
from .problem import Problem
from .rewrite import Part as Part
from .rewrite import Rewrite
from .runner import FallbackRunner, Runner


class Backend(Protocol):
    """The interface of backends, for host memory and for a GPU.

    `falcon._backends` is the table of backends. `compute_type`, wherever it is a parameter: as
    which elements are multiplied, if not as those of their own type (a row of
    `falcon._core.dtypes` with an `arithmetic`).
    """

    @property
    def name(self) -> str:
        """The value of the option."""

    @property
    def is_library(self) -> bool:
        """Whether its classical algorithm is a library's (a BLAS): no overhead, and no risk."""

    @property
    def rest(self) -> float:
        """Seconds after a product until its threads sleep, and leave the CPUs to others."""

    @property
    def rates_type(self) -> type:
        """Type of the rates that `measure` returns: a frozen dataclass (`falcon._core.rates`)."""

    def why_unavailable(self) -> str | None:
        """Return None if the backend runs here, else the reason in a short sentence."""

    def why_not(self, problem: Problem, compute_type: DType | None = None) -> str | None:
        """Return None if the backend can multiply the problem, else the reason.

        Of a weighted one, `b` is `Weighted` when the plan runs.
        """

    def why_classical_only(
        self, problem: Problem, scheme: Scheme | None = None, compute_type: DType | None = None
    ) -> str | None:
        """Return why only the classical algorithm may run; None if LCMAs (or `scheme`) may.

        None does not mean that every LCMA may run: `candidates` leaves out those that may not.
        """

    def policy(self, problem: Problem) -> Policy:
        """Return the rules by which a method is chosen for the problem."""

    def candidates(
        self,
        problem: Problem,
        schemes: Iterable[Any],
        limit: int | None,
        compute_type: DType | None = None,
    ) -> list[Method]:
        """Return a method per scheme that can keep the workspace `limit`.

        None among `schemes` is the classical algorithm, which runs whatever the limit.
        """

    def predicted(self, problem: Problem, method: Method, rates: Any) -> Candidate:
        """Return a method with its predicted seconds; `rates` come from `measure`."""

    def runner(self, plan: Plan) -> Runner:
        """Return what runs a plan of this backend."""

    def reduce(
        self, terms: Any, outputs: Any, modulus: int, carry: int = 0, threads: int = 1
    ) -> None:
        """Write weighted sums of matrices modulo p: `falcon._numpy.residues.modulo`."""

    def pack(self, b: Any, plan: Plan) -> Any:
        """Combine and pack `b` for the scheme of `plan`; the result has `nbytes`."""

    def column_norms(self, b: Any, plan: Plan) -> tuple[Any, Any]:
        """Return what products by a packed `b` need to know about its columns' norms and sums."""

    def packed_method(self, problem: Problem, packed: PackedOperand, limit: int | None) -> Method:
        """Return how to multiply by a packed operand; the workspace may exceed `limit`."""

    def matrix(self, name: str, x: Any, device: int | None) -> Matrix:
        """Describe an operand in its memory.

        Raises TypeError: it is no array there.
        Raises ValueError: it is on another device.
        """

    def empty(self, shape: tuple[int, int], dtype: DType, like: Any) -> Any:
        """Make an array by rows, of the library of another array, and on its device."""

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


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """A decision: printable, reusable, callable.

    Attributes
    ----------
    problem : Problem
    backend : Backend
        Runs the plan.
    method : Method
        What will run: scheme, chunks, workspace in bytes.
    why : str
        The reason for the choice.
    seconds : tuple of (str, float)
        Predicted time per stage; empty if no prediction was needed.
    table : callable, optional
        Returns `candidates`; the choice itself needs only a few of them.
    guarded : bool
        "auto" chose the scheme: uneven operands are scaled, or multiplied classically.
    optional : bool
        "auto" chose the scheme or arithmetic, which gives way where its workspace is not to be had.
    options : Options
        The options of the plan; their `check` says whether non-finite values are tested for.
    parts : tuple of Part
        The products that this one is made of, in their order; `backend` is that of the first.
    rewrite : Rewrite, optional
        How it is made of them.
    tuned : bool
        `falcon.tune` has measured the choice.
    rates : str
        Where the speeds of a prediction come from.
    higher : callable, optional
        Returns a more accurate plan, where the options name an error.

    Examples
    --------
    >>> import falcon
    >>> p = falcon.plan((60, 70), (70, 80), "float32", scheme="strassen")
    >>> p.label, p.growth
    ('strassen', 2.0)
    """

    problem: Problem
    backend: Backend
    method: Method
    why: str
    seconds: tuple[tuple[str, float], ...] = ()
    table: Callable[[], tuple[Candidate, ...]] | None = None
    guarded: bool = False
    optional: bool = False
    options: Options = field(default_factory=Options)
    parts: tuple[Part, ...] = ()
    rewrite: Rewrite | None = None
    tuned: bool = False
    rates: str = ""
    higher: Callable[[], Plan] | None = None

    @lazy
    def candidates(self) -> tuple[Candidate, ...]:
        """All options that were compared, best first, each with the reason it was not chosen."""
        return self.table() if self.table is not None else ()

    @property
    def scheme(self) -> Any:
        """The scheme that will run, see `Method`; None for the classical algorithm."""
        return self.method.scheme

    @property
    def operand(self) -> DType:
        """The type as which the elements of A and B are multiplied."""
        return self.method.compute_type or self.problem.operand

    @property
    def label(self) -> str:
        """Its scheme in tables, and the arithmetic if that is not the operands' own."""
        return self.method.label

    @property
    def threads(self) -> int:
        """Threads that may be used, by falcon's own code and by NumPy's BLAS."""
        return self.problem.threads

    @property
    def workspace(self) -> int:
        """Bytes that the call allocates beyond its result."""
        return self.method.workspace

    @property
    def growth(self) -> float:
        """Predicted RMS error relative to the classical algorithm (1.0 for exact dtypes)."""
        return 1.0 if self.problem.is_exact else self.method.growth

    @property
    def reals(self) -> Plan | None:
        """Of complex matrices on a GPU, the plan of the real product (`falcon._core.reals`)."""
        return self.parts[0].plan if self.parts and self.problem.device is not None else None

    @property
    def is_uneven(self) -> bool:
        """Whether a scheme that is not guarded runs.

        Errors are then relative to the largest norms, not to those of an entry's row and column.
        """
        parts = [x.plan for x in self.parts] or [self]
        return any(not (x.method.is_classical or x.guarded) for x in parts)

    def instead(self, method: Method, backend: Backend) -> Plan:
        """Return a plan that runs another method for the same problem, guarded as if chosen."""
        chosen = not method.is_classical and self.options.scheme == "auto"
        guarded = chosen and not self.problem.is_exact
        return Plan(self.problem, backend, method, "", guarded=guarded, options=self.options)

    def error_bound(self, a: Any, b: Any, *, proved: bool = False) -> np.ndarray:
        """Return an error bound for each entry of ``a @ b``.

        Parameters
        ----------
        a, b : array_like
            The operands; or their norms (of rows, of columns), if "auto" evens no units along K.
        proved : bool
            False: ``1.5 growth u sqrt(K) norm(a_i) norm(b_j)``, which holds for all data without
            adversarial structure (of blocks with sums of less than 32 products, schemes by name
            have the bound of the worst case, classical sums a little more). True: the first-order
            bound of the worst case, which grows with K itself.

        Returns
        -------
        ndarray of float64, shape (M, N)
            0 if arithmetic is exact. Of a scheme by name, by the largest norms for all entries.

        Notes
        -----
        Does not cover overflow and underflow. docs/accuracy.md proves one, measures the other.
        """
        p, (a, b) = self.problem, fitting(self.problem.K, to_array("a", a), to_array("b", b))
        if p.is_exact:
            return np.zeros((p.M, p.N))
        of = error_bound if self.rewrite is None else self.rewrite.error_bound
        return of(self, a, b, proved)

    @lazy
    def runner(self) -> Runner:
        """What multiplies as planned."""
        if self.rewrite is not None:
            return self.rewrite.runner(self)
        if self.higher is None:
            return self._runner()
        with importing():
            from .sampled import sampled
        return sampled(self, self._runner())

    def _runner(self) -> Runner:
        runner, p = self.backend.runner(self), self.problem
        if self.options.scheme != "auto" or p.packed or p.reproducible or not self.workspace:
            return runner
        return runner if p.device is not None else FallbackRunner(runner, self._with_less_memory)

    def _with_less_memory(self) -> Runner | None:
        """Return what runs where the workspace of "auto" is not to be had; None: nothing less."""
        method = self.backend.candidates(self.problem, (None,), 1, self.method.compute_type)[0]
        less = method.workspace < self.workspace
        return self.backend.runner(self.instead(method, self.backend)) if less else None

    def fitted(self, other: Problem) -> Plan:
        """Return a plan that multiplies operands that lie as others, or a batch, in the same way.

        `other`: of the same sizes and types; that its b is its a's transpose does not count.
        """
        problem = self.problem.lying_as(other)
        if problem == self.problem:
            return self
        if self.rewrite is not None:
            return self.rewrite.fitted(self, problem)
        limit, how = self.options.workspace_limit, (problem, (self.scheme,))
        within = self.backend.candidates(*how, limit, self.method.compute_type)
        methods = within or self.backend.candidates(*how, None, self.method.compute_type)
        return replace(self, problem=problem, method=methods[0])

    def __call__(self, a: Any, b: Any, out: Any = None) -> Any:
        """Multiply two matrices of the planned shapes and dtype; modulo p, of any integers.

        Raises
        ------
        TypeError
            `out` is no array, or an operand cannot be converted to one (masked, sparse).
        ValueError
            An operand has another shape or dtype than planned, or `out` overlaps an operand; or the
            plan is for a packed operand.
        """
        p, as_matrix = self.problem, self.backend.matrix
        if p.packed or p.count > 1:
            what, how = ("a packed operand", "gemm") if p.packed else ("a batch", "matmul")
            raise ValueError(f"this plan is for {what}: multiply by falcon.{how}(a, b)")
        left, right = as_matrix("a", a, p.device), as_matrix("b", b, p.device)
        a, b = left.owner, right.owner
        out = self.backend.empty((p.M, p.N), p.result, a) if out is None else out
        target = as_matrix("out", out, p.device)
        where = "" if p.device is None else f" on cuda:{p.device}"
        for name, x, shape, kind in (
            ("a", left, (p.M, p.K), p.operand.left),
            ("b", right, (p.K, p.N), p.operand.right),
            ("out", target, (p.M, p.N), p.result),
        ):
            any_integers = self.options.modulus is not None and name != "out"
            is_meant = x.dtype is kind or (any_integers and x.dtype and x.dtype.is_exact)
            if x.shape != shape or not is_meant:
                given = f"{name} is {x.shape} {x.raw or x.dtype}{where}"
                raise ValueError(f"{given}; this plan is for {shape} {kind}{where}")
        if p.symmetric and not left.is_transpose(right):
            raise ValueError("b is not a.T in the same memory; this plan is for symmetric products")
        if target.overlaps(left) or target.overlaps(right):
            raise ValueError("out overlaps an operand; falcon.gemm handles that, a plan does not")
        types = p.operand, p.result
        lies = Problem.of(
            left, right, None, target, types, self.options, device=p.device, symmetric=p.symmetric
        )
        self.fitted(lies).runner(a, b, None, out)
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the decision; chunks are computed again on the machine that loads it."""
        names = ["why", "seconds", "guarded", "optional", "options", "rates", "higher"]
        names += ["method", "parts", "rewrite"] if self.rewrite is not None else []
        fields = {name: getattr(self, name) for name in names}
        arguments = self.problem, self.backend, self.scheme, self.method.compute_type, fields
        return _restored, arguments

    def __repr__(self) -> str:
        return f"<Plan {self.problem}: {self.method.label} on backend {self.backend.name}>"

    def __str__(self) -> str:
        with importing():
            from .plan_text import summary
        return summary(self)

    def explain(self, most: int = 12) -> str:
        """Return the plan and the table of candidates: ms, and why each was not chosen.

        Parameters
        ----------
        most : int
            Rows of the table; the best classical one of each backend is added.
        """
        with importing():
            from .plan_text import explained
        return explained(self, most)


def _restored(
    problem: Problem, backend: Any, scheme: Any, compute_type: DType | None, fields: dict[str, Any]
) -> Plan:
    """Return a pickled plan, with the same scheme and backend; `fields`: its others."""
    reason = backend.why_unavailable()
    if reason is None and "parts" not in fields:
        reason = backend.why_not(problem, compute_type)
    if reason is not None:
        raise ValueError(f"a plan for backend {backend.name!r} cannot be loaded here: {reason}")
    if "method" not in fields:
        limit = fields["options"].workspace_limit
        methods = backend.candidates(problem, (scheme,), limit, compute_type)
        if not methods:
            raise ValueError(f"workspace_limit is {limit}, which {scheme!r} exceeds")
        fields = {**fields, "method": methods[0]}
    return Plan(problem, backend, **fields)
