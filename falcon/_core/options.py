"""Options: one frozen value from the front door to the end; the environment is read here only.

To add an option: a field of `Options` (its default, environment variable, check and the line that
documents it), and the place that acts on it. `falcon.config`, and with ``keyword=True`` the public
functions, then know it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from falcon.schemes import Scheme

from .checks import (
    check_backend,
    check_check,
    check_count,
    check_max_growth,
    check_scheme,
    parse_bool,
    parse_bytes,
)
from .cpus import usable_cpus

# RMS growth of the error that "auto" may spend: three bits.
DEFAULT_MAX_GROWTH = 8.0


def _about(
    variable: str,
    parse: Callable[[str], Any],
    text: str,
    *,
    check: Callable[[Any], None] = lambda value: None,
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
    scheme: str | Scheme = field(
        default="auto",
        metadata=_about(
            "FALCON_SCHEME",
            str,
            """str or Scheme
        "auto" chooses by predicted time, and scales operands whose rows (columns of `b`) are of
        very different scale by powers of two; "classical" uses no LCMA; a name such as
        "strassen", "3x4x4:38" or "strassen@winograd", or a `falcon.schemes.Scheme`, is used as
        asked, whatever the scales.""",
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
        Threads for falcon's own code; None: OMP_NUM_THREADS, then the CPUs that this process may
        use. NumPy's BLAS keeps its own setting.""",
            check=check_count("threads", 1),
            keyword=True,
        ),
    )
    workspace_limit: int | None = field(
        default=None,
        metadata=_about(
            "FALCON_WORKSPACE_LIMIT",
            parse_bytes,
            """int
        Bytes that the call may allocate beyond its result. None: falcon's own kernels take at most
        what is kept between calls (`release_workspace`), NumPy's what they need. More than that
        lets falcon's kernels make fewer passes; they take and keep at most a quarter of the memory
        then.""",
            check=check_count("workspace_limit", 0),
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
        ),
    )
    tuned: bool = field(
        default=False,
        metadata=_about(
            "FALCON_TUNED",
            parse_bool,
            """bool
        Use what `falcon.tune` has measured for a shape instead of the prediction.""",
        ),
    )
    tf32: bool = field(
        default=False,
        metadata=_about(
            "FALCON_TF32",
            parse_bool,
            """bool
        On a GPU, round float32 operands of products to TF32 (10 bits of mantissa).""",
        ),
    )


class CallOptions(TypedDict, total=False):
    """The options that the public functions take as keywords, for type checkers."""

    backend: str
    scheme: str | Scheme
    max_growth: float | None
    threads: int | None
    workspace_limit: int | None
    check: str | None


_FIELDS = {x.name: x for x in fields(Options)}
KEYWORDS = tuple(name for name, x in _FIELDS.items() if x.metadata["keyword"])
# Of functions that multiply nothing.
PLANNING = tuple(name for name in KEYWORDS if name != "check")

Function = TypeVar("Function", bound=Callable[..., Any])


def takes_options(*names: str, unchanged: Any = None) -> Callable[[Function], Function]:
    """Give a function that takes ``**options`` the signature and the documentation of options.

    Parameters
    ----------
    names : str
        The options that it takes. Their documentation replaces the line ``{options}`` of the
        docstring.
    unchanged : object
        What the signature shows where leaving a keyword out means that nothing is changed. None:
        "auto" and None, which leave the choice to the settings.
    """

    def parameter(name: str) -> inspect.Parameter:
        if unchanged is not None:
            default, kind = unchanged, _FIELDS[name].type
        else:
            default = "auto" if _FIELDS[name].default == "auto" else None
            kind = CallOptions.__annotations__[name].__forward_arg__
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
        )

    def decorate(function: Function) -> Function:
        known = inspect.signature(function)
        given = [x for x in known.parameters.values() if x.kind is not x.VAR_KEYWORD]
        added = map(parameter, names)
        function.__signature__ = known.replace(parameters=[*given, *added])  # type: ignore[attr-defined]
        if function.__doc__ is not None:  # python -OO leaves none
            function.__doc__ = function.__doc__.replace("    {options}\n", _documented(names))
        return function

    return decorate


def _documented(names: tuple[str, ...]) -> str:
    return "".join(f"    {name} : {_FIELDS[name].metadata['text']}\n" for name in names)


def merged(function: str, names: tuple[str, ...], keywords: Mapping[str, Any]) -> Options:
    """Return the settings in force, with the keywords of a call; "auto" and None defer to these.

    Raises
    ------
    TypeError
        `function` takes no such keyword, or its value has the wrong type.
    ValueError
        A value is out of range.
    """
    base = settings()
    if not keywords:
        return base
    unknown = keywords.keys() - set(names)
    if unknown:
        raise TypeError(
            f"{function}() got an unexpected keyword argument {min(unknown)!r}; its options are "
            f"{', '.join(names)}"
        )
    given = {
        name: value
        for name, value in keywords.items()
        if value is not None and not (type(value) is str and value == "auto")
    }
    validate(given)
    return replace(base, **given) if given else base


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
    for name, option in _FIELDS.items():
        variable, parse = option.metadata["variable"], option.metadata["parse"]
        text = os.environ.get(variable)
        if text is None:
            continue
        try:
            values[name] = parse(text)
            validate({name: values[name]})
        except (ValueError, TypeError) as error:
            raise ValueError(f"environment variable {variable}={text!r}: {error}") from None
    found = Options(**values)
    return _DEFAULTS if found == _DEFAULTS else found


@takes_options(*_FIELDS, unchanged=...)
@contextmanager
def config(**changes: Any) -> Iterator[Options]:
    """Change falcon's defaults inside a ``with`` block, for this thread or task only.

    Parameters
    ----------
    {options}

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
    for name in changes:
        if name not in _FIELDS:
            known = ", ".join(sorted(_FIELDS))
            raise TypeError(f"config() has no setting {name!r}; known: {known}")
    validate(changes)
    token = _active.set(replace(settings(), **changes))
    try:
        yield settings()
    finally:
        _active.reset(token)


def validate(values: Mapping[str, Any]) -> None:
    """Raise ValueError or TypeError for a value that its option cannot have."""
    for name, value in values.items():
        _FIELDS[name].metadata["check"](value)


def thread_count(requested: int | None = None) -> int:
    """Threads that a call may use: argument, settings, OMP_NUM_THREADS, then the CPUs at hand."""
    if requested is None:
        requested = settings().threads
    return int(requested) if requested is not None else default_threads()


def default_threads() -> int:
    """Threads where nobody has said how many: OMP_NUM_THREADS, then the CPUs at hand."""
    return _openmp_threads() or usable_cpus()


@cache
def _openmp_threads() -> int:
    """Read OMP_NUM_THREADS, once, as OpenMP does; 0 where it is not set."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdigit() else 0


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
