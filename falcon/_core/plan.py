"""`Plan`: how one problem will be multiplied, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from falcon.schemes import Scheme

from .arrays import to_array, to_target
from .bound import error_bound
from .dtypes import DType
from .lazy import lazy
from .method import Candidate as Candidate
from .method import Method as Method
from .options import Options
from .packed import PackedOperand
from .problem import Problem
from .symmetric import is_transpose, same_memory
from .text import format_table


class Executor(Protocol):
    """What a plan needs from the backend that runs it; `Backend` is the whole interface."""

    name: str
    # Whether its classical algorithm is a library's product (a BLAS): no overhead, and no risk.
    is_library: bool

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

    def candidates(
        self,
        problem: Problem,
        schemes: Iterable[Scheme | None],
        limit: int | None,
        operand: DType | None = None,
    ) -> list[Method]:
        """Return a method per scheme that can keep the workspace `limit`.

        None among `schemes` is the classical algorithm, which runs whatever the limit.
        """

    def pack(self, b: np.ndarray, plan: Plan) -> Any:
        """Combine and pack `b` for the scheme of `plan`; the result has `nbytes`."""

    def column_norms(self, b: np.ndarray, plan: Plan) -> Any:
        """Return what products by a packed `b` need to know about the norms of its columns."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the products that a symmetric product is cut into, and its place in C."""

    plan: Plan
    rows: slice
    columns: slice


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """A decision: printable, reusable, callable.

    Attributes
    ----------
    problem : Problem
    backend : Executor
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
        "auto" chose the scheme: operands whose norms are too uneven for it are scaled
        (`falcon._core.scaling`), or multiplied classically if that is impossible.
    optional : bool
        "auto" chose the scheme or the arithmetic, which gives way to the library's product where
        there is no memory for its workspace.
    options : Options
        The options of the plan; their `check` says whether `execute` tests for non-finite values.
    parts : tuple of Part
        The parts of a symmetric product that is cut: two on the diagonal, and one off it. They run
        one after the other; `backend` is then that of the last.
    tuned : bool
        `falcon.tune` has measured the choice; else it is the model's, or the caller's.
    rates : str
        Where the speeds of a prediction come from.

    Examples
    --------
    >>> import falcon
    >>> p = falcon.plan((60, 70), (70, 80), "float32", scheme="strassen")
    >>> p.label, p.growth
    ('strassen', 2.0)
    """

    problem: Problem
    backend: Executor
    method: Method
    why: str
    seconds: tuple[tuple[str, float], ...] = ()
    table: Callable[[], tuple[Candidate, ...]] | None = None
    guarded: bool = False
    optional: bool = False
    options: Options = field(default_factory=Options)
    parts: tuple[Part, ...] = ()
    tuned: bool = False
    rates: str = ""

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
        return self.method.operand or self.problem.operand

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
    def is_uneven(self) -> bool:
        """Whether a scheme that is not guarded runs.

        Errors are then relative to the largest norms, not to those of an entry's row and column.
        """
        parts = [x.plan for x in self.parts] or [self]
        return any(not (x.method.is_classical or x.guarded) for x in parts)

    def instead(self, method: Method, backend: Executor) -> Plan:
        """Return a plan that runs another method for the same problem, guarded as if chosen."""
        chosen = not method.is_classical and self.options.scheme == "auto"
        guarded = chosen and not self.problem.is_exact
        return Plan(self.problem, backend, method, "", guarded=guarded, options=self.options)

    def error_bound(self, a: Any, b: Any, *, proved: bool = False) -> np.ndarray:
        """Return an error bound for each entry of ``a @ b``.

        Parameters
        ----------
        a, b : array_like
            The operands; or, as vectors, the 2-norms of the rows of `a` and of the columns of `b`.
        proved : bool
            False: ``1.5 growth u sqrt(K) norm(a_i) norm(b_j)``, which holds for all operands
            without adversarial structure (a scheme by name whose blocks have sums of less than 32
            products has the bound of the worst case, short classical sums a little more). True: the
            first-order bound of the worst case, which grows with K itself.

        Returns
        -------
        ndarray of float64, shape (M, N)
            0 if arithmetic is exact. If the scheme was chosen by name, operands are not scaled, and
            the bound takes the largest norms for all entries.

        Notes
        -----
        Does not cover overflow and underflow. docs/accuracy.md proves the worst-case bound and
        measures the other one.
        """
        return error_bound(self, a, b, proved)

    def execute(
        self,
        a: Any,
        b: Any,
        c: Any,
        out: Any,
        *,
        alpha: Any = 1,
        beta: Any = 0,
        mirror: Any = None,
    ) -> None:
        """Write ``alpha a b + beta c`` to `out`: see `Executor.execute`."""
        if not self.parts:
            try:
                self.backend.execute(self, a, b, c, out, alpha=alpha, beta=beta, mirror=mirror)
            except MemoryError as error:
                less = self._with_less_memory(error)
                less.execute(a, b, c, out, alpha=alpha, beta=beta, mirror=mirror)
            return
        if c is not None and np.may_share_memory(c, out) and not same_memory(c, out):
            c = c.copy()  # a part may overwrite entries of c that a later part reads
        for x in self.parts:
            rows, columns = x.rows, x.columns
            off_diagonal = rows != columns and self.problem.symmetric == "full"
            x.plan.execute(
                a[rows],
                b[:, columns],
                None if c is None else c[rows, columns],
                out[rows, columns],
                alpha=alpha,
                beta=beta,
                mirror=out[columns, rows].T if off_diagonal else None,
            )

    def _with_less_memory(self, error: MemoryError) -> Plan:
        """Return what runs where the workspace of "auto" is not to be had; GPUs have their own."""
        p, backend = self.problem, self.backend
        if self.options.scheme != "auto" or p.packed or p.reproducible or p.device is not None:
            raise error
        method = backend.candidates(p, (None,), 1, self.method.operand)[0]
        if method.workspace >= self.workspace:
            raise error
        return self.instead(method, backend)

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
        p = self.problem
        if p.packed:
            raise ValueError("this plan is for a packed operand: multiply by falcon.gemm(a, b)")
        if p.device is not None:
            backend: Any = self.backend  # a GPU backend takes arrays of other libraries
            return backend.call(self, a, b, out)
        a, b = to_array("a", a), to_array("b", b)
        out = None if out is None else to_target(out)
        for name, x, shape, kind in (
            ("a", a, (p.M, p.K), p.operand.left),
            ("b", b, (p.K, p.N), p.operand.right),
            ("out", out, (p.M, p.N), p.result),
        ):
            if x is None:
                continue
            any_integers = self.options.modulus is not None and name != "out"
            is_meant = x.dtype.kind in "iu" if any_integers else x.dtype == kind.numpy
            if x.shape != shape or not is_meant:
                raise ValueError(f"{name} is {x.shape} {x.dtype}; this plan is for {shape} {kind}")
        if p.symmetric and not is_transpose(a, b):
            raise ValueError("b is not a.T in the same memory; this plan is for symmetric products")
        if out is not None and not out.flags.writeable:
            raise ValueError("out is read-only")
        if out is None:
            out = np.empty((p.M, p.N), p.result.numpy)
        elif np.may_share_memory(out, a) or np.may_share_memory(out, b):
            raise ValueError("out overlaps an operand; falcon.gemm handles that, a plan does not")
        self.execute(a, b, None, out)
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the decision; chunks are computed again on the machine that loads it."""
        kept = ["why", "seconds", "guarded", "optional", "options", "rates"]
        kept += ["method", "parts"] if self.parts else []
        about = {name: getattr(self, name) for name in kept}
        return _restored, (self.problem, self.backend, self.scheme, self.method.operand, about)

    def __repr__(self) -> str:
        return f"<Plan {self.problem}: {self.method.label} on backend {self.backend.name}>"

    def __str__(self) -> str:
        p = self.problem
        lines = [
            f"{p}: {self.method.label} on backend {self.backend.name}",
            f"  why        {self.why}",
        ]
        if self.scheme is not None:
            s = self.scheme
            lines.append(
                f"  scheme     <{s.m},{s.k},{s.n};{s.rank}>, speed-up bound {s.speedup_bound:.3f}"
            )
            lines.append(f"  chunks     M, N, K = {', '.join(map(str, self.method.chunks))}")
        for x in self.parts:
            where = f"C[{x.rows.start}:{x.rows.stop}, {x.columns.start}:{x.columns.stop}]"
            lines.append(f"  {where}: {x.plan.method.label} on backend {x.plan.backend.name}")
        exact = "exact" if p.is_exact else f"{self.growth:.2f} x classical RMS error"
        lines.append(f"  growth     {exact}")
        lines.append(f"  workspace  {self.workspace / 2**20:.1f} MiB")
        if self.seconds:
            total = sum(time for _, time in self.seconds)
            parts = ", ".join(f"{name} {time * 1e3:.2f}" for name, time in self.seconds)
            lines.append(f"  predicted  {total * 1e3:.2f} ms ({parts})")
            if self.rates:
                lines.append(f"  rates      {self.rates}")
        return "\n".join(lines)

    def explain(self, most: int = 12) -> str:
        """Return the plan and the table of candidates: ms, and why each was not chosen.

        Parameters
        ----------
        most : int
            Rows of the table; the best classical one of each backend is added. The stages of each
            are in `candidates`, as `seconds`.
        """
        shown, found = [], set()
        for at, x in enumerate(self.candidates):
            is_first = x.method.is_classical and x.method.backend not in found
            if at < most or is_first:
                shown.append(x)
            if is_first:
                found.add(x.method.backend)
        rows = [("candidate", "backend", "ms", "growth", "MiB", "")]
        for x in shown:
            rows.append(
                (
                    x.method.label,
                    x.method.backend,
                    f"{x.total * 1e3:.2f}",
                    f"{x.method.growth:.2f}",
                    f"{x.method.workspace / 2**20:.1f}",
                    x.refused or "chosen",
                )
            )
        left = len(self.candidates) - len(shown)
        table = format_table(rows, left=2) if len(rows) > 1 else "no candidates were compared"
        return f"{self}\n\n{table}" + (f"\n... and {left} more" if left > 0 else "")


def _restored(
    problem: Problem, backend: Any, scheme: Any, operand: DType | None, about: dict[str, Any]
) -> Plan:
    """Return a pickled plan, with the same scheme and backend; `about`: its other fields."""
    reason = backend.why_unavailable() or backend.why_not(problem, operand)
    if reason is not None:
        raise ValueError(f"a plan for backend {backend.name!r} cannot be loaded here: {reason}")
    if "method" not in about:
        limit = about["options"].workspace_limit
        found = backend.candidates(problem, (scheme,), limit, operand)
        if not found:
            raise ValueError(f"workspace_limit is {limit}, which {scheme!r} exceeds")
        about = {**about, "method": found[0]}
    return Plan(problem, backend, **about)
