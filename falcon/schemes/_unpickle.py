"""Unpickle object arrays from an .npz archive, admitting NumPy arrays and nothing else.

AlphaTensor's files store each scheme as an object array of three arrays, which `numpy.load` reads
only with pickles allowed. A pickle can run any code; this unpickler finds no callable but a few
stand-ins of its own, so that not even NumPy's own hooks see what a file says.
"""

from __future__ import annotations

import pickle
import re
import zipfile
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

# Unpacked bytes of a member; the largest published file has a few megabytes.
_LARGEST_MEMBER = 2**28
_NUMBERS = re.compile(r"[<>|=]?[biuf](1|2|4|8)")
_OBJECT = re.compile(r"[|]?O8?")


class _DType:
    """Stands for `numpy.dtype`: numbers or objects, no structure."""

    def __init__(self, text: str, *_: Any) -> None:
        if not isinstance(text, str) or not (_NUMBERS.fullmatch(text) or _OBJECT.fullmatch(text)):
            raise pickle.UnpicklingError(f"dtype {text!r} is not admitted in a scheme file")
        self.text = text

    def __setstate__(self, state: tuple) -> None:
        if state[1] in ("<", ">"):
            self.text = state[1] + self.text.lstrip("<>|=")

    @property
    def has_objects(self) -> bool:
        return _OBJECT.fullmatch(self.text) is not None


class _Array:
    """Stands for `numpy.ndarray`; `value` is one, of numbers or of `_Array` objects."""

    value: np.ndarray

    def __setstate__(self, state: tuple) -> None:
        _, shape, dtype, fortran_order, content = state
        if dtype.has_objects:
            flat = np.empty(len(content), object)
            flat[:] = content
        else:
            flat = np.frombuffer(content, dtype.text)
        self.value = flat.reshape(shape, order="F" if fortran_order else "C")


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _frombuffer(buffer: bytes, dtype: _DType, shape: tuple, order: str) -> _Array:
    array = _Array()
    array.__setstate__((1, shape, dtype, order == "F", buffer))
    return array


def _encode(text: str, _encoding: str) -> bytes:
    return text.encode("latin-1")  # how protocol 2 writes bytes


_ADMITTED = {
    ("numpy", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
    ("numpy", "_frombuffer"): _frombuffer,
    ("_codecs", "encode"): _encode,
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        # NumPy has moved these functions between its modules.
        key = module.split(".")[0], name
        if key not in _ADMITTED:
            raise pickle.UnpicklingError(f"{module}.{name} is not admitted in a scheme file")
        return _ADMITTED[key]


def load_object_arrays(file: IO[bytes]) -> dict[str, list[np.ndarray]]:
    """Return the arrays that each member of an .npz archive holds, by key.

    Raises
    ------
    Exception
        Whatever reading a damaged archive may raise.
    """
    entries = {}
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.file_size > _LARGEST_MEMBER:
                raise ValueError(f"{member.filename} would unpack to {member.file_size} bytes")
            with archive.open(member) as stream:
                entries[member.filename.removesuffix(".npy")] = _read(stream)
    return entries


def _read(stream: IO[bytes]) -> list[np.ndarray]:
    version = npy_format.read_magic(stream)
    read_header = (
        npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    )
    shape, fortran_order, dtype = read_header(stream)
    if dtype.hasobject:
        loaded = _ArrayUnpickler(stream).load()
        return [x.value if isinstance(x, _Array) else x for x in loaded.value]
    flat = np.frombuffer(stream.read(), dtype)
    return list(flat.reshape(shape, order="F" if fortran_order else "C"))
