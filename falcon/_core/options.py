"""Options: one frozen value from the front door to the end; the environment is read here only.

To add an option: a field of `Options` (its default, environment variable, check and the line that
documents it), its type in `keywords.py`, and the place that acts on it. `falcon.config`, and with
``keyword=True`` the public functions, then know it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from falcon.schemes import Scheme, SymmetricScheme

from .checks import (
    check_backend,
    check_check,
    check_max_growth,
    check_scheme,
    check_size,
    check_switch,
    check_threads,
    parse_bool,
)
from .text import did_you_mean
from .threads import within_limits

_log = logging.getLogger("falcon")

# What the environment may say beside options.
_OTHER_VARIABLES = {
    *("FALCON_BUILD", "FALCON_CACHE_DIR", "FALCON_ISA", "FALCON_OVERSUBSCRIBE", "FALCON_PROFILE"),
    "FALCON_THREADING",
}

# RMS growth of the error that "auto" may spend: three bits.
DEFAULT_MAX_GROWTH = 8.0


def _about(
    variable: str,
    parse: Callable[[str], Any],
    text: str,
    *,
    check: Callable[[Any], Any],
    keyword: bool = False,
) -> dict[str, Any]:
    """Describe an option: `text` documents it, its first line the type."""
    return {"variable": variable, "parse": parse, "text": text, "check": check, "keyword": keyword}


@dataclass(frozen=True, slots=True)
class Options:
    """What a call may be asked for: keywords, settings (`falcon.config`) and environment.

    In the options of a call `scheme` is "auto", "classical" or a Scheme.
    """

    backend: str = field(
        default="auto",
        metadata=_about(
            "FALCON_BACKEND",
            str,
            """str
        "auto" or the name of a backend ("cpu", "numpy", "gpu").""",
            check=check_backend,
            keyword=True,
        ),
    )
    scheme: str | Scheme | SymmetricScheme = field(
        default="auto",
        metadata=_about(
            "FALCON_SCHEME",
            str,
            """str or Scheme
        "auto" chooses by predicted time, and scales operands whose rows (columns of `b`) are of
        very different scale by powers of two; "classical" uses no LCMA; a name such as
        "strassen", "3x4x4:38" or "strassen@winograd", or a `falcon.schemes.Scheme`, is used as
        asked, whatever the scales. `falcon.gram` runs it off the diagonal, and takes a
        `falcon.schemes.SymmetricScheme`, or its name, for all of it.""",
            check=check_scheme,
            keyword=True,
        ),
    )
    max_growth: float = field(
        default=DEFAULT_MAX_GROWTH,
        metadata=_about(
            "FALCON_MAX_GROWTH",
            float,
            """float
        Largest predicted RMS error, relative to the classical algorithm, that "auto" may
        spend (default 8.0: three bits; 1.0 forbids every LCMA).""",
            check=check_max_growth,
            keyword=True,
        ),
    )
    threads: int | None = field(
        default=None,
        metadata=_about(
            "FALCON_NUM_THREADS",
            int,
            """int
        Threads of the call, falcon's own and those of NumPy's BLAS; None: OMP_NUM_THREADS, then the
        CPUs that this process may use. More than these are never used, nor more than a limit of
        `threadpoolctl` allows.""",
            check=check_threads,
            keyword=True,
        ),
    )
    workspace_limit: int | None = field(
        default=None,
        metadata=_about(
            "FALCON_WORKSPACE_LIMIT",
            str,
            """int or str
        Bytes that the call may allocate beyond its result, or a size such as "64MiB". None:
        falcon's own kernels take what is usually kept between calls (`release_workspace`), and up
        to 1/16 of the memory where that saves passes; NumPy's what they need. Given more, falcon's
        kernels take and keep at most a quarter of the memory.""",
            check=check_size,
            keyword=True,
        ),
    )
    check: str = field(
        default="finite",
        metadata=_about(
            "FALCON_CHECK",
            str,
            """{"finite", "verify", "none"}
        "finite": where an LCMA comes upon a non-finite value (in the input, or by overflow of a
        sum), the product is redone classically, so that a NaN or Inf spreads no further than it
        would there. "verify": also Freivalds' test of the result. "none": neither.""",
            check=check_check,
            keyword=True,
        ),
    )
    verbose: bool = field(
        default=False,
        metadata=_about(
            "FALCON_VERBOSE",
            parse_bool,
            """bool
        Log every fresh plan, with the table of its candidates, to the logger "falcon"; to standard
        error where the program has set up no logging.""",
            check=check_switch("verbose"),
        ),
    )
    tuned: bool = field(
        default=False,
        metadata=_about(
            "FALCON_TUNED",
            parse_bool,
            """bool
        Use what `falcon.tune` has measured for a shape instead of the prediction.""",
            check=check_switch("tuned"),
        ),
    )
    tf32: bool = field(
        default=False,
        metadata=_about(
            "FALCON_TF32",
            parse_bool,
            """bool
        On a GPU, round float32 operands of products to TF32 (10 bits of mantissa).""",
            check=check_switch("tf32"),
        ),
    )


FIELDS = {x.name: x for x in fields(Options)}
SETTINGS = tuple(FIELDS)
KEYWORDS = tuple(name for name, x in FIELDS.items() if x.metadata["keyword"])
# Of functions that multiply nothing.
PLANNING = tuple(name for name in KEYWORDS if name != "check")


def merged(function: str, names: tuple[str, ...], keywords: Mapping[str, Any]) -> Options:
    """Return the settings in force, with the keywords of a call; "auto" and None defer to these.

    Raises
    ------
    TypeError
        `function` takes no such keyword, or its value has the wrong type.
    ValueError
        A value is out of range.
    """
    here = settings()
    if not keywords:
        return here
    unknown = keywords.keys() - set(names)
    if unknown:
        raise TypeError(
            f"{function}() got an unexpected keyword argument {min(unknown)!r}"
            f"{did_you_mean(min(unknown), names)}; its options are {', '.join(names)}"
        )
    given = {
        name: value
        for name, value in keywords.items()
        if value is not None and not (type(value) is str and value == "auto")
    }
    return replace(here, **validated(given)) if given else here


_DEFAULTS = Options()
# What `falcon.config` has set, in a thread or task.
active: ContextVar[Options | None] = ContextVar("falcon_settings", default=None)
_base: Options | None = None


def settings() -> Options:
    """Return the settings in force here; the environment is read once, at first need."""
    inside = active.get()
    return inside if inside is not None else base()


def base() -> Options:
    """Return the settings of the process: what `set_config` set, else the environment's."""
    global _base
    if _base is None:
        _base = _from_environment()
    return _base


def are_default() -> bool:
    """Whether nothing was set, neither by a program nor in the environment (a fast test)."""
    return active.get() is None and settings() is _DEFAULTS


def _from_environment() -> Options:
    values: dict[str, Any] = {}
    _notice_misspelt()
    for name, option in FIELDS.items():
        variable, parse = option.metadata["variable"], option.metadata["parse"]
        text = os.environ.get(variable)
        if text is None:
            continue
        try:
            values |= validated({name: parse(text)})
        except (ValueError, TypeError) as error:
            raise ValueError(f"environment variable {variable}={text!r}: {error}") from None
    found = Options(**values)
    return _DEFAULTS if found == _DEFAULTS else found


def _notice_misspelt() -> None:
    """Log variables that look like a misspelt one; others may be another program's."""
    known = {x.metadata["variable"] for x in FIELDS.values()} | _OTHER_VARIABLES
    for name in os.environ:
        if name.startswith("FALCON_") and name not in known:
            hint = did_you_mean(name, known, "FALCON_")
            if hint:
                _log.warning("falcon: environment variable %s is ignored%s", name, hint)


def changed(function: str, changes: Mapping[str, Any], *, process: bool = False) -> Options:
    """Return the settings in force here (or in the process) with some changes.

    Raises as `merged` does, for `function`.
    """
    for name in changes:
        if name not in FIELDS:
            raise TypeError(
                f"{function}() has no setting {name!r}{did_you_mean(name, FIELDS)}; known: "
                f"{', '.join(sorted(FIELDS))}"
            )
    return replace(base() if process else settings(), **validated(changes))


def set_base(options: Options) -> None:
    """Make these the settings of the process, for threads that are in no ``with`` block."""
    global _base
    _base = _DEFAULTS if options == _DEFAULTS else options


def validated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as their options have them; raises ValueError or TypeError."""
    return {name: FIELDS[name].metadata["check"](value) for name, value in values.items()}


def thread_count(requested: int | None = None) -> int:
    """Threads that a call uses: argument, settings, OMP_NUM_THREADS, then the CPUs at hand.

    No more than there are CPUs, nor than a limit of threadpoolctl.
    """
    options = settings()
    return threads_of(options if requested is None else replace(options, threads=requested))


def threads_of(options: Options) -> int:
    """Threads that a call of these options uses: see `thread_count`."""
    return within_limits(options.threads, _openmp_threads(), oversubscribed=_oversubscribes())


@cache
def _openmp_threads() -> int:
    """Read OMP_NUM_THREADS, once, as OpenMP does; 0 where it is not set."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and len(first) < 20 else 0


@cache
def _oversubscribes() -> bool:
    """Whether FALCON_OVERSUBSCRIBE allows more threads than CPUs, for tests; read once."""
    return parse_bool(os.environ.get("FALCON_OVERSUBSCRIBE", ""))


@cache
def forced_isa() -> str | None:
    """Return the instruction set that FALCON_ISA forces on falcon's own kernels; read once."""
    return os.environ.get("FALCON_ISA") or None


@cache
def forced_threading() -> str | None:
    """Return whose threads FALCON_THREADING has work on calls, "own" or "openmp"; read once."""
    return os.environ.get("FALCON_THREADING") or None


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
