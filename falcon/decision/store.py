"""Profiles, and their JSON files: checked when they are read, written atomically.

::

    {"format": 12, "key": {"falcon": ..., "cpu": ..., "cpu.isa": ..., "numpy.blas": ...},
     "rates": [{"backend":, "dtype":, "threads":, "multiply":, ...}, ...],
     "choices": {digest: {"problem":, "choice": [...], "why":}, ...}}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from falcon._core.rates import Rates
from falcon._tools.files import read_file, write_json
from falcon.schemes import Scheme, get
from falcon.schemes.algebra import symmetry

FORMAT = 12  # of the file and of how rates are measured; files of other formats are refused

# What reading a damaged entry may raise.
_DAMAGE = (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError)

# By backend, name of the dtype, threads.
RatesTable = dict[tuple[str, str, int], Any]


class ForeignError(ValueError):
    """The file is no profile, is damaged, or was made by another version."""


class Choice(NamedTuple):
    """A backend and an image of a stored scheme, nested in `outer` if that is not None.

    `scheme` None is the classical algorithm. `large_workspace` and `product` are as in `Method`,
    `arithmetic` is the name of `Method.arithmetic`.
    """

    backend: str
    scheme: str | None = None
    image: int = 0
    outer: str | None = None
    large_workspace: bool = False
    product: str = ""
    arithmetic: str = ""

    @property
    def label(self) -> str:
        """Arithmetic, scheme and backend, for people."""
        name = self.scheme or "classical"
        name = name if self.outer is None else f"{self.outer}@{name}"
        words = self.arithmetic, self.product, name, "on", self.backend
        return " ".join(x for x in words if x)

    def make(self) -> Scheme | None:
        """Return the scheme."""
        if self.scheme is None:
            return None
        inner = symmetry(get(self.scheme), self.image)
        return inner if self.outer is None else get(self.outer) @ inner


@dataclass(frozen=True)
class Fastest:
    """What `falcon.tune` found for a problem: its name, the fastest choice, and what it beat."""

    problem: str
    choice: Choice
    why: str


@dataclass(frozen=True)
class MachineProfile:
    """What was measured on this machine, or on a GPU; shipped rates stand in for those it lacks.

    Attributes
    ----------
    rates : dict of (backend, dtype name, threads) to the backend's rates
    choices : dict of str to Fastest
        The fastest way to multiply a problem, by a digest of the problem.
    key : dict of str to str
        The hardware and software that the measurements are valid for.
    path : Path or None
        The file that it is read from and written to; None if only this process has it.
    pinned : bool
        FALCON_PROFILE names the file: it is used as it is, and only `tune` writes to it.

    Examples
    --------
    >>> import falcon
    >>> found = falcon.machine()
    >>> isinstance(found, falcon.MachineProfile)
    True
    """

    rates: RatesTable = field(default_factory=dict)
    choices: dict[str, Fastest] = field(default_factory=dict)
    key: dict[str, str] = field(default_factory=dict)
    path: Path | None = None
    pinned: bool = False

    def __str__(self) -> str:
        lines = [f"{name:<14}{value}" for name, value in self.key.items()]
        if self.path is not None:
            lines.append(f"{'file':<14}{self.path}{' (FALCON_PROFILE)' if self.pinned else ''}")
        for (backend, dtype, threads), y in sorted(self.rates.items()):
            lines.append(f"{backend} {dtype} {threads} threads: {y}")
        if not self.rates:
            lines.append("nothing measured: shipped rates are used (python -m falcon tune)")
        lines += [f"{x.problem}: {x.choice.label}, {x.why}" for x in self.choices.values()]
        return "\n".join(lines)


def file_name(key: dict[str, str]) -> str:
    """Name of the file that holds what was measured under this key."""
    text = json.dumps(key, sort_keys=True)
    return f"profile-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"


def read(path: Path, kinds: Mapping[str, type]) -> MachineProfile:
    """Read a profile; raises OSError, or ForeignError if it is none, or damaged.

    `kinds`: the rates of each backend (`Backend.rates_type`); `Rates` of those that are not named.
    """
    found = _object(path)
    try:
        rates: RatesTable = {}
        for x in map(dict, found["rates"]):
            key = str(x.pop("backend")), str(x.pop("dtype")), int(x.pop("threads"))
            rates[key] = _rates(x, kinds.get(key[0], Rates))
        choices = {key: _tuned(x) for key, x in found["choices"].items()}
    except _DAMAGE as error:
        raise ForeignError(f"an entry is damaged ({error})") from None
    return MachineProfile(rates, choices, found["key"])


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        raise ForeignError(f"it is not JSON ({error})") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ForeignError(f"it does not say format {FORMAT}")
    key = found.get("key")
    if not isinstance(key, dict) or not all(isinstance(x, str) for x in key.values()):
        raise ForeignError("it has no key")
    return found


def _rates(found: dict[str, Any], kind: type) -> Any:
    """Build rates from a JSON object; their class refuses values out of range."""
    if found.keys() != {x.name for x in fields(kind)}:
        raise ValueError("rates lack a field, or have one too many")
    return kind(**{k: tuple(x) if isinstance(x, list) else x for k, x in found.items()})


def _tuned(found: dict[str, Any]) -> Fastest:
    choice = Choice(*found["choice"])
    kinds = (str, str | None, int, str | None, bool, str, str)
    if not all(isinstance(x, y) for x, y in zip(choice, kinds, strict=True)):
        raise TypeError(f"{choice} is no choice")
    return Fastest(str(found["problem"]), choice, str(found["why"]))


def write(path: Path, found: MachineProfile) -> None:
    """Replace a profile, as `write_json` does; raises OSError also if there can be no folder."""
    rows = [
        {"backend": backend, "dtype": dtype, "threads": threads, **asdict(x)}
        for (backend, dtype, threads), x in sorted(found.rates.items())
    ]
    choices = {digest: asdict(x) for digest, x in found.choices.items()}
    content = {"format": FORMAT, "key": found.key, "rates": rows, "choices": choices}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, content)
