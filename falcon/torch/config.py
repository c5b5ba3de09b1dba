"""`LinearConfig`: how `convert_` treats linear layers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import torch

import falcon
from falcon._front.surface import LINEAR, validated
from falcon._tools.checks import check_integer, check_switch
from falcon._tools.text import unexpected

from .packed import How

# Rows from which on falcon multiplies by default.
_FEWEST = 256
# RMS growth of errors that layers may have by default: a quarter of a digit more than torch's own
# in float32; in 16 bits none by LCMAs whose sums are rounded to 16 bits, which have 2.8.
_MOST_GROWTH, _MOST_GROWTH_16 = 4.0, 2.0


@dataclass(frozen=True)
class LinearConfig:
    """How `convert_` treats linear layers.

    Attributes
    ----------
    scheme : str or Scheme
        "auto", "classical", or a scheme that is then used by all layers, without measuring.
    max_growth : float, optional
        Largest RMS error of "auto", relative to the classical algorithm. None: 4.0, and 2.0 for
        weights of 16 bits.
    error : float, optional
        Largest error of an output over the norms of its row of the input and of the weight: the
        fastest arithmetic that promises it, as `falcon.gemm` takes it. None: what the type allows.
    min_m : int, optional
        Fewer rows (tokens) than these are left to torch, which decodes faster. None: than `rows`,
        256, 64 or 16, the least with which falcon is measured to be faster; not measured: 256.
    rows : int
        Rows for which the scheme is chosen and measured.
    memory_limit : int or str, optional
        Bytes that the panels of all layers may take together, such as "2GiB"; those that gain most
        come first. None: no limit but that of each layer, 2.5 times its weight.
    batch_invariant : bool
        A row of the output has the same bits whatever the other rows, where no gradient is
        recorded: all layers, small ones too, run packed with ``reproducible="rows"``, without
        measuring, whatever `min_m`.
    measure : bool
        Time torch's product, and falcon's with and without panels, once per shape, and take the
        fastest. False: take falcon's with panels, and predict the gain.

    Examples
    --------
    >>> falcon.torch.LinearConfig(min_m=64, memory_limit="2GiB").memory_limit
    '2GiB'
    >>> falcon.torch.LinearConfig(rows=0)
    Traceback (most recent call last):
    ValueError: rows is 0; expected an integer >= 1
    """

    scheme: str | falcon.Scheme = "auto"
    max_growth: float | None = None
    error: float | None = None
    min_m: int | None = None
    rows: int = 512
    memory_limit: int | str | None = None
    batch_invariant: bool = False
    measure: bool = True

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Raise TypeError where a keyword is unknown."""
        known = [x.name for x in fields(cls)]
        for name in given.keys() - {*known}:
            raise unexpected(cls.__name__, name, known)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in LINEAR}
        if self.max_growth is None:
            del given["max_growth"]
        validated(given)
        if self.scheme not in ("auto", "classical") and isinstance(self.scheme, str):
            falcon.schemes.get(self.scheme)
        check_integer("rows", self.rows)
        if self.min_m is not None:
            check_integer("min_m", self.min_m)
        for name in ("batch_invariant", "measure"):
            check_switch(name, getattr(self, name))
        if self.batch_invariant and self.scheme not in ("auto", "classical"):
            raise ValueError(
                f"scheme is {self.scheme!r}, but batch_invariant=True needs 'classical': a scheme "
                "adds up rows that lie in different places"
            )

    def how(self, dtype: torch.dtype) -> How:
        """Return how layers of a dtype multiply."""
        growth = self.max_growth
        if growth is None and self.error is None:
            growth = _MOST_GROWTH_16 if dtype.itemsize == 2 else _MOST_GROWTH
        options = {name: getattr(self, name) for name in LINEAR} | {"max_growth": growth}
        options = {name: value for name, value in options.items() if value is not None}
        options.pop("memory_limit", None)  # that of all layers together
        if self.batch_invariant:
            return How((("reproducible", "rows"),), self.rows, 1)
        fewest = min(_FEWEST, self.rows) if self.min_m is None else self.min_m
        return How(tuple(options.items()), self.rows, fewest)
