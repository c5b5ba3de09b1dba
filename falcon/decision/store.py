"""Profiles as JSON files: read with suspicion, written atomically.

::

    {"format": 5, "key": {"cpu": ..., "cpu.isa": ..., "numpy.blas": ...}, "caches": {...},
     "rates": [{"backend":, "dtype":, "threads":, "multiply":, ...}, ...],
     "streaming": [{"threads":, "read": {...}, "copy": {...}, "region":}, ...]}
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, fields
from math import isfinite
from pathlib import Path
from typing import Any

from falcon._core.plan import Rates

from .hardware import Streaming

FORMAT = 6  # of the file and of how rates are measured; another one is foreign

RatesTable = dict[tuple[str, str, int], Rates]


class ForeignError(ValueError):
    """The file is no profile, is damaged, or was made by another version."""


def file_name(kind: str, key: dict[str, str]) -> str:
    """Name of the file that holds what was measured under this key."""
    text = json.dumps(key, sort_keys=True)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"


def read_json(path: Path) -> dict[str, Any]:
    """Read a file of this module's.

    Raises
    ------
    OSError
        It cannot be read.
    ForeignError
        It holds something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
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


def read_profile(path: Path) -> tuple[dict[str, str], RatesTable, dict[int, Streaming]]:
    """Read key, rates and streaming bandwidths; raises as `read_json`."""
    found = read_json(path)
    try:
        rates = {
            (str(x.pop("backend")), str(x.pop("dtype")), int(x.pop("threads"))): _rates(x)
            for x in map(dict, found["rates"])
        }
        streaming = {int(x["threads"]): _streaming(x) for x in map(dict, found["streaming"])}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
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


def _positive(value: Any) -> float:
    return _checked(value, lambda x: x > 0)


def _not_negative(value: Any) -> float:
    return _checked(value, lambda x: x >= 0)


def _checked(value: Any, fits: Callable[[float], bool]) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    if not isfinite(value) or not fits(value):
        raise ValueError(f"{value!r} is out of range")
    return float(value)


def _rates(found: dict[str, Any]) -> Rates:
    if found.keys() != {x.name for x in fields(Rates)}:
        raise ValueError("rates lack a field, or have one too many")
    values: dict[str, Any] = {}
    for name, value in found.items():
        if name in ("multiply", "add", "bandwidth"):
            values[name] = _positive(value)
        elif name in ("combine", "pack"):
            values[name] = tuple(map(_positive, value))
            if len(value) not in (0, 4 if name == "combine" else 2):
                raise ValueError(f"{name} has {len(value)} numbers")
        elif name == "tile":
            mr, nr = value
            values[name] = int(_positive(mr)), int(_positive(nr))
        elif name == "surface":
            sigma_a, sigma_b, sigma_c = map(_not_negative, value)
            values[name] = sigma_a, sigma_b, sigma_c
        else:
            values[name] = _not_negative(value)
    if values["overlap"] > 1:
        raise ValueError("overlap is more than 1")
    values["slice"] = int(values["slice"])
    return Rates(**values)


def _streaming(found: dict[str, Any]) -> Streaming:
    read, copy = (
        {str(level): _positive(x) for level, x in dict(found[name]).items()}
        for name in ("read", "copy")
    )
    return Streaming(int(found["threads"]), read, copy, _not_negative(found["region"]))
