"""What calls have taught: one store of choices and of speeds, kept on disk for later processes.

::

    {"format": 9, "key": {...the machine's, "code": ...}, "crc32": ...,
     "speeds": {dtype: [number of processes, {backend: how much slower}]},
     "choices": {digest: {"problem":, "choice": [...], "known":, "why":, "rates":, "rivals": [...],
                          "pairs": [...], "contests": n}, ...}}

A process reads it once and keeps to what it has read, so that its plans, and the bits of its
results, stay the same; what it learns (`contest.py`, `falcon.tune`) serves the processes that
follow. A change is merged into the file as it then is. A file belongs to one machine, as a profile
does, and to one state of falcon's own code.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from atexit import register, unregister
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from zlib import crc32

from falcon._core.backend import Backend
from falcon._core.cpus import memory_bytes
from falcon._core.locks import ForkLock
from falcon._core.options import Options, cache_folder, deciding
from falcon._core.problem import Problem
from falcon.schemes import Scheme, get
from falcon.schemes.algebra import symmetry
from falcon.schemes.catalogue import generation

from . import machine
from .store import ForeignError, exclusive, file_name, read_json, write_json

_log = logging.getLogger("falcon")

# Most choices that are kept.
_MOST = 512
# A rival wins a comparison if it takes this share of the choice's time or less. After _WINS it is
# the choice; at once, if it takes no more than _CLEARLY of the fastest of the choice's own calls:
# a disturbance makes no call faster. After _LOSSES the next rival is tried.
_WIN, _CLEARLY = 0.98, 0.9
_WINS, _LOSSES = 3, 2
# Comparisons of a problem, in all.
MOST_CONTESTS = 6
# Folders whose files a choice depends on.
_DECIDING = ("decision", "_core", "_cpu", "_numpy", "codegen", "schemes", "schemes/data")


class Choice(NamedTuple):
    """A backend and an image of a stored scheme, nested in `outer` if that is not None.

    `scheme` None is the classical algorithm. `roomy` is `Option.is_roomy`; `cut` stands for a
    symmetric product that is cut into parts (`Plan.parts`), which are planned again. `product` is
    `Option.product`.
    """

    backend: str
    scheme: str | None = None
    image: int = 0
    outer: str | None = None
    roomy: bool = False
    cut: bool = False
    product: str = ""

    @property
    def label(self) -> str:
        """Scheme and backend, for people."""
        name = "cut in halves" if self.cut else self.scheme or "classical"
        name = name if self.outer is None else f"{self.outer}@{name}"
        return f"{f'{self.product} {name}' if self.product else name} on {self.backend}"

    def make(self) -> Scheme | None:
        """Return the scheme."""
        if self.scheme is None:
            return None
        inner = symmetry(get(self.scheme), self.image)
        return inner if self.outer is None else get(self.outer) @ inner


@dataclass(frozen=True)
class Entry:
    """The choice for a problem, and how it is known."""

    problem: str
    choice: Choice
    known: str  # "predicted", "contested" or "tuned"
    why: str
    rates: str = ""  # digest of the rates of a prediction, which holds for these only
    rivals: tuple[Choice, ...] = ()  # the next by the model
    # Rivals and their measured times over that of the choice.
    pairs: tuple[tuple[Choice, float], ...] = ()
    # How often the choice was compared with a rival, also before it became the choice.
    contests: int = 0

    def rival(self) -> Choice | None:
        """Return the rival to compare next; None if all is settled."""
        if self.known == "tuned" or self.contests >= MOST_CONTESTS:
            return None
        for rival in self.rivals:
            if sum(ratio > _WIN for x, ratio in self.pairs if x == rival) < _LOSSES:
                return rival
        return None

    def compared(self, rival: Choice, ratio: float, over_fastest: float) -> Entry:
        """Return the entry after a comparison.

        `ratio`: its time over that of the choice in the same pair of calls.
        `over_fastest`: its time over that of the fastest call of the choice in this process.
        """
        made = replace(self, pairs=(*self.pairs, (rival, ratio)), contests=self.contests + 1)
        won = [x for other, x in made.pairs if other == rival and x <= _WIN]
        changes = len(won) >= _WINS or over_fastest <= _CLEARLY
        if changes:
            rest = tuple(x for x in self.rivals if x != rival)
            turned = tuple((self.choice, 1 / x) for other, x in made.pairs if other == rival)
            made = replace(made, choice=rival, rivals=rest, pairs=turned)
        if changes or made.rival() is None:
            made = replace(made, known="contested", why=_story(made))
        return made


def _story(entry: Entry) -> str:
    """Return what a choice has beaten, by how much."""
    beaten = []
    for rival in dict.fromkeys(x for x, _ in entry.pairs):
        ratios = [ratio for x, ratio in entry.pairs if x == rival]
        beaten.append(f"{median(ratios):.3f} x as fast as {rival.label} ({len(ratios)} pairs)")
    return "measured in calls: " + "; ".join(beaten)


@dataclass
class Learned:
    """What the file holds, or what this process decides by."""

    speeds: dict[str, tuple[int, dict[str, float]]] = field(default_factory=dict)
    choices: dict[str, Entry] = field(default_factory=dict)

    def add_speeds(self, dtype: str, slower: dict[str, float]) -> None:
        """Add what a process's probe found: the fastest counts."""
        count, known = self.speeds.get(dtype, (0, {}))
        least = {x: min(y, known.get(x, y)) for x, y in slower.items()}
        self.speeds[dtype] = count + 1, {**known, **least}

    def keep(self, key: str, entry: Entry) -> None:
        """Add or replace a choice; beyond the largest number, the oldest predictions go first."""
        self.choices.pop(key, None)
        self.choices[key] = entry
        if len(self.choices) > _MOST:
            order = sorted(self.choices, key=lambda x: self.choices[x].known != "predicted")
            del self.choices[order[0]]


_lock = ForkLock()
_known: Learned | None = None
# Changes that wait until no other process holds the file: for the next one, or the process's end.
_EXIT_WAIT = 1.0
_pending: deque[Callable[[Learned], None]] = deque()


def known(backends: Sequence[Backend]) -> Learned:
    """Return what this process decides by: the file as it was when first read."""
    global _known
    if _known is None:
        found = _read(_path(backends))
        with _lock.lock:
            _known = found if _known is None else _known
    return _known


def change(
    update: Callable[[Learned], None],
    backends: Sequence[Backend],
    *,
    in_this_process: bool = False,
    soon: bool = True,
) -> None:
    """Change what is stored, as other processes have left it.

    `in_this_process` also changes the choices that this process goes by.
    Not `soon`: with the next change, or when the process ends (writing takes some milliseconds).
    """
    if in_this_process:
        update(known(backends))
    path = _path(backends)
    if path is not None:
        if not _pending:
            register(_flush, path, backends, _EXIT_WAIT)
        _pending.append(update)
        if soon:
            _flush(path, backends)


def _flush(path: Path, backends: Sequence[Backend], wait: float = 0.05) -> None:
    """Apply the changes that are pending, unless another process holds the file: later, then."""
    try:
        with exclusive(path, wait) as is_free:
            if is_free and _pending:
                found = _read(path)
                while _pending:
                    _pending.popleft()(found)
                _write(path, found, backends)
    except OSError as error:
        _pending.clear()
        _log.info("falcon: what calls teach is not stored: %s", error)
    if not _pending:
        unregister(_flush)


def has_file(backends: Sequence[Backend]) -> bool:
    """Whether there is a file: a folder for it, and no pinned profile."""
    return _path(backends) is not None


def is_storable(problem: Problem, options: Options) -> bool:
    """Whether other processes can use the choice: on the host, and of no registered schemes."""
    return problem.device is None and options.scheme == "auto" and not generation()


def digest(problem: Problem, options: Options) -> str:
    """Return the key of a choice."""
    about = repr((problem, deciding(options), memory_bytes()))
    return hashlib.sha256(about.encode()).hexdigest()[:24]


def rates_digest(known: Sequence[tuple[Backend, Any]]) -> str:
    """Return what a prediction depends on besides its key."""
    about = repr([(x.name, rates) for x, rates in known])
    return hashlib.sha256(about.encode()).hexdigest()[:16]


def _path(backends: Sequence[Backend]) -> Path | None:
    folder = cache_folder()
    if folder is None or machine.profile(backends).pinned:
        return None
    return folder / file_name("learned", _key(backends))


def _key(backends: Sequence[Backend]) -> dict[str, str]:
    return {**machine.profile(backends).key, "code": _code()}


@cache
def _code() -> str:
    """Return a text that changes whenever one of the files that choices depend on does."""
    root, found = Path(__file__).parent.parent, []
    for folder in _DECIDING:
        with os.scandir(root / folder) as entries:
            for x in entries:
                if x.name.endswith((".py", ".so", ".pyd", ".csv", ".json")):
                    about = x.stat()
                    found.append((folder, x.name, about.st_size, about.st_mtime_ns))
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()[:12]


def _read(path: Path | None) -> Learned:
    try:
        return Learned() if path is None else _restored(read_json(path))
    except FileNotFoundError:
        return Learned()
    except (OSError, ForeignError, KeyError) as error:
        _log.info("falcon: what calls taught, in %s, is ignored: %s", path, error)
        return Learned()


def _write(path: Path, found: Learned, backends: Sequence[Backend]) -> None:
    content = asdict(found)
    write_json(path, {"key": _key(backends), "crc32": _crc32(content), **content})


def _crc32(content: dict[str, Any]) -> int:
    """Return the checksum of what is stored: a file that was changed by hand is ignored."""
    return crc32(json.dumps(content, sort_keys=True).encode())


def _restored(found: dict[str, Any]) -> Learned:
    """Return what a file holds; raises KeyError or ForeignError."""
    content = {x.name: found[x.name] for x in fields(Learned)}
    if found["crc32"] != _crc32(content):
        raise ForeignError("its checksum is wrong")
    return Learned(
        {dtype: (count, slower) for dtype, (count, slower) in content["speeds"].items()},
        {key: _entry(x) for key, x in content["choices"].items()},
    )


def _entry(found: dict[str, Any]) -> Entry:
    rivals = tuple(Choice(*x) for x in found["rivals"])
    pairs = tuple((Choice(*x), ratio) for x, ratio in found["pairs"])
    return Entry(**{**found, "choice": Choice(*found["choice"]), "rivals": rivals, "pairs": pairs})
