"""Unpickle object arrays from an .npz archive, admitting NumPy arrays and nothing else.

AlphaTensor's files store each scheme as an object array of three arrays, which `numpy.load` reads
only with pickles allowed. A pickle can run any code; this unpickler can call only a few stand-ins
of its own, so that not even NumPy's own hooks are run on a file's content.
"""

from __future__ import annotations

import pickle
import pickletools
import re
import zipfile
from io import BytesIO
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

# Limits of an unpacked archive; the largest published file has 70 members and a few megabytes.
_MOST_BYTES = 2**26
_MOST_MEMBERS = 2**12
# Limit of its pickles: each instruction makes at most one object, of some 60 bytes.
_MOST_INSTRUCTIONS = 2**20
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
            flat, fortran_order = np.empty(len(content), object), False  # lists are always by rows
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

    Raises Exception: whatever reading a damaged archive may raise.
    """
    entries = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        if unpacked > _MOST_BYTES or len(members) > _MOST_MEMBERS:
            raise ValueError(
                f"its {len(members)} members would unpack to {unpacked} bytes; at most "
                f"{_MOST_MEMBERS} and {_MOST_BYTES} are read"
            )
        left = _MOST_INSTRUCTIONS
        for member in members:
            with archive.open(member) as stream:
                found, taken = _read(stream, left)
            entries[member.filename.removesuffix(".npy")] = found
            left -= taken
    return entries


def _read(stream: IO[bytes], most: int) -> tuple[list[np.ndarray], int]:
    """Return a member's arrays, and how many instructions its pickle took."""
    version = npy_format.read_magic(stream)
    read_header = (
        npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    )
    shape, fortran_order, dtype = read_header(stream)
    if dtype.hasobject:
        content = stream.read()
        count = _instructions(content, most)
        loaded = _ArrayUnpickler(BytesIO(content)).load()
        return [x.value if isinstance(x, _Array) else x for x in loaded.value], count
    flat = np.frombuffer(stream.read(), dtype)
    return list(flat.reshape(shape, order="F" if fortran_order else "C")), 0


def _instructions(content: bytes, most: int) -> int:
    """Count the instructions of a pickle, refusing those that take memory beyond their own size.

    The memo of an unpickler is as long as its largest index, which may not exceed the number of
    instructions so far.
    """
    for number, (instruction, argument, _) in enumerate(pickletools.genops(content)):
        if number >= most:
            raise pickle.UnpicklingError(f"its pickles have more than {most} instructions")
        if "PUT" in instruction.name and int(argument or 0) > number:
            raise pickle.UnpicklingError(f"a pickle stores its object number {argument} too early")
    return number + 1
