"""falcon: dense matrix multiplication with fewer multiplications than the classical algorithm.

>>> import falcon, numpy as np
>>> a, b = np.random.rand(300, 200), np.random.rand(200, 100)
>>> c = falcon.gemm(a, b, scheme="strassen")
>>> bool(falcon.verify(a, b, c))
True

Importing falcon prints nothing and starts nothing: no threads, no measurements, no GPU. Its names
are imported when first asked for, `falcon.torch`, for PyTorch, and `falcon.dask`, for Dask, too.
"""

from typing import TYPE_CHECKING, Any

# threadpoolctl must know falcon, and find its kernels loaded, before a user sets a limit.
from ._tools import threads as _threads  # noqa: F401
from ._tools.locks import importing as _importing

# isort: split
from ._cpu import extension as _extension  # noqa: F401
from ._version import __version__

if TYPE_CHECKING:  # else `__getattr__` imports them
    from . import schemes
    from ._accelerate.profile import Profile, profile
    from ._accelerate.switch import accelerate
    from ._core.config import config, set_config
    from ._core.packed import PackedOperand
    from ._core.plan import Plan
    from ._front.contract import dot, einsum, multi_dot, tensordot
    from ._front.freivalds import Verification, VerificationError
    from ._front.gemm import gemm
    from ._front.gram import gram
    from ._front.info import release_workspace, show_config
    from ._front.matmul import matmul
    from ._front.pack import pack
    from ._front.plan import plan
    from ._front.scaled import quantize, scaled_matmul
    from ._front.tune import machine, tune
    from ._front.verify import verify
    from ._grade.grade import Grade, grade
    from .decision import MachineProfile
    from .schemes import Scheme, SchemeError

__all__ = [
    "Grade",
    "MachineProfile",
    "PackedOperand",
    "Plan",
    "Profile",
    "Scheme",
    "SchemeError",
    "Verification",
    "VerificationError",
    "__version__",
    "accelerate",
    "config",
    "dot",
    "einsum",
    "gemm",
    "grade",
    "gram",
    "machine",
    "matmul",
    "multi_dot",
    "pack",
    "plan",
    "profile",
    "quantize",
    "release_workspace",
    "scaled_matmul",
    "schemes",
    "set_config",
    "show_config",
    "tensordot",
    "tune",
    "verify",
]

# What is imported when first asked for, and whence.
_HOMES = {
    "_accelerate.profile": ("Profile", "profile"),
    "_accelerate.switch": ("accelerate", "load_ipython_extension", "unload_ipython_extension"),
    "_core.config": ("config", "set_config"),
    "_core.packed": ("PackedOperand",),
    "_core.plan": ("Plan",),
    "_front.contract": ("dot", "einsum", "multi_dot", "tensordot"),
    "_front.freivalds": ("Verification", "VerificationError"),
    "_front.gemm": ("gemm",),
    "_front.gram": ("gram",),
    "_front.info": ("release_workspace", "show_config"),
    "_front.matmul": ("matmul",),
    "_front.pack": ("pack",),
    "_front.plan": ("plan",),
    "_front.scaled": ("quantize", "scaled_matmul"),
    "_front.tune": ("machine", "tune"),
    "_front.verify": ("verify",),
    "_grade.grade": ("Grade", "grade"),
    "dask": ("dask",),
    "decision": ("MachineProfile",),
    "schemes": ("Scheme", "SchemeError", "schemes"),
    "torch": ("torch",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    with _importing():
        module = import_module(f"{__name__}.{_HOME_OF[name]}")
    found = globals()[name] = module if name == _HOME_OF[name] else getattr(module, name)
    return found


def __dir__() -> set[str]:
    return {*globals(), *__all__}
