"""`CheckResult`: what a check found, as tables and as a document."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from textwrap import wrap
from typing import Any

from falcon._core.text import format_table
from falcon._core.timing import Estimate

# Kernels (or backends) and types whose failures the tables show; `to_dict` has all.
_SHOWN = 12
_ABOUT = 42  # columns of what is said of a step: tables have 100 in all


@dataclass(slots=True)
class Row:
    """What a step found."""

    step: str
    about: str  # what was multiplied, or why nothing was
    is_skipped: bool = False
    products: int = 0
    failed: int = 0  # products that are wrong
    worst: float = 0.0  # the largest error of products that are rounded, over its bound
    seconds: float = 0.0

    @property
    def state(self) -> str:
        """One word: "ok", "FAILED", or "-" for what cannot be tested here."""
        return "FAILED" if self.failed else "-" if self.is_skipped else "ok"


@dataclass(frozen=True, slots=True)
class Failure:
    """A product that is wrong, or that raised."""

    step: str
    where: dict[str, str]  # the kernel with its instruction set, or the backend; type, sizes, ...
    what: str  # how far the product is off, or the error

    def __str__(self) -> str:
        return f"{self.step}: {', '.join(self.where.values())}\n    {self.what}"


@dataclass(frozen=True, slots=True)
class Speed:
    """One product's times by falcon and by NumPy."""

    sizes: tuple[int, int, int]  # M, N, K
    dtype: str
    label: str  # the scheme and the backend that falcon ran
    # Medians of the times; falcon's speed over NumPy's, pair by pair.
    seconds: float
    numpy_seconds: float
    ratio: Estimate
    # Seconds by the cost model; 0 where it says nothing.
    predicted: float
    numpy_predicted: float


@dataclass(repr=False)
class CheckResult:
    """What `falcon.check` found; printed, it is a table.

    Attributes
    ----------
    rows : list of Row
        One per step: what it multiplied, how many products, the largest error over its bound.
    failures : list of Failure
        Products that are wrong: which kernel or backend, type, sizes, and how far off.
    speeds : list of Speed
        Times of falcon and of NumPy, and the predicted ones.
    seconds : float
        That the check took.

    Examples
    --------
    >>> import falcon
    >>> falcon.check(speeds=False).ok  # doctest: +SKIP
    True
    """

    rows: list[Row] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    speeds: list[Speed] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether every product was right."""
        return not self.failures

    @property
    def products(self) -> int:
        """Products that were compared with what they must be."""
        return sum(x.products for x in self.rows)

    @cached_property
    def machine(self) -> dict[str, Any]:
        """Processor, caches, system, versions, kernels, rates, settings."""
        from .record import machine

        return machine()

    def to_dict(self) -> dict[str, Any]:
        """Return all of it for JSON; no text holds a path, or the name of the host or the user."""
        from .record import anonymous

        return anonymous({"ok": self.ok, "machine": self.machine, **asdict(self)})

    def __repr__(self) -> str:
        return f"<CheckResult {'ok' if self.ok else 'FAILED'}: {self._verdict()}>"

    def __str__(self) -> str:
        parts = [_head(self.machine), _steps(self.rows)]
        if self.failures:
            parts.append(_wrong(self.failures))
        if self.speeds:
            parts.append(_speeds(self.speeds))
        return "\n\n".join([*parts, self._verdict()])

    def _verdict(self) -> str:
        which = f"all {self.products} products are right"
        if not self.ok:
            which = f"{len(self.failures)} of {self.products} products are wrong"
        return f"{which} ({self.seconds:.0f} s)"


def _head(machine: dict[str, Any]) -> str:
    cpus = machine["CPUs usable"]
    blas = machine["numpy kernels"].get("BLAS", "no BLAS")
    return (
        f"falcon {machine['falcon']} on {machine['CPU'] or 'an unknown CPU'}, "
        f"{cpus} CPU{'s' if cpus > 1 else ''}\n"
        f"Python {machine['Python']}, NumPy {machine['libraries']['numpy']}, {blas}"
    )


def _steps(rows: list[Row]) -> str:
    cells = [("", "products", "error/bound", "s", "", "")]
    for x in rows:
        worst, products = f"{x.worst:.2g}" if x.worst else "-", str(x.products or "-")
        first, *others = wrap(x.about, _ABOUT)
        cells.append((x.step, products, worst, f"{x.seconds:.1f}", x.state, first))
        cells += [("", "", "", "", "", more) for more in others]
    return format_table(cells)


def _wrong(failures: list[Failure]) -> str:
    """Return the first failure of each kernel (or backend) and type."""
    first: dict[tuple, Failure] = {}
    for x in failures:
        key = x.step, *(x.where.get(name) for name in ("kernel", "backend", "type"))
        first.setdefault(key, x)
    shown = [str(x) for x in first.values()][:_SHOWN]
    more = len(failures) - len(shown)
    return "\n".join(["WRONG:", *shown, *([f"... and {more} products more"] if more else [])])


def _speeds(speeds: list[Speed]) -> str:
    names = "M x N x K", "type", "falcon ms", "NumPy ms", "speed-up", "predicted/measured"
    rows = [(*names, "falcon ran")]
    for x in speeds:
        sizes = " x ".join(map(str, x.sizes))
        pairs = (x.predicted, x.seconds), (x.numpy_predicted, x.numpy_seconds)
        known = [f"{guess / found:.2f}" if guess else "-" for guess, found in pairs]
        rows.append((sizes, x.dtype, f"{x.seconds * 1e3:.4g}", f"{x.numpy_seconds * 1e3:.4g}",
                     str(x.ratio), ", ".join(known), x.label))  # fmt: skip
    note = "predicted/measured: of falcon, of NumPy. *: not known to 2 %, as on a busy machine"
    return f"{format_table(rows, left=2)}\n{note}"
