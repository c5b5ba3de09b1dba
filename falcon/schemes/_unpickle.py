"""Read .npz archives, also those with object arrays, which are pickles, without calling anything.

AlphaTensor's files store each scheme as an object array of three arrays. What their pickles would
call becomes a passive `_Call`, from which arrays are made afterwards: not even NumPy's own hooks
run on a file's content.
"""

from __future__ import annotations

import pickle
import pickletools
import zipfile
from io import BytesIO
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

# The largest published archive has 70 members and a few megabytes. An instruction of a pickle makes
# at most one object, of some 60 bytes.
_MOST_BYTES, _MOST_MEMBERS, _MOST_INSTRUCTIONS = 2**26, 2**12, 2**20
_ADMITTED = {
    "numpy": ("_reconstruct", "ndarray", "dtype"), "_codecs": ("encode",),
    "fractions": ("Fraction",),
}  # fmt: skip


class _Call:
    """A call that a pickle asks for, and the state that it then sets."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: tuple = ()

    def __setstate__(self, state: tuple) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in _ADMITTED.get(module.split(".")[0], ()):  # NumPy has moved its functions
            raise pickle.UnpicklingError(f"{module}.{name} is not admitted in a scheme file")
        return _Call


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
            stream = BytesIO(archive.read(member))
            is_first = npy.read_magic(stream) == (1, 0)
            read_header = npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
            if read_header(stream)[2].hasobject:
                start = stream.tell()
                left -= _instructions(stream, left)
                stream.seek(start)
                held = [_numbers(x) for x in _array(_Unpickler(stream).load())]
            else:
                stream.seek(0)
                held = list(npy.read_array(stream))
            entries[member.filename.removesuffix(".npy")] = held
    return entries


def _instructions(content: IO[bytes], most: int) -> int:
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


def _array(call: _Call) -> np.ndarray:
    """Return the array that a call makes, of numbers or of objects."""
    _, shape, dtype, by_columns, content = call.state
    if isinstance(content, _Call):  # encode, of protocol 2
        content = content.arguments[0].encode("latin-1")
    if isinstance(content, list):  # of objects, always by rows
        flat, by_columns = np.empty(len(content), object), False
        flat[:] = content
    else:
        flat = np.frombuffer(content, dtype.state[1] + dtype.arguments[0])
    return flat.reshape(shape, order="F" if by_columns else "C")


def _numbers(held: Any) -> np.ndarray:
    """Return an array of numbers; of Python's from rows of them, which hold nothing else."""
    array = _array(held) if isinstance(held, _Call) else held
    if isinstance(array, np.ndarray) and array.dtype != object:
        return array
    rows = ([_number(y) for y in x] if type(x) is list else _number(x) for x in array.tolist())
    return np.array([*rows], object)


def _number(x: Any) -> Any:
    """Return a number of Python, or its text; of a Fraction "1/2"."""
    if isinstance(x, _Call) and all(type(y) is int and abs(y) < 2**64 for y in x.arguments):
        x = "/".join(map(str, x.arguments))
    if type(x) not in (int, float, str):
        raise pickle.UnpicklingError("an array holds something that is no number")
    return x
