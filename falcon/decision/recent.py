"""Choices that took long to make, kept on disk for later processes.

To compare schemes, the first large product of a process would build each that may be the fastest,
with its programs: some 20 ms. A choice depends on the problem, the settings, the rates and falcon's
own code. It is stored under a digest of these four, and a later process builds only that scheme.
"""

from __future__ import annotations

import hashlib
import logging
import os
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from falcon._core.cpus import memory_bytes
from falcon._core.locks import ForkLock
from falcon._core.options import Options, cache_folder
from falcon._core.problem import Problem
from falcon._version import __version__
from falcon.schemes import Scheme, get
from falcon.schemes.algebra import symmetry
from falcon.schemes.catalogue import generation

from .store import DAMAGE, ForeignError, read_json, write_json

_log = logging.getLogger("falcon")

# Seconds from which a decision is worth storing, and how many are stored.
WORTH_KEEPING = 0.003
_MOST = 256
# Folders whose files a choice depends on: the digest covers them.
_DECIDING = ("decision", "_core", "_cpu", "_numpy", "schemes")


class Choice(NamedTuple):
    """A backend and an image of a stored scheme, nested in `outer` if that is not None.

    `scheme` None is the classical algorithm. `roomy` is `Option.is_roomy`.
    """

    backend: str
    scheme: str | None
    image: int
    outer: str | None
    roomy: bool
    why: str

    def make(self) -> Scheme | None:
        """Return the scheme."""
        if self.scheme is None:
            return None
        inner = symmetry(get(self.scheme), self.image)
        return inner if self.outer is None else get(self.outer) @ inner


_lock = ForkLock()
_known: dict[str, Choice] | None = None


def recall(problem: Problem, options: Options, rates: Any) -> Choice | None:
    """Return the choice that was stored, by this process or another.

    Parameters
    ----------
    rates
        The backends and their rates, compared by repr.
    """
    global _known
    if not _is_storable(problem):
        return None
    if _known is None:
        found = _read()
        with _lock.lock:
            _known = found if _known is None else _known
    return _known.get(_digest(problem, options, rates)) if _known else None


def remember(problem: Problem, options: Options, rates: Any, choice: Choice) -> None:
    """Keep a choice in this process and, if the cache folder can be written to, on disk."""
    global _known
    if not _is_storable(problem):
        return
    path = _path()
    with _lock.lock:
        known = {**_read(), _digest(problem, options, rates): choice}
        while len(known) > _MOST:
            del known[next(iter(known))]
        _known = known
    if path is not None:
        content = {"key": {"falcon": __version__}, "choices": {k: [*x] for k, x in known.items()}}
        try:
            write_json(path, content)
        except OSError as error:
            _log.info("falcon: choices are not stored, only this process has them: %s", error)


def _is_storable(problem: Problem) -> bool:
    """Whether other processes can use the choice: no registered schemes, the host, a folder."""
    return not generation() and problem.device is None and cache_folder() is not None


def _digest(problem: Problem, options: Options, rates: Any) -> str:
    about = repr((problem, options, rates, memory_bytes(), _code()))
    return hashlib.sha256(about.encode()).hexdigest()[:24]


def _path() -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder / "recent.json"


def _read() -> dict[str, Choice]:
    path = _path()
    try:
        found = {} if path is None else read_json(path)["choices"]
        return {str(key): _choice(*x) for key, x in dict(found).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ForeignError, *DAMAGE) as error:
        _log.info("falcon: choices in %s are ignored: %s", path, error)
        return {}


def _choice(backend: Any, scheme: Any, image: Any, outer: Any, roomy: Any, why: Any) -> Choice:
    texts = isinstance(backend, str) and isinstance(why, str)
    if not texts or not isinstance(scheme, str | None) or not isinstance(outer, str | None):
        raise TypeError("an entry is damaged")
    if type(image) is not int or not 0 <= image < 6 or type(roomy) is not bool:
        raise ValueError("an entry is damaged")
    return Choice(backend, scheme, image, outer, roomy, why)


@cache
def _code() -> int:
    """Return a number that changes whenever one of falcon's own files does."""
    root, found = Path(__file__).parent.parent, []
    for folder in _DECIDING:
        with os.scandir(root / folder) as entries:
            for x in entries:
                if x.name.endswith((".py", ".so", ".pyd", ".csv", ".json")):
                    about = x.stat()
                    found.append((folder, x.name, about.st_size, about.st_mtime_ns))
    return int(hashlib.sha256(repr(sorted(found)).encode()).hexdigest()[:12], 16)
