"""`read_file`: the one way in which users' files are read."""

from __future__ import annotations

from pathlib import Path
from stat import S_ISREG


def read_file(path: Path, most: int = 2**26) -> bytes:
    """Return what a regular file holds: a pipe may wait, and a device may go on, for ever.

    Raises OSError: the file cannot be read, or is no regular file.
    Raises ValueError: it has more bytes than `most`.
    """
    if not S_ISREG(path.stat().st_mode):
        raise OSError(f"{path} is a directory, pipe or device; expected a regular file")
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{path} has more than {most} bytes")
    return data
