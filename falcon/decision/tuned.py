"""Choices that `falcon.tune` measured for a shape, kept on disk beside the profile.

They are used only where the setting `tuned` is on, and never with a profile that FALCON_PROFILE
pins: a pinned profile decides alone, so that results stay the same.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from falcon._core.backend import Backend
from falcon._core.locks import ForkLock
from falcon._core.options import cache_folder
from falcon._core.problem import Problem
from falcon._core.rates import not_negative
from falcon.schemes import Scheme, get

from . import machine
from .store import DAMAGE, ForeignError, file_name, read_json, write_json

_log = logging.getLogger("falcon")


@dataclass(frozen=True, slots=True)
class Choice:
    """What was fastest for a shape; `scheme` None is the classical algorithm."""

    backend: str
    scheme: str | None
    seconds: float


_lock = ForkLock()
_choices: dict[str, Choice] | None = None


def recall(problem: Problem, backends: Sequence[Backend]) -> tuple[str, Scheme | None] | None:
    """Return the backend and scheme that were fastest for the problem's shape, if it was tuned."""
    if machine.profile(backends).pinned:
        return None
    found = _known(backends).get(_name(problem))
    if found is None:
        return None
    try:
        return found.backend, None if found.scheme is None else get(found.scheme)
    except ValueError as error:  # registered in another process, or the file is damaged
        _say_once(str(error))
        return None


def remember(problem: Problem, choice: Choice, backends: Sequence[Backend]) -> None:
    """Keep a choice, in this process and, where there is a cache folder, on disk."""
    global _choices
    with _lock.lock:
        known = {**_read(backends), **(_choices or {}), _name(problem): choice}
        _choices = known
    path = _path(backends)
    if path is None:
        return
    entries = {
        name: {"backend": x.backend, "scheme": x.scheme, "seconds": x.seconds}
        for name, x in sorted(known.items())
    }
    try:
        write_json(path, {"key": machine.profile(backends).key, "choices": entries})
    except OSError as error:
        _log.info("falcon: tuned choices are not stored, only this process has them: %s", error)


def _name(problem: Problem) -> str:
    types = f"{problem.operand}-{problem.result}" if problem.is_wide else problem.operand.name
    return f"{problem.M},{problem.N},{problem.K},{types},{problem.threads}"


def _path(backends: Sequence[Backend]) -> Path | None:
    folder = cache_folder()
    if folder is None:
        return None
    return folder / file_name("choices", machine.profile(backends).key)


def _known(backends: Sequence[Backend]) -> dict[str, Choice]:
    global _choices
    if _choices is None:
        found = _read(backends)
        with _lock.lock:
            _choices = _choices if _choices is not None else found
    return _choices


def _read(backends: Sequence[Backend]) -> dict[str, Choice]:
    path = _path(backends)
    if path is None:
        return {}
    try:
        found = read_json(path)
        if found["key"] != machine.profile(backends).key:
            raise ForeignError("it is another machine's")
        return {str(name): _choice(x) for name, x in dict(found["choices"]).items()}
    except FileNotFoundError:
        return {}
    except (OSError, *DAMAGE) as error:
        _log.warning("falcon: tuned choices in %s are ignored: %s", path, error)
        return {}


def _choice(found: Any) -> Choice:
    backend, scheme = found["backend"], found["scheme"]
    if not isinstance(backend, str) or not isinstance(scheme, str | None):
        raise TypeError("an entry is damaged")
    not_negative("seconds", found["seconds"])
    return Choice(backend, scheme, float(found["seconds"]))


@cache
def _say_once(why: str) -> None:
    _log.warning("falcon: a tuned choice is ignored: %s", why)
