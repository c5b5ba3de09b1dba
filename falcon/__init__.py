"""falcon: dense matrix multiplication with fewer multiplications than the classical algorithm.

>>> import falcon, numpy as np
>>> a, b = np.random.rand(300, 200), np.random.rand(200, 100)
>>> c = falcon.gemm(a, b, scheme="strassen")
>>> bool(falcon.verify(a, b, c))
True

Importing falcon prints nothing and starts nothing: no threads, no measurements, no GPU.
What is built on these names is imported when first asked for: `falcon.accelerate`, `profile` and
`grade`, `falcon.torch`, for PyTorch, and `falcon.dask`, for Dask.
"""

from typing import TYPE_CHECKING, Any

from . import schemes
from ._core.config import config, set_config
from ._core.packed import PackedOperand
from ._core.plan import Plan
from ._front.contract import dot, einsum, multi_dot, tensordot
from ._front.freivalds import Verification, VerificationError
from ._front.gemm import gemm
from ._front.gram import gram
from ._front.info import release_workspace, show_config, warn_of_web_framework
from ._front.matmul import matmul
from ._front.pack import pack
from ._front.plan import plan
from ._front.scaled import quantize, scaled_matmul
from ._front.tune import machine, tune
from ._front.verify import verify
from ._version import __version__
from .decision import MachineProfile
from .schemes import Scheme, SchemeError

if TYPE_CHECKING:  # else `__getattr__` imports them
    from ._accelerate.profile import Profile, profile
    from ._accelerate.switch import accelerate
    from ._grade.grade import Grade, grade

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

warn_of_web_framework()
del warn_of_web_framework

# What is imported when first asked for, and whence.
_LATER = {
    "Grade": "_grade.grade",
    "Profile": "_accelerate.profile",
    "accelerate": "_accelerate.switch",
    "dask": "dask",
    "grade": "_grade.grade",
    "load_ipython_extension": "_accelerate.switch",
    "profile": "_accelerate.profile",
    "torch": "torch",
    "unload_ipython_extension": "_accelerate.switch",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"{__name__}.{_LATER[name]}")
    return module if name == _LATER[name] else getattr(module, name)


def __dir__() -> set[str]:
    return {*globals(), *__all__}
