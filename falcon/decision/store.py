"""Profiles as JSON files: checked when they are read, written atomically.

::

    {"format": 9, "key": {"cpu": ..., "cpu.isa": ..., "numpy.blas": ...},
     "rates": [{"backend":, "dtype":, "threads":, "multiply":, ...}, ...]}
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path
from threading import get_native_id
from time import perf_counter, sleep
from typing import Any

from falcon._core.rates import Rates

FORMAT = 9  # of the file and of how rates are measured; files of other formats are refused

# Bytes; a profile of every dtype and 64 numbers of threads has a tenth of that.
_LARGEST_FILE = 2**22
# Seconds that a process waits for another one that changes the same file.
_MOST_WAIT = 0.05
# What reading a damaged entry may raise.
DAMAGE = (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError)

# By backend, name of the dtype, threads.
RatesTable = dict[tuple[str, str, int], Any]


class ForeignError(ValueError):
    """The file is no profile, is damaged, or was made by another version."""


def file_name(kind: str, key: dict[str, str]) -> str:
    """Name of the file that holds what was measured under this key."""
    text = json.dumps(key, sort_keys=True)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that `write_json` has written.

    Raises OSError: it cannot be read.
    Raises ForeignError: it is no such file, or is damaged.
    """
    with path.open("rb") as file:
        data = file.read(_LARGEST_FILE + 1)
    if len(data) > _LARGEST_FILE:
        raise ForeignError(f"it has more than {_LARGEST_FILE} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ForeignError(f"it is not JSON ({error})") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ForeignError(f"it does not say format {FORMAT}")
    key = found.get("key")
    if not isinstance(key, dict) or not all(isinstance(x, str) for x in key.values()):
        raise ForeignError("it has no key")
    return found


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace a file as a whole: readers see the old one or the new one.

    Its mode follows the umask, so that several users may share a cache folder.

    Raises OSError: the folder cannot be made or written to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}-{get_native_id()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, **content}, file, indent=1)
            file.write("\n")
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


@contextmanager
def exclusive(path: Path, wait: float = _MOST_WAIT) -> Iterator[bool]:
    """Keep other processes out of a block that reads a file, changes it and writes it.

    Waits at most `wait` seconds; False: another process still holds the file. Nobody waits on
    Windows, nor where the folder cannot be written to.
    """
    if sys.platform == "win32":
        yield True
        return
    import fcntl

    handle, end, is_free = -1, perf_counter() + wait, True
    try:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(
                path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666
            )
        while handle >= 0:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if perf_counter() > end:
                    is_free = False
                    break
                sleep(0.001)
        yield is_free
    finally:
        if handle >= 0:
            os.close(handle)


def read_profile(
    path: Path, kinds: Mapping[str, type] | None = None
) -> tuple[dict[str, str], RatesTable]:
    """Read key and rates; raises as `read_json`.

    `kinds`: the rates of each backend (`Backend.rates_type`); `Rates` of those that are not named.
    """
    found = read_json(path)
    rates: RatesTable = {}
    try:
        for x in map(dict, found["rates"]):
            key = str(x.pop("backend")), str(x.pop("dtype")), int(x.pop("threads"))
            rates[key] = _rates(x, (kinds or {}).get(key[0], Rates))
    except DAMAGE as error:
        raise ForeignError(f"an entry is damaged ({error})") from None
    return found["key"], rates


def write_profile(path: Path, key: dict[str, str], rates: RatesTable) -> None:
    """Write a profile; raises as `write_json`."""
    rows = [
        {"backend": backend, "dtype": dtype, "threads": threads, **asdict(x)}
        for (backend, dtype, threads), x in sorted(rates.items())
    ]
    write_json(path, {"key": key, "rates": rows})


def _rates(found: dict[str, Any], kind: type) -> Any:
    """Build rates from a JSON object; their class refuses values out of range."""
    if found.keys() != {x.name for x in fields(kind)}:
        raise ValueError("rates lack a field, or have one too many")
    return kind(**{k: tuple(x) if isinstance(x, list) else x for k, x in found.items()})
