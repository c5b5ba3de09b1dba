"""The one way in which users' files are read, and JSON files replaced."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from threading import get_native_id
from typing import Any


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


def write_json(path: Path, content: Any) -> None:
    """Replace a file as a whole: readers see the old one or the new one.

    Its mode follows the umask, so that several users may share a folder.

    Raises OSError: the folder cannot be written to.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}-{get_native_id()}.part")
    try:
        part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
