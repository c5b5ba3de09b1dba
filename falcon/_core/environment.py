"""Environment variables: how one is read, and those that set no option."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from falcon._tools.checks import parse_bool

# A table of the documentation.
OTHER_VARIABLES = {
    "FALCON_ACCELERATE": "Set by `python -m falcon run` for the processes that the program starts.",
    "FALCON_BUILD": "When falcon is built: require or skip the compiled kernels.",
    "FALCON_CACHE_DIR": "The folder of cached files; else falcon-gemm in the user's cache folder.",
    "FALCON_ISA": "The instruction set of falcon's own kernels, such as avx2; read once.",
    "FALCON_OVERSUBSCRIBE": "Set to 1, allows more threads than CPUs, for tests; read once.",
    "FALCON_PROFILE": "The file of the machine profile, used whatever machine it was made on.",
    "FALCON_SETTINGS": "Set beside FALCON_ACCELERATE: what `falcon.set_config` has changed.",
    "FALCON_THREADING": "Set to openmp: OpenMP's threads instead of falcon's own; read once.",
}


@cache
def forced_isa() -> str | None:
    """Return the instruction set that FALCON_ISA forces on falcon's own kernels; read once."""
    return os.environ.get("FALCON_ISA") or None


def forced_threading() -> str | None:
    """Return the threads that FALCON_THREADING selects, "own" or "openmp"; read once."""
    return os.environ.get("FALCON_THREADING") or None


def cache_folder() -> Path | None:
    """Folder for compiled programs and profiles: FALCON_CACHE_DIR, else the user's cache folder.

    Returns None if there is no home folder. The folder may not exist yet, or not be writable.
    """
    if path := os.environ.get("FALCON_CACHE_DIR"):
        return Path(path)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "falcon-gemm"
    except RuntimeError:  # no home
        return None


def profile_file() -> Path | None:
    """Return the file of FALCON_PROFILE: a machine profile that is used whatever its key."""
    path = os.environ.get("FALCON_PROFILE")
    return Path(path) if path else None


def read(variable: str, parse: Callable[[str], Any]) -> Any:
    """Parse a variable, empty if it is missing; an error names it."""
    text = os.environ.get(variable, "")
    try:
        return parse(text)
    except (ValueError, TypeError) as error:
        raise ValueError(f"environment variable {variable}={text!r}: {error}") from None


@cache
def openmp_threads() -> int:
    """Read OMP_NUM_THREADS, once, as OpenMP does; 0 if it is not set."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and len(first) < 20 else 0


@cache
def oversubscribes() -> bool:
    """Whether FALCON_OVERSUBSCRIBE allows more threads than CPUs, for tests; read once."""
    return bool(read("FALCON_OVERSUBSCRIBE", parse_bool))
