"""The compiled extension: whether it can be used, and with which instruction set."""

from __future__ import annotations

import logging
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from falcon._core.dtypes import DType
from falcon._core.environment import forced_isa, forced_threading

from .sources import isas_for

try:
    from . import _core
except ImportError as error:
    _core = None  # type: ignore[assignment]
    _import_error = str(error)

_log = logging.getLogger("falcon")


@cache
def why_unavailable() -> str | None:
    """Return None if the extension was built and the requested instruction set runs, else why not.

    The reason is logged, once: calls go to NumPy's BLAS, and users would not notice.
    """
    reason = _reason()
    if reason is not None:
        _log.warning("falcon: its own kernels do not run (NumPy's BLAS does): %s", reason)
    return reason


def why_missing() -> str:
    """Say why there is no compiled extension, and what to do."""
    try:
        from ._build import reason  # written by setup.py
    except ImportError:
        tree = Path(__file__).parents[2]
        installed = _compiled_elsewhere(tree)
        if installed is not None:
            return (
                f"falcon was imported from the source tree {tree}, which is not compiled, and not "
                f"from {installed}, where it is installed: start Python in another folder, or run "
                "'pip install -e .' in the tree"
            )
        reason = "falcon runs from a source tree where setup.py has not built it"
    if find_spec(f"{__package__}._core") is not None:
        reason = _import_error
    remedy = "install a C compiler and reinstall falcon-gemm from source"
    if sys.platform == "win32":
        remedy = "use falcon-gemm for Linux in WSL"
    return f"the compiled extension is missing ({reason}); {remedy}"


def _compiled_elsewhere(tree: Path) -> Path | None:
    """Return the folder of a compiled falcon that `tree` hides."""
    for folder in map(Path, sys.path):
        parts = folder / "falcon" / "_cpu"
        if folder.resolve() != tree.resolve() and next(parts.glob("_core.*"), None) is not None:
            return folder
    return None


def _reason() -> str | None:
    if _core is None:
        return why_missing()
    forced = forced_isa()
    if forced is not None and forced not in _core.supported_isas():
        runs = ", ".join(_core.supported_isas())
        why = _core.refused_isas().get(forced)
        refused = f" ({why})" if why else ""
        return f"FALCON_ISA is {forced!r}; this machine and build run {runs}{refused}"
    return _why_not_threaded()


@cache
def isa() -> str:
    """Return the instruction set in use: FALCON_ISA, else the best that runs here."""
    return forced_isa() or _core.supported_isas()[0]


@cache
def has_kernel(dtype: DType) -> bool:
    """Whether some instruction set in use has a kernel for the type."""
    try:
        return _core.kernel_info(dtype.engine, isa()) is not None
    except ValueError:
        return False


def missing() -> dict[str, str]:
    """Return the instruction sets for this kind of machine that do not run here, and why."""
    if _core is None:
        return {}
    runs, refused = _core.supported_isas(), _core.refused_isas()
    lacking = "the CPU lacks it, or the compiler did"
    return {x.name: refused.get(x.name, lacking) for x in isas_for() if x.name not in runs}


@cache
def _why_not_threaded() -> str | None:
    """Set the team of threads that FALCON_THREADING names; return why it cannot be used."""
    forced = forced_threading()
    if forced is None or _core.threading() == forced:
        return None
    try:
        found = _core.threading(forced)
    except ValueError:
        return f"FALCON_THREADING is {forced!r}; expected 'own' or 'openmp'"
    return None if found == forced else f"FALCON_THREADING is {forced!r}; this build runs {found!r}"
