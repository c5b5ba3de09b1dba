"""Read the sparse matrices (.sms) in which the authors of PLinOpt publish schemes.

::

    strassen_L.sms      U, R x mk        # a comment
    strassen_R.sms      V, R x kn        7 4 R       rows, columns, a letter for the ring
    strassen_P.sms      W, mn x R        1 1 -1/2    row, column (from 1), coefficient
                                         0 0 0       the end
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from falcon._tools.files import read_file

from ._checks import SchemeError
from ._coefficients import exact_array

_NAME = re.compile(r"(.+)_[LRP]\.sms", re.IGNORECASE)
_MOST_BYTES = 2**22
_MOST_SIZE = 2**16
_MOST_ENTRIES = 2**23


def factors(path: Path) -> tuple[str, list[np.ndarray]]:
    """Return the name of a scheme, and its U, V and W as rows of coefficients.

    `path`: one of its three files; the others lie beside it.
    Raises SchemeError: the name does not end in _L, _R or _P, or a file is damaged.
    Raises OSError: a file cannot be read.
    """
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise SchemeError("expected three files, such as X_L.sms, X_R.sms and X_P.sms")
    left, right, product = (
        _matrix(path.with_name(f"{match[1]}_{x}{path.suffix}")) for x in ("L", "R", "P")
    )
    return match[1], [left, right, product.T]


def _matrix(path: Path) -> np.ndarray:
    data = read_file(path, _MOST_BYTES).decode("utf-8", "replace")
    lines = [x.split() for x in data.splitlines()]
    lines = [x for x in lines if x and not x[0].startswith("#")]
    try:
        rows, columns = map(int, lines[0][:2])
        if not (0 < rows <= _MOST_SIZE and columns > 0 and rows * columns <= _MOST_ENTRIES):
            raise ValueError(f"it has {rows} rows and {columns} columns")
        entries = [(int(i) - 1, int(j) - 1, value) for i, j, value in lines[1:] if i != "0"]
        values = exact_array([x for _, _, x in entries], path.stem)
        matrix = np.zeros((rows, columns), values.dtype)
        for (i, j, _), value in zip(entries, values.tolist(), strict=True):
            if not (0 <= i < rows and 0 <= j < columns):
                raise ValueError(f"({i + 1}, {j + 1}) is outside {rows} x {columns}")
            matrix[i, j] = value
    except (IndexError, TypeError, ValueError) as error:
        raise SchemeError(f"{path.name}: no sparse matrix of numbers ({error})") from None
    return matrix
