"""Check that scheme.json, beside this file, multiplies matrices: exactly, with Python alone.

U, V and W have a row of coefficients for each product r = 1..R: of the entries of A (m x k), of
B (k x n) and of C (m x n), row by row. They multiply matrices if for all entries

    sum over r of U[r][a] V[r][b] W[r][c]  =  1 if a = A[i,l], b = B[l,j], c = C[i,j]; else 0

(R. P. Brent, Stanford report STAN-CS-70-157, 1970). Sums are formed of integers and fractions.
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any


def failures(record: dict[str, Any]) -> list[str]:
    """Return the equations that do not hold."""
    (m, k, n), rank = (record[x] for x in "mkn"), record["rank"]
    factors = []
    for name, size in (("U", m * k), ("V", k * n), ("W", m * n)):
        rows = [[Fraction(x) for x in row] for row in record[name]]
        if len(rows) != rank or any(len(row) != size for row in rows):
            return [f"{name} is not {rank} rows of {size} coefficients"]
        factors.append([[(i, x) for i, x in enumerate(row) if x] for row in rows])
    sums: dict[tuple[int, int, int], Fraction] = {}
    for of_a, of_b, of_c in zip(*factors, strict=True):
        for a, x in of_a:
            for b, y in of_b:
                for c, z in of_c:
                    sums[a, b, c] = sums.get((a, b, c), Fraction(0)) + x * y * z
    ones = {(i * k + l, l * n + j, i * n + j) for i in range(m) for l in range(k) for j in range(n)}
    return [
        f"entries {a + 1} of A, {b + 1} of B, {c + 1} of C: {sums.get((a, b, c), 0)}"
        for a, b, c in sorted(ones | sums.keys())
        if sums.get((a, b, c), 0) != ((a, b, c) in ones)
    ]


def main(path: Path) -> int:
    """Print the result for a file; return 1 if it is no matrix multiplication."""
    record = json.loads(path.read_text(encoding="utf-8"))
    wrong = failures(record)
    size = "<{m},{k},{n};{rank}>".format(**record)
    count = (record["m"] * record["k"] * record["n"]) ** 2
    holds = f"{len(wrong)} of" if wrong else "all"
    print(f"{size}: {holds} {count} equations {'fail' if wrong else 'hold'}", *wrong[:20], sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    beside = Path(__file__).with_name("scheme.json")
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else beside))
