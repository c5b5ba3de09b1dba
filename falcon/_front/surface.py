"""What other doors use of falcon's inside: torch, Dask, accelerate and grade know no other name.

A name more is one that all rooms below have to keep: tests/test_import.py counts them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from falcon._backends import device_backend, host_engine
from falcon._core import observe
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
from falcon._cpu.extension import why_missing
from falcon._numpy.original import keep_original
from falcon._numpy.threads import limited
from falcon._tools.locks import importing
from falcon.decision.library import limits_of_loops

from .adapters import adapt_operands, is_on_gpu
from .adapters.host import NUMPY
from .arithmetic import typed
from .calls import about_plan
from .execute import run_planned
from .fallback import why_not_by_library
from .plan import by_numpy
from .planner import does_batch_pay, plan_for, predicted, resolve_options
from .validate import check_added, check_matrix, check_scalar, matmul_shape

if TYPE_CHECKING:  # else `__getattr__` imports them, as those of `falcon`, when first asked for
    from falcon._core.config import tell_children
    from falcon._cpu.each import cores, kernels, why_different

    from .freivalds import Freivalds, Scaled, times_modulo
    from .info import backends, machine_report
    from .pack import make_packed
    from .subscripts import has_product
    from .verify import run_test

_HOMES = {
    "_core.config": ("tell_children",),
    "_cpu.each": ("cores", "kernels", "why_different"),
    "_front.freivalds": ("Freivalds", "Scaled", "times_modulo"),
    "_front.info": ("backends", "machine_report"),
    "_front.pack": ("make_packed",),
    "_front.subscripts": ("has_product",),
    "_front.verify": ("run_test",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with importing():
        home = import_module(f"falcon.{_HOME_OF[name]}")
    found = globals()[name] = getattr(home, name)
    return found
