"""Options: one context-local value; the FALCON_* environment variables are read here only.

To add a setting: a field of `Options`, a line in `_VARIABLES`, a keyword of `config`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from .cpus import usable_cpus

# RMS growth of the error that "auto" may spend: three bits.
DEFAULT_MAX_GROWTH = 8.0

CHECKS = ("none", "finite", "verify")


@dataclass(frozen=True, slots=True)
class Options:
    """Every keyword and setting of a call, or the defaults for them; see `falcon.config`.

    Attributes
    ----------
    scheme : str or Scheme
        As the front passes it on: "auto", "classical" or a Scheme; of settings also a name.
    """

    backend: str = "auto"
    scheme: Any = "auto"
    max_growth: float = DEFAULT_MAX_GROWTH
    threads: int | None = None
    workspace_limit: int | None = None
    check: str = "finite"
    verbose: bool = False
    tuned: bool = False
    tf32: bool = False


def parse_bytes(text: str) -> int:
    """Parse a size such as ``268435456``, ``256MiB`` or ``1.5G`` (powers of 1024)."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\s*", text, re.IGNORECASE)
    if not match:
        raise ValueError("expected a number of bytes such as 268435456 or 256MiB")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def _parse_bool(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("", "0", "false", "no", "off"):
        return False
    raise ValueError("expected 0 or 1")


_VARIABLES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "backend": ("FALCON_BACKEND", str),
    "scheme": ("FALCON_SCHEME", str),
    "max_growth": ("FALCON_MAX_GROWTH", float),
    "threads": ("FALCON_NUM_THREADS", int),
    "workspace_limit": ("FALCON_WORKSPACE_LIMIT", parse_bytes),
    "check": ("FALCON_CHECK", str),
    "verbose": ("FALCON_VERBOSE", _parse_bool),
    "tuned": ("FALCON_TUNED", _parse_bool),
    "tf32": ("FALCON_TF32", _parse_bool),
}

_DEFAULTS = Options()
_active: ContextVar[Options | None] = ContextVar("falcon_settings", default=None)
_base: Options | None = None


def settings() -> Options:
    """Return the settings in force here; the environment is read once, at first need."""
    active = _active.get()
    if active is not None:
        return active
    global _base
    if _base is None:
        _base = _from_environment()
    return _base


def are_default() -> bool:
    """Whether nothing was set, neither by `config` nor in the environment (a fast test)."""
    return _active.get() is None and settings() is _DEFAULTS


def _from_environment() -> Options:
    values = {}
    for name, (variable, parse) in _VARIABLES.items():
        text = os.environ.get(variable)
        if text is None:
            continue
        try:
            values[name] = parse(text)
            validate(**{name: values[name]})
        except (ValueError, TypeError) as error:
            raise ValueError(f"environment variable {variable}={text!r}: {error}") from None
    found = Options(**values)
    return _DEFAULTS if found == _DEFAULTS else found


@contextmanager
def config(**changes: Any) -> Iterator[Options]:
    """Change falcon's defaults inside a ``with`` block, for this thread or task only.

    Parameters
    ----------
    backend : str
        "auto" or the name of a backend.
    scheme : str or Scheme
        "auto", "classical", the name of a scheme, or a `falcon.schemes.Scheme`.
    max_growth : float
        Largest RMS error growth, relative to classical multiplication, that "auto" may spend.
        1.0 forbids every LCMA; the default 8.0 is three bits.
    threads : int or None
        None: FALCON_NUM_THREADS, then OMP_NUM_THREADS, then the CPUs this process may use.
    workspace_limit : int or None
        Bytes that one call may allocate beyond its result. None: falcon's own kernels take at
        most what is kept between calls (`falcon.release_workspace`), NumPy's what they need.
    check : {"finite", "verify", "none"}
        See `falcon.gemm`.
    verbose : bool
        Log every fresh plan, with the table of its candidates, to the logger "falcon"; to standard
        error where the program has set up no logging.
    tuned : bool
        Use what `falcon.tune` has measured for a shape instead of the prediction.
    tf32 : bool
        On a GPU, round float32 operands of products to TF32 (10 bits of mantissa).

    Yields
    ------
    Options
        The settings in force inside the block.

    Raises
    ------
    TypeError
        There is no such setting.
    ValueError
        A value is out of range.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> a = np.ones((64, 64))
    >>> with falcon.config(scheme="strassen", workspace_limit=2**20):
    ...     c = falcon.gemm(a, a)
    """
    known = {field.name for field in fields(Options)}
    for name in changes:
        if name not in known:
            raise TypeError(f"config() has no setting {name!r}; known: {', '.join(sorted(known))}")
    validate(**changes)
    token = _active.set(replace(settings(), **changes))
    try:
        yield settings()
    finally:
        _active.reset(token)


def validate(
    *,
    backend: Any = "auto",
    scheme: Any = "auto",
    max_growth: Any = DEFAULT_MAX_GROWTH,
    threads: Any = None,
    workspace_limit: Any = None,
    check: Any = "finite",
    verbose: Any = False,
    tuned: Any = False,
    tf32: Any = False,
) -> None:
    """Raise ValueError or TypeError for a setting that is out of range."""
    if not isinstance(backend, str):
        raise TypeError(f"backend is {backend!r}; expected a str")
    # A Scheme is known by its U: looking names up is the front's.
    if not isinstance(scheme, str) and not hasattr(scheme, "U"):
        raise TypeError(f"scheme is a {type(scheme).__name__}; expected a name or a Scheme")
    if isinstance(max_growth, bool) or not isinstance(max_growth, int | float):
        raise TypeError(f"max_growth is {max_growth!r}; expected a number")
    if not max_growth >= 1.0:
        raise ValueError(f"max_growth is {max_growth!r}; expected a number >= 1.0")
    _validate_count("threads", threads, 1)
    _validate_count("workspace_limit", workspace_limit, 0)
    if check not in CHECKS:
        raise ValueError(f"check is {check!r}; expected one of {', '.join(map(repr, CHECKS))}")


def _validate_count(name: str, value: Any, least: int) -> None:
    if value is None:
        return
    try:
        if isinstance(value, bool):
            raise TypeError
        count = value.__index__()
    except (AttributeError, TypeError):
        raise TypeError(f"{name} is {value!r}; expected an integer or None") from None
    if count < least:
        raise ValueError(f"{name} is {value!r}; expected an integer >= {least}")


def thread_count(requested: int | None = None) -> int:
    """Threads that a call may use: argument, settings, OMP_NUM_THREADS, then the CPUs at hand."""
    if requested is None:
        requested = settings().threads
    return int(requested) if requested is not None else _openmp_threads() or usable_cpus()


@cache
def _openmp_threads() -> int:
    """Read OMP_NUM_THREADS, once, as OpenMP does; 0 where it is not set."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdigit() else 0


@cache
def forced_isa() -> str | None:
    """Return the instruction set that FALCON_ISA forces on falcon's own kernels; read once."""
    return os.environ.get("FALCON_ISA") or None


def cache_folder() -> Path | None:
    """Folder for compiled programs and profiles: FALCON_CACHE_DIR, else the user's cache folder.

    Returns None where there is no home; the folder need not exist yet, nor be writable.
    """
    asked = os.environ.get("FALCON_CACHE_DIR") or None
    if asked is not None:
        return Path(asked)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "falcon-gemm"
    except RuntimeError:  # no home
        return None


def profile_file() -> Path | None:
    """Return the machine profile that FALCON_PROFILE names: it is used whatever its key."""
    asked = os.environ.get("FALCON_PROFILE") or None
    return Path(asked) if asked is not None else None
