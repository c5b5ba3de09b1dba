"""`CheckResult`: what a check found, as tables and as a document."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from falcon._core.text import format_table

if TYPE_CHECKING:
    from .speeds import Speed
    from .trial import Failure

# Kernels (or backends) and types whose failures the tables show; `to_dict` has all.
_SHOWN = 12
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Row:
    """What a step found.

    Attributes
    ----------
    step : str
    about : str
        What was multiplied, or why nothing was.
    products : int
    worst : float
        The largest error of products that are rounded, over its bound; 0 if none was.
    failed : int
        Products that are wrong.
    is_skipped : bool
    seconds : float
    """

    step: str
    about: str
    products: int
    worst: float
    failed: int
    is_skipped: bool
    seconds: float

    @property
    def state(self) -> str:
        """One word: "ok", "FAILED", or "-" for what cannot be tested here."""
        return "FAILED" if self.failed else "-" if self.is_skipped else "ok"


@dataclass(frozen=True, repr=False)
class CheckResult:
    """What `falcon.check` found; printed, it is a table.

    Attributes
    ----------
    rows : tuple of Row
        One per step: what it multiplied, how many products, the largest error over its bound.
    failures : tuple of Failure
        Products that are wrong: which kernel or backend, type, sizes, and how far off.
    speeds : tuple of Speed
        Times of falcon and of NumPy, and the predicted ones.
    machine : dict
        Processor, caches, system, versions, kernels, rates, settings.
    seconds : float
        That the check took.

    Examples
    --------
    >>> import falcon
    >>> falcon.check(speeds=False).ok  # doctest: +SKIP
    True
    """

    rows: tuple[Row, ...]
    failures: tuple[Failure, ...]
    speeds: tuple[Speed, ...]
    machine: dict[str, Any]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every product was right."""
        return not self.failures

    @property
    def products(self) -> int:
        """Products that were compared with what they must be."""
        return sum(x.products for x in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it for JSON; no text holds a path, or the name of the host or the user."""
        from .record import anonymous

        return anonymous(
            {
                "ok": self.ok,
                "seconds": round(self.seconds, 2),
                "machine": self.machine,
                "steps": [asdict(x) for x in self.rows],
                "failures": [asdict(x) for x in self.failures],
                "speeds": [x.document() for x in self.speeds],
            }
        )

    def __repr__(self) -> str:
        return f"<CheckResult {'ok' if self.ok else 'FAILED'}: {self._verdict()}>"

    def __str__(self) -> str:
        parts = [_head(self.machine), self._steps()]
        if self.failures:
            parts.append(_wrong(self.failures))
        if self.speeds:
            parts.append(_speeds(self.speeds))
        parts.append(self._verdict())
        return "\n\n".join(parts)

    def _verdict(self) -> str:
        if self.ok:
            return f"all {self.products} products are right ({self.seconds:.0f} s)"
        return f"{len(self.failures)} of {self.products} products are wrong ({self.seconds:.0f} s)"

    def _steps(self) -> str:
        rows = [("", "products", "error/bound", "s", "", "")]
        for x in self.rows:
            worst = f"{x.worst:.2g}" if x.worst else "-"
            numbers = (str(x.products), worst) if x.products else ("-", "-")
            rows.append((x.step, *numbers, f"{x.seconds:.1f}", x.state, x.about))
        lines = format_table(rows).splitlines()
        return "\n".join(x if len(x) <= _WIDTH else f"{x[: _WIDTH - 4]} ..." for x in lines)


def _wrong(failures: tuple[Failure, ...]) -> str:
    """Return the first failure of each kernel, or backend, and type, with their number."""
    groups: dict[tuple, list[Failure]] = {}
    for x in failures:
        key = x.step, *(x.where.get(name) for name in ("kernel", "backend", "type"))
        groups.setdefault(key, []).append(x)
    lines = ["WRONG:"]
    for first, *others in list(groups.values())[:_SHOWN]:
        more = f" (and {len(others)} products more)" if others else ""
        lines.append(f"{first}{more}")
    if len(groups) > _SHOWN:
        lines.append(f"... and {len(groups) - _SHOWN} kernels, backends or types more")
    return "\n".join(lines)


def _head(machine: dict[str, Any]) -> str:
    cpus = machine["CPUs usable"]
    blas = machine["numpy kernels"].get("BLAS", "no BLAS")
    return (
        f"falcon {machine['falcon']} on {machine['CPU'] or 'an unknown CPU'}, "
        f"{cpus} CPU{'s' if cpus > 1 else ''}\n"
        f"Python {machine['Python']}, NumPy {machine['libraries']['numpy']}, {blas}"
    )


def _speeds(speeds: tuple[Speed, ...]) -> str:
    rows = [
        (
            "M x N x K",
            "type",
            "falcon ms",
            "NumPy ms",
            "speed-up",
            "predicted/measured",
            "falcon ran",
        )
    ]
    for x in speeds:
        sizes = " x ".join(map(str, x.sizes))
        pairs = (x.predicted, x.seconds), (x.numpy_predicted, x.numpy_seconds)
        known = [f"{guess / found:.2f}" if guess else "-" for guess, found in pairs]
        rows.append((sizes, x.dtype, f"{x.seconds * 1e3:.4g}", f"{x.numpy_seconds * 1e3:.4g}",
                     str(x.ratio), ", ".join(known), x.label))  # fmt: skip
    note = "predicted/measured: of falcon, of NumPy. *: not known to 2 %, as on a busy machine"
    return f"{format_table(rows, left=2)}\n{note}"
