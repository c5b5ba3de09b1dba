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
from falcon._front.info import hardware, show_config
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
    return {**about, "hardware": hardware(), "missing": missing(), "rates in numbers": found}


def anonymous(document: Any) -> Any:
    """Return a document whose texts hold no path, and not the name of the host or the user."""
    words = _private()

    def told(x: Any) -> Any:
        if isinstance(x, dict):
            return {key: told(value) for key, value in x.items()}
        if isinstance(x, list | tuple):
            return [told(value) for value in x]
        return _without(x, words) if isinstance(x, str) else x

    return told(document)


def _without(text: str, words: dict[str, str]) -> str:
    for word in sorted(words, key=len, reverse=True):
        if len(word) >= _LEAST_NAME:
            text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", words[word], text)
    return _PATH.sub("<path>", text)


def _private() -> dict[str, str]:
    """Return names of host and user, and folders (a space may be in them): what is said instead."""
    host = platform.node()
    found = dict.fromkeys((host, host.split(".")[0]), "<name>")
    with suppress(OSError, KeyError, ImportError):
        found[getpass.getuser()] = "<name>"
    with suppress(OSError, RuntimeError):
        found |= dict.fromkeys((str(Path.home()), str(Path.cwd())), "/path")
    return found | dict.fromkeys((sys.prefix, str(Path(__file__).parents[3])), "/path")
