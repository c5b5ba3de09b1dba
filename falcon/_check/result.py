"""`CheckResult`: what a check found, as a table, and as a record for bug reports."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from textwrap import wrap
from typing import Any

from falcon import show_config
from falcon._core.lazy import lazy
from falcon._core.text import format_table
from falcon._cpu.extension import missing
from falcon._front.info import rates_used

# Kernels (or backends) and types whose failures the tables show; `to_dict` has all.
_SHOWN = 12
_ABOUT = 42  # columns of what is said of a step: tables have 100 in all


@dataclass(slots=True)
class Row:
    """What a step found."""

    step: str
    about: str  # what was multiplied, or why nothing was
    products: int = 0
    failed: int = 0  # products that are wrong
    worst: float = 0.0  # the largest error of products that are rounded, over its bound
    seconds: float = 0.0

    @property
    def state(self) -> str:
        """One word: "ok", "FAILED", or "-" for what cannot be tested here."""
        return "FAILED" if self.failed else "ok" if self.products else "-"


@dataclass(repr=False)
class CheckResult:
    """What `falcon.check` found; printed, it is a table.

    Attributes
    ----------
    rows : list of Row
        One per step: what it multiplied, how many products, the largest error over its bound.
    failures : list of dict
        Products that are wrong: step, kernel or backend, type, sizes, ..., and how far off.
    seconds : float
        That the check took.

    Examples
    --------
    >>> import falcon
    >>> falcon.check().ok  # doctest: +SKIP
    True
    """

    rows: list[Row] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether every product was right."""
        return not self.failures

    @property
    def products(self) -> int:
        """Products that were compared with what they must be."""
        return sum(x.products for x in self.rows)

    @lazy
    def machine(self) -> dict[str, Any]:
        """Processor, caches, system, versions, kernels, settings, rates by which plans are made."""
        numbers, about = rates_used(in_numbers=True), show_config("dict") or {}
        return {**about, "missing": missing(), "rates in numbers": numbers}

    def to_dict(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        about = {"ok": self.ok, "machine": self.machine, "rows": [asdict(x) for x in self.rows]}
        return {**about, "failures": self.failures, "seconds": self.seconds}

    def __str__(self) -> str:
        machine, cpus = self.machine, self.machine["CPUs usable"]
        blas = machine["numpy kernels"].get("BLAS", "no BLAS")
        head = (
            f"falcon {machine['falcon']} on {machine['CPU'] or 'an unknown CPU'}, "
            f"{cpus} CPU{'s' if cpus > 1 else ''}\n"
            f"Python {machine['Python']}, NumPy {machine['libraries']['numpy']}, {blas}"
        )
        rows = [("", "products", "error/bound", "s", "", "")]
        for x in self.rows:
            said, *more_said = wrap(x.about, _ABOUT)
            worst, products = f"{x.worst:.2g}" if x.worst else "-", str(x.products or "-")
            rows.append((x.step, products, worst, f"{x.seconds:.1f}", x.state, said))
            rows += [("", "", "", "", "", more) for more in more_said]
        parts = [head, format_table(rows)]
        if self.failures:
            first: dict[tuple, str] = {}  # of each kernel (or backend) and type
            for y in self.failures:
                step, *where, wrong = y.values()
                key = step, *map(y.get, ("kernel", "backend", "type"))
                first.setdefault(key, f"{step}: {', '.join(where)}\n    {wrong}")
            shown = list(first.values())[:_SHOWN]
            more = len(self.failures) - len(shown)
            shown += [f"... and {more} products more"] if more else []
            parts.append("\n".join(["WRONG:", *shown]))
        verdict = f"all {self.products} products are right"
        if not self.ok:
            verdict = f"{len(self.failures)} of {self.products} products are wrong"
        return "\n\n".join([*parts, f"{verdict} ({self.seconds:.0f} s)"])

    __repr__ = __str__
