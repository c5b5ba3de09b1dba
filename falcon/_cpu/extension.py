"""The compiled extension: whether it is here, and which instruction set it uses."""

from __future__ import annotations

from functools import cache

from falcon._core.options import forced_isa, forced_threading

try:
    from . import _core
except ImportError as error:
    _core = None  # type: ignore[assignment]
    _import_error = str(error)


def why_unavailable() -> str | None:
    """Return None where the extension was built and the instruction set asked for runs."""
    if _core is None:
        return f"the compiled extension is missing ({_import_error})"
    asked = forced_isa()
    if asked is not None and asked not in _core.supported_isas():
        runs = ", ".join(_core.supported_isas())
        return f"FALCON_ISA is {asked!r}; this machine and build run {runs}"
    return _why_not_threaded()


@cache
def isa() -> str:
    """Return the instruction set in use: FALCON_ISA, else the best that runs here."""
    return forced_isa() or _core.supported_isas()[0]


@cache
def _why_not_threaded() -> str | None:
    """Set whose threads work on calls, as FALCON_THREADING says; return why it cannot be done."""
    asked = forced_threading()
    if asked is None or _core.threading() == asked:
        return None
    try:
        found = _core.threading(asked)
    except ValueError:
        return f"FALCON_THREADING is {asked!r}; expected 'own' or 'openmp'"
    return None if found == asked else f"FALCON_THREADING is {asked!r}; this build runs {found!r}"
