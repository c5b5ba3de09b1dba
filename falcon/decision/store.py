"""Profiles as JSON files: checked when they are read, written atomically.

::

    {"format": 8, "key": {"cpu": ..., "cpu.isa": ..., "numpy.blas": ...}, "caches": {...},
     "rates": [{"backend":, "dtype":, "threads":, "multiply":, ...}, ...],
     "streaming": [{"threads":, "read": {...}, "copy": {...}, "region":}, ...]}
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from falcon._core.rates import Rates, not_negative, positive

from .hardware import Streaming

FORMAT = 8  # of the file and of how rates are measured; files of other formats are refused

# Bytes; a profile of every dtype and 64 numbers of threads has a tenth of that.
_LARGEST_FILE = 2**22
# What reading a damaged entry may raise.
DAMAGE = (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError)

# By backend, name of the dtype (and "tf32" where products round to it), threads.
RatesTable = dict[tuple[str, str, int], Any]


class ForeignError(ValueError):
    """The file is no profile, is damaged, or was made by another version."""


def file_name(kind: str, key: dict[str, str]) -> str:
    """Name of the file that holds what was measured under this key."""
    text = json.dumps(key, sort_keys=True)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that `write_json` has written.

    Raises
    ------
    OSError
        It cannot be read.
    ForeignError
        It is no such file, or is damaged.
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

    Raises
    ------
    OSError
        The folder cannot be made or written to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, **content}, file, indent=1)
            file.write("\n")
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def read_profile(
    path: Path, kinds: Mapping[str, type] | None = None
) -> tuple[dict[str, str], RatesTable, dict[int, Streaming]]:
    """Read key, rates and streaming bandwidths; raises as `read_json`.

    Parameters
    ----------
    kinds : mapping of str to type, optional
        The rates of each backend (`Backend.rates_type`); `Rates` of those that are not named.
    """
    found = read_json(path)
    rates: RatesTable = {}
    try:
        for x in map(dict, found["rates"]):
            key = str(x.pop("backend")), str(x.pop("dtype")), int(x.pop("threads"))
            rates[key] = _rates(x, (kinds or {}).get(key[0], Rates))
        streaming = {int(x["threads"]): _streaming(x) for x in map(dict, found["streaming"])}
    except DAMAGE as error:
        raise ForeignError(f"an entry is damaged ({error})") from None
    return found["key"], rates, streaming


def write_profile(
    path: Path,
    key: dict[str, str],
    rates: RatesTable,
    streaming: dict[int, Streaming],
    caches: dict[str, int],
) -> None:
    """Write a profile; raises as `write_json`."""
    content = {
        "key": key,
        "caches": caches,
        "rates": [
            {"backend": backend, "dtype": dtype, "threads": threads, **asdict(x)}
            for (backend, dtype, threads), x in sorted(rates.items())
        ],
        "streaming": [asdict(x) for _, x in sorted(streaming.items())],
    }
    write_json(path, content)


def _rates(found: dict[str, Any], kind: type) -> Any:
    """Build rates from a JSON object; their class refuses values out of range."""
    if found.keys() != {x.name for x in fields(kind)}:
        raise ValueError("rates lack a field, or have one too many")
    return kind(**{k: tuple(x) if isinstance(x, list) else x for k, x in found.items()})


def _streaming(found: dict[str, Any]) -> Streaming:
    read, copy = (
        {str(level): float(x) for level, x in dict(found[name]).items()}
        for name in ("read", "copy")
    )
    positive("streaming", *read.values(), *copy.values())
    not_negative("region", found["region"])
    return Streaming(int(found["threads"]), read, copy, float(found["region"]))
