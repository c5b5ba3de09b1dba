"""The machine and the versions for a bug report, without paths, host and user names."""

from __future__ import annotations

import getpass
import platform
import re
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from falcon._backends import available_backends
from falcon._core.dtypes import FLOAT32, FLOAT64
from falcon._core.options import settings
from falcon._core.problem import Problem
from falcon._cpu.extension import missing
from falcon._front.info import show_config
from falcon.decision.rates import rates

# Absolute paths of POSIX and of Windows; neither "1/16" nor "x/y".
_PATH = re.compile(r"(?<![\w./])(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\:;,'\"()<>|]+)+[/\\]?")
_LEAST_NAME = 3  # shorter names would be parts of other words


def machine() -> dict[str, Any]:
    """Return what `show_config` tells, the caches, and the rates by which plans are made."""
    every = available_backends()
    found: dict[str, Any] = {}
    for row in (FLOAT32, FLOAT64):
        problem = Problem.of((2048,) * 3, row, settings())
        found |= {f"{x.name} {row.name}": asdict(rates(x, problem, every)) for x in every}
    about = show_config("dict") or {}
    for name, value in about["environment"].items():  # of paths, all of it: a space may be in it
        about["environment"][name] = "<path>" if "/" in value or "\\" in value else value
    return {**about, "missing": missing(), "rates in numbers": found}


def anonymous(x: Any) -> Any:
    """Return a document whose texts hold no path, and not the name of the host or the user."""
    if isinstance(x, dict):
        return {key: anonymous(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [anonymous(value) for value in x]
    if not isinstance(x, str):
        return x
    for folder in _folders():  # a space may be in them
        x = x.replace(folder, "/path")
    x = _PATH.sub("<path>", x)
    for name in _names():
        x = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "<name>", x)
    return x


def _folders() -> list[str]:
    """Return the folders of the user, of Python and of falcon, longest first."""
    found = {sys.prefix, str(Path(__file__).parents[3])}
    with suppress(OSError, RuntimeError):
        found |= {str(Path.home()), str(Path.cwd())}
    return sorted((x for x in found if len(x) > 1), key=len, reverse=True)


def _names() -> list[str]:
    """Return the names of the host and of the user."""
    found = [platform.node(), platform.node().split(".")[0]]
    with suppress(OSError, KeyError, ImportError):
        found.append(getpass.getuser())
    return [x for x in found if len(x) >= _LEAST_NAME]
