"""`Report`: what `convert_` did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from falcon._core.text import format_table

from .forward import Forward


@dataclass(frozen=True)
class Report:
    """What `convert_` did: printable; `rows` fits ``pandas.DataFrame(report.rows)``.

    Attributes
    ----------
    rows : list of dict
        Per linear layer: its `name`, `shape` (N, K) and `dtype`; the `scheme` (None: torch's own
        product); from how many rows on it runs (`min_m`); the `gain`, the time of torch's product
        over the layer's, or where `measured` is False what is predicted over falcon's own without
        panels, on a GPU over cuBLAS; `extra_bytes` of panels; and the `reason` where something was
        not taken.
    forward : Forward, optional
        What the forward pass of `example` gains as a whole.

    Examples
    --------
    >>> import torch, falcon
    >>> layer = torch.nn.Linear(8, 9)
    >>> report = falcon.torch.convert_(layer)
    >>> report.rows[0]["scheme"], report.rows[0]["reason"], report.extra_bytes
    (None, 'too small', 0)
    """

    rows: list[dict[str, Any]]
    forward: Forward | None = None

    @property
    def extra_bytes(self) -> int:
        """Bytes of all panels."""
        return sum(row["extra_bytes"] for row in self.rows)

    def __str__(self) -> str:
        table = [("layer", "N x K", "dtype", "scheme", "from rows", "gain", "MiB", "")]
        for x in self.rows:
            gain = "-" if x["gain"] is None else f"{x['gain']:.2f}{'' if x['measured'] else ' ?'}"
            size = " x ".join(map(str, x["shape"]))
            table.append((x["name"], size, x["dtype"], x["scheme"] or "torch",
                          str(x["min_m"] or "-"), gain, f"{x['extra_bytes'] / 2**20:.1f}",
                          x["reason"]))  # fmt: skip
        taken = sum(x["scheme"] is not None for x in self.rows)
        return (
            f"{format_table(table, left=4)}\n{taken} of {len(self.rows)} layers on falcon, "
            f"{self.extra_bytes / 2**20:.1f} MiB of panels\n"
            "gain: torch's time over falcon's (?: predicted; over falcon without panels, "
            "on a GPU over cuBLAS)\n"
            "from rows: torch multiplies fewer; MiB: panels, 0 where the weight is taken as it is"
        ) + (f"\n{self.forward}" if self.forward else "")

    __repr__ = __str__
