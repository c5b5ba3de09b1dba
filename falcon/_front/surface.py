"""What other doors use of falcon's inside: torch, Dask, accelerate and grade know no other name.

Each is imported when first asked for, as those of `falcon`: a door loads what it uses. A name more
is one that all rooms below have to keep: tests/test_import.py counts them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from falcon._tools.locks import importing

if TYPE_CHECKING:  # else `__getattr__` imports them
    from falcon._backends import device_backend, host_engine
    from falcon._core import observe
    from falcon._core.config import tell_children
    from falcon._core.dtypes import TABLE, DType, dtype_of
    from falcon._core.keywords import CallOptions, takes_options
    from falcon._core.options import (
        FIELDS,
        KEYWORDS,
        LINEAR,
        SETTINGS,
        Options,
        settings,
        thread_count,
        validated,
    )
    from falcon._core.problem import Problem
    from falcon._core.symmetric import is_hermitian
    from falcon._cpu.each import kernels, why_different
    from falcon._cpu.extension import why_missing
    from falcon._numpy.original import keep_original
    from falcon._numpy.threads import limited
    from falcon.decision.library import limits_of_loops

    from .adapters import adapt_operands, is_on_gpu
    from .adapters.host import NUMPY
    from .arithmetic import typed
    from .calls import about_plan
    from .execute import run_planned
    from .fallback import why_not_by_library
    from .freivalds import Freivalds, Scaled, times_modulo
    from .info import backends, machine_report
    from .pack import make_packed
    from .plan import by_numpy
    from .planner import does_batch_pay, plan_for, predicted, resolve_options
    from .subscripts import has_product
    from .validate import check_added, check_matrix, check_scalar, matmul_shape
    from .verify import run_test

_HOMES = {
    "_backends": ("device_backend", "host_engine"),
    "_core": ("observe",),
    "_core.config": ("tell_children",),
    "_core.dtypes": ("TABLE", "DType", "dtype_of"),
    "_core.keywords": ("CallOptions", "takes_options"),
    "_core.options": (
        *("FIELDS", "KEYWORDS", "LINEAR", "SETTINGS", "Options"),
        *("settings", "thread_count", "validated"),
    ),
    "_core.problem": ("Problem",),
    "_core.symmetric": ("is_hermitian",),
    "_cpu.each": ("kernels", "why_different"),
    "_cpu.extension": ("why_missing",),
    "_front.adapters": ("adapt_operands", "is_on_gpu"),
    "_front.adapters.host": ("NUMPY",),
    "_front.arithmetic": ("typed",),
    "_front.calls": ("about_plan",),
    "_front.execute": ("run_planned",),
    "_front.fallback": ("why_not_by_library",),
    "_front.freivalds": ("Freivalds", "Scaled", "times_modulo"),
    "_front.info": ("backends", "machine_report"),
    "_front.pack": ("make_packed",),
    "_front.plan": ("by_numpy",),
    "_front.planner": ("does_batch_pay", "plan_for", "predicted", "resolve_options"),
    "_front.subscripts": ("has_product",),
    "_front.validate": ("check_added", "check_matrix", "check_scalar", "matmul_shape"),
    "_front.verify": ("run_test",),
    "_numpy.original": ("keep_original",),
    "_numpy.threads": ("limited",),
    "decision.library": ("limits_of_loops",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with importing():
        home = import_module(f"falcon.{_HOME_OF[name]}")
        if not hasattr(home, name):  # a module
            import_module(f"{home.__name__}.{name}")
    found = globals()[name] = getattr(home, name)
    return found
