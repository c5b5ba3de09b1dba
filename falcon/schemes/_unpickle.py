"""Unpickle object arrays from an .npz archive, admitting NumPy arrays and nothing else.

AlphaTensor's files store each scheme as an object array of three arrays, which `numpy.load` reads
only with pickles allowed. A pickle can run any code; this unpickler finds no callable but the four
that rebuild an array.
"""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

_ADMITTED = {
    "_reconstruct": np.zeros(1).__reduce__()[0],
    "ndarray": np.ndarray,
    "dtype": np.dtype,
    "_frombuffer": np.zeros(1).__reduce_ex__(5)[0],
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in _ADMITTED:
            return _ADMITTED[name]
        raise pickle.UnpicklingError(f"{module}.{name} is not admitted in a scheme file")


def load_object_arrays(path: Path) -> dict[str, Any]:
    """Return the arrays of an .npz archive by key, object arrays included."""
    entries = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            with archive.open(member) as stream:
                version = npy_format.read_magic(stream)
                read_header = (
                    npy_format.read_array_header_1_0
                    if version == (1, 0)
                    else npy_format.read_array_header_2_0
                )
                shape, fortran_order, dtype = read_header(stream)
                if dtype.hasobject:
                    array = _ArrayUnpickler(stream).load()
                else:
                    order = "F" if fortran_order else "C"
                    count = int(np.prod(shape))
                    data = stream.read(count * dtype.itemsize)
                    array = np.frombuffer(data, dtype, count).reshape(shape, order=order)
            entries[member.removesuffix(".npy")] = array
    return entries
