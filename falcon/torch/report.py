"""`Report`: what `convert_` did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from falcon._tools.text import format_table
from falcon._tools.timing import withheld

from .forward import Forward, ranged
from .operands import DTYPES


@dataclass(frozen=True)
class Report:
    """What `convert_` did: printable; `rows` fits ``pandas.DataFrame(report.rows)``.

    Attributes
    ----------
    rows : list of dict
        Per linear layer: its `name`, `shape` (N, K) and `dtype`; the `scheme` (None: torch's own
        product); from how many rows on it runs (`min_m`); the `gain`, the time of torch's product
        over the layer's, or where `measured` is False what is predicted over falcon's own without
        panels, on a GPU over cuBLAS; for how many `rows` that is; the `interval` of a gain that was
        measured, and how other programs `disturbed` one that is undecided; `extra_bytes` of panels;
        and the `reason` where something was not taken.
    forwards : tuple of Forward
        What the forward pass of each example gains as a whole.

    Examples
    --------
    >>> import torch, falcon
    >>> layer = torch.nn.Linear(8, 9)
    >>> report = falcon.torch.convert_(layer)
    >>> report.rows[0]["scheme"], report.rows[0]["reason"], report.extra_bytes
    (None, 'too small', 0)
    """

    rows: list[dict[str, Any]]
    forwards: tuple[Forward, ...] = ()

    @property
    def forward(self) -> Forward | None:
        """The one of `forwards` that gains least for sure; None without an example."""
        return min(self.forwards, key=lambda x: x.low, default=None)

    @property
    def extra_bytes(self) -> int:
        """Bytes of all panels."""
        return sum(row["extra_bytes"] for row in self.rows)

    def __str__(self) -> str:
        table = [("layer", "N x K", "dtype", "scheme", "from rows", "gain", "MiB", "")]
        for name, some in _equal(self.rows):
            x, used = some[0], sum(y["extra_bytes"] for y in some)
            gain = "-" if x["gain"] is None else f"{x['gain']:.2f} ?"
            if x["measured"]:
                gain = ranged(x["gain"], *x["interval"])
            size = " x ".join(map(str, x["shape"]))
            table.append((name, size, x["dtype"], x["scheme"] or "torch", str(x["min_m"] or "-"),
                          gain, f"{used / 2**20:.1f}", x["reason"]))  # fmt: skip
        taken = sum(x["scheme"] is not None for x in self.rows)
        why = [x["reason"] for x in self.rows if x["reason"] and x["reason"] in DTYPES.values()]
        first = [f"{why.count(x)} of {len(self.rows)} layers are torch's: {x}" for x in {*why}]
        of = f", for {self.rows[0]['rows']} rows (tokens) in a call" if self.rows else ""
        lines = [
            *first,  # a package that is missing
            format_table(table, left=4),
            f"{taken} of {len(self.rows)} layers on falcon, "
            f"{self.extra_bytes / 2**20:.1f} MiB of panels",
            f"gain: torch's time over falcon's{of}",
        ]
        if any(x["gain"] is not None and not x["measured"] for x in self.rows):
            lines.append("?: predicted, over falcon without panels, on a GPU over cuBLAS")
        lines += [
            "from rows: calls of so many rows or more run on falcon, those of fewer are torch's",
            "MiB: panels, 0 where the weight is taken as it is",
        ]
        if disturbed := [x["disturbed"] for x in self.rows if x["disturbed"]]:
            told = f"gains of {len(disturbed)} of {len(self.rows)} layers are undecided:"
            lines += [told, withheld(disturbed[0])]
        lines += map(str, self.forwards)
        if len(self.forwards) == 1 and taken:
            lines.append("calls of other rows gain more or less: a list of examples times several")
        if taken and any(x.verdict != "faster" for x in self.forwards):
            undo = "falcon.torch.revert_(model), or min_gain=1.0, undoes it"
            lines.append(f"the pass is not surely faster: {undo}")
        return "\n".join(lines)

    __repr__ = __str__


def _equal(rows: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return equal layers of equal blocks together, such as "layers.0-11.query, 12 times"."""
    found: dict[tuple, list[dict[str, Any]]] = {}
    for x in rows:
        *blocks, layer = x["name"].split(".")
        of = *(None if y.isdecimal() else y for y in blocks), layer
        found.setdefault((of, *(str(y) for key, y in x.items() if key != "name")), []).append(x)
    named = []
    for some in found.values():
        words = zip(*(x["name"].split(".") for x in some), strict=True)
        times = f", {len(some)} times" if len(some) > 1 else ""
        named.append((".".join(map(_span, words)) + times, some))
    return named


def _span(words: tuple[str, ...]) -> str:
    """Return a word that all are, or the ranges of numbers: "0-3,5"."""
    if len({*words}) == 1:
        return words[0]
    held = sorted({int(x) for x in words})
    ends = zip((x for x in held if x - 1 not in held), (x for x in held if x + 1 not in held),
               strict=True)  # fmt: skip
    return ",".join(f"{x}" if x == y else f"{x}-{y}" for x, y in ends)
