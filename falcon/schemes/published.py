"""Layouts in which other researchers publish schemes, read only: docs/reference/files.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._coefficients import LARGEST_COEFFICIENT, MOST_COEFFICIENTS

# Steps of writing out the sums of a reduced scheme.
_MOST_STEPS = 2**20
_MATRIX = re.compile(r"\[\[[^][]*\](?:,\[[^][]*\])*\]")


def of_text(text: str) -> tuple[list[int] | None, int | None, Sequence[Any]] | None:
    """Return format and rank, if they are written there, and U, V, W; None: it is other text.

    Raises TypeError or ValueError: the matrices are not three, or not of numbers.
    """
    if re.match(r"\s*\{\s*\{", text) or "TriadSet(" in text:  # Mathematica, Maple
        text = re.sub(r"\s+", "", text.partition("TriadSet(")[2] or text)
        text = ",".join(_MATRIX.findall(text.translate(str.maketrans("{}", "[]"))))
        matrices = json.loads(re.sub(r"-?\d+/\d+", r'"\g<0>"', f"[{text}]"))
        return None, None, [matrices[i::3] for i in range(3)]
    text = re.sub(r"^(?:\s*#.*\s*)+", "#", text, flags=re.MULTILINE)
    if re.search(r"[^-\d./\s#]", text) or not re.search(r"\d", text):
        return None
    held = [x.strip().split("\n") for x in text.split("#", 9) if x.strip()]
    tables: list[list[list[Any]]] = [
        [[int(y) if y.lstrip("-").isdigit() else y for y in x.split()] for x in lines]
        for lines in held[:4]
    ]
    if len(tables) == 1 and len(tables[0]) == 4:
        (m, k, n, rank), *lines = tables[0]
        sized = zip(lines, (m * k, k * n, m * n), strict=True)
        rows = [[x[i : i + size] for i in range(0, len(x), size)] for x, size in sized]
        return [m, k, n], rank, rows
    if len(tables) != 3:
        raise ValueError(f"there are {len(held)}; expected U, V and W with a line # in between")
    return None, None, [list(zip(*x, strict=True)) for x in tables]


def of_record(record: Mapping[str, Any], dims: Sequence[int]) -> list[Sequence[Any]]:
    """Return U, V and W of a record of JSON: dense, sparse or reduced.

    Raises AttributeError, LookupError, TypeError or ValueError: it is damaged.
    """
    if "u_sparse" not in record and "u_fresh" not in record:
        return [record[x] for x in "uvw"]
    m, k, n = dims
    if "u_sparse" in record:
        held = [record[f"{x}_sparse"] for x in "uvw"]
        held = [x if isinstance(x, list) else [x[str(r)] for r in range(len(x))] for x in held]
        sized = zip(held, (m * k, k * n, m * n), strict=True)
        return [_dense(map(_entries, x), size) for x, size in sized]
    u, v, w = (
        _dense(_written_out(record[f"{x}_fresh"], record[x], size), size)
        for x, size in zip("uvw", (m * k, k * n, record["m"]), strict=True)
    )
    return [u, v, list(zip(*w, strict=True))]


def _entries(row: Mapping[str, Any]) -> dict[int, Any]:
    pairs = zip(row["i"], row["c"], strict=True) if "i" in row else row.items()
    return {int(i): x for i, x in pairs}


def _dense(rows: Iterable[Mapping[int, Any]], size: int) -> list[list[Any]]:
    made: list[list[Any]] = []
    for row in rows:
        if wrong := [i for i in row if not 0 <= i < size]:
            raise ValueError(f"there is no entry {wrong[0]} of {size}")
        made.append([row.get(i, 0) for i in range(size)])
        if len(made) * size > MOST_COEFFICIENTS:
            raise ValueError(f"a factor has more than {MOST_COEFFICIENTS} coefficients")
    return made


def _written_out(fresh: Sequence[Any], sums: Sequence[Any], inputs: int) -> list[dict[int, int]]:
    """Return `sums`, which may use those of `fresh` after the inputs, in terms of the inputs."""
    made: list[dict[int, int]] = []
    steps = 0
    for terms in (*fresh, *sums):
        total: dict[int, int] = {}
        for term in terms:
            i, factor = term["index"], term["value"]
            if type(factor) is not int:
                raise TypeError(f"the coefficient {factor!r} is no integer")
            for j, x in ({i: 1} if i < inputs else made[i - inputs]).items():
                total[j] = total.get(j, 0) + factor * x
                steps += 1
                if steps > _MOST_STEPS or abs(total[j]) > LARGEST_COEFFICIENT:
                    raise ValueError("its sums have too many terms, or too large a coefficient")
        made.append(total)
    return made[len(fresh) :]
