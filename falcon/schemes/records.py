"""Schemes by their coefficients: falcon's JSON, which the catalogue holds, and checked arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from falcon._tools.locks import importing

from . import brent
from ._checks import BrentError, as_matrices
from ._coefficients import MOST_COEFFICIENTS
from ._scheme import Scheme, SchemeError

# How files of schemes end (`loaders`).
FORMULAS = (".txt", ".exp")
SUFFIXES = (".json", ".npz", ".sms", *FORMULAS, ".m", ".mpl")
# To verify the schemes of a file (`brent.work`; 2^23 take a second), and 16 m k n. The catalogue's
# largest takes 4000, all of AlphaTensor's file 33 million, the largest rational one 53 million.
MOST_WORK = 2**26


def from_record(record: Any, default_name: str = "unnamed") -> Scheme:
    """Build a scheme from parsed JSON in falcon's own or the flip-graph layout.

    Raises TypeError or ValueError: it is none.
    """
    if not isinstance(record, dict):
        raise SchemeError(f"expected a JSON object, got {type(record).__name__}")
    if {"U", "V", "W"} <= record.keys():
        dims: Any = [record.get(axis) for axis in "mkn"] if record.keys() & set("mkn") else None
        rows = [record[factor] for factor in "UVW"]
        rank, w_transposed = record.get("rank"), False
    elif "n" in record and record.keys() & {"u", "u_sparse"}:
        dims = record["n"] if isinstance(record["n"], list) else [record["n"]] * 3
        with importing():
            from . import published
        try:
            rows = published.of_record(record, dims)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise SchemeError(f"no rows u, v and w ({error!r:.200})") from None
        rank, w_transposed = record.get("m"), True
    else:
        raise SchemeError("expected the fields m, k, n, U, V, W or n, m, u, v, w")
    name = record.get("name", default_name)
    source = record.get("source", "")
    if not isinstance(name, str) or not isinstance(source, str):
        raise SchemeError("name and source must be strings")
    facts = {key: record[key] for key in ("kind", "levels", "sums") if key in record}
    return assembled(dims, rank, rows, name, source, w_transposed, **facts)


def assembled(
    dims: Any,
    rank: Any,
    rows: Sequence[Any],
    name: str,
    source: str,
    w_transposed: bool,
    most_work: int = MOST_WORK,
    **facts: Any,
) -> Scheme:
    """Check the sizes, find W's orientation, build; errors are those of the likelier orientation.

    `dims` None: the sizes of rows tell the format. `facts`: `Scheme`'s kind, levels and sums.
    """
    for factor, values in zip("UVW", rows, strict=True):
        if isinstance(values, np.ndarray) and values.size > MOST_COEFFICIENTS:
            raise ValueError(f"{factor} has more than {MOST_COEFFICIENTS} coefficients")
    if dims is not None and (
        not isinstance(dims, list)
        or len(dims) != 3
        or not all(type(x) is int and 0 < x < 1000 for x in dims)
    ):
        raise SchemeError(f"the dimensions are {dims!r}; expected three positive integers")
    U, V, W = as_matrices(*rows, format=dims, rank=rank, flat=True)
    (r, m, k), n = U.shape, V.shape[2]
    readings = [W, W.reshape(r, n, m).transpose(0, 2, 1)]
    if w_transposed:
        readings.reverse()
    brent.check_work("it", 16 * m * k * n, MOST_WORK)
    brent.check_work("it", brent.work(U, V, W), most_work)
    failed: list[BrentError] = []
    for for_c in readings:
        try:
            return Scheme(U, V, for_c, name, source=source, **facts)
        except BrentError as error:
            failed.append(error)
    raise min(failed, key=lambda error: error.failing)
