"""Write a scheme as falcon's JSON, which `loaders` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def as_file(scheme: Any, path: Path) -> str:
    """Return the text of a `Scheme` that the suffix asks for; raises ValueError for another one."""
    suffix = path.suffix.lower()
    if suffix not in ("", ".json", ".txt", ".exp"):
        raise ValueError(f"{path}: schemes are written as .json, or formulas as .txt or .exp")
    return to_json(scheme) if suffix in ("", ".json") else f"{scheme.to_formulas()}\n"


def to_json(scheme: Any) -> str:
    """Return falcon's JSON text of a `Scheme`: a line per row of coefficients or factor's sums."""
    head = {x: getattr(scheme, x) for x in ("name", "source", "m", "k", "n", "rank")}
    if scheme.kind != "plain":
        head["kind"] = scheme.kind
    if scheme.levels > 1:
        head["levels"] = scheme.levels
    fields = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for factor in "UVW":
        rows = getattr(scheme, factor).reshape(scheme.rank, -1).tolist()
        texts = ([x if isinstance(x, int) else str(x) for x in row] for row in rows)
        lines = [f"    {json.dumps(row, separators=(',', ':'))}" for row in texts]
        fields.append(f'  "{factor}": [\n' + ",\n".join(lines) + "\n  ]")
    if scheme.sums:
        lines = [
            f"    {json.dumps(factor)}: {json.dumps([*map(list, pairs)], separators=(',', ':'))}"
            for factor, pairs in scheme.sums.items()
        ]
        fields.append('  "sums": {\n' + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(fields) + "\n}\n"
