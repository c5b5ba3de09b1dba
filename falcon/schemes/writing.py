"""Write a scheme as falcon's JSON, which `loaders` reads."""

from __future__ import annotations

import json
from typing import Any

# The field "product" of files of schemes for X X^T.
GRAM = "X X^T"


def to_json(scheme: Any) -> str:
    """Return falcon's JSON text of a `Scheme` or `SymmetricScheme`.

    A line holds a row of coefficients, or a factor's sums.
    """
    is_general = scheme.letters == "ab"
    head = {
        **({} if is_general else {"product": GRAM}),
        "name": scheme.name,
        "source": scheme.source,
        **{axis: getattr(scheme, axis) for axis in ("mkn" if is_general else "mk")},
        "rank": scheme.rank,
        **({} if scheme.kind == "plain" else {"kind": scheme.kind}),
    }
    if is_general and scheme.levels > 1:
        head["levels"] = scheme.levels
    fields = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for factor in "UVW":
        rows = getattr(scheme, factor).reshape(scheme.rank, -1).tolist()
        texts = ([x if isinstance(x, int) else str(x) for x in row] for row in rows)
        lines = [f"    {json.dumps(row, separators=(',', ':'))}" for row in texts]
        fields.append(f'  "{factor}": [\n' + ",\n".join(lines) + "\n  ]")
    if is_general and scheme.sums:
        lines = [
            f"    {json.dumps(factor)}: {json.dumps([*map(list, pairs)], separators=(',', ':'))}"
            for factor, pairs in scheme.sums.items()
        ]
        fields.append('  "sums": {\n' + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(fields) + "\n}\n"
