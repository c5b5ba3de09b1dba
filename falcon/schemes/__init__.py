"""Schemes <m,k,n;R> as proved data: catalogue, algebra, metrics, loaders.

::

    _scheme.py      Scheme: U, V, W, verified on construction
    brent.py        the exact proof            metrics.py    growth of errors
    additions.py    common subexpressions      nesting.py    those of compositions
    formulas.py     text and LaTeX             algebra.py    permute, add, compose
    catalogue.py    named schemes (data/)      best.py       the best scheme of a format
    loaders.py      files of other researchers
    records.py      schemes by their coefficients, as the catalogue holds them
    reading.py      formulas as coefficients   checking.py   what is wrong with U, V, W
    drawing.py      pictures of a scheme       writing.py    falcon's JSON
    _checks.py      checks of a Scheme         _coefficients.py  exact arrays of numbers
    facts.py        format, cost and growth of stored schemes, in a table (facts.csv)
    _unpickle.py    object arrays of .npz files, unpickled safely
    _complex.py     complex products by three or four real ones, alone and within schemes
    repair.py       what is wrong with formulas, in the names of who wrote them
    sms.py          sparse matrices in which PLinOpt's authors publish schemes
    published.py    layouts of other researchers' files
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from falcon._tools.locks import importing

from ._complex import M3, M4, ComplexScheme
from ._scheme import Scheme, SchemeError
from .algebra import classical, compose, cyclic, direct_sum, permuted, symmetries, transposed
from .catalogue import best, get, names, register

if TYPE_CHECKING:  # else `__getattr__` imports them
    from .checking import Check, check
    from .loaders import dump, load, load_all

__all__ = [
    "M3",
    "M4",
    "Check",
    "ComplexScheme",
    "Scheme",
    "SchemeError",
    "best",
    "check",
    "classical",
    "compose",
    "cyclic",
    "direct_sum",
    "dump",
    "get",
    "load",
    "load_all",
    "names",
    "permuted",
    "register",
    "symmetries",
    "transposed",
]


# Where names are that no product needs.
_HOMES = {"Check": "checking", "check": "checking"}
_HOMES |= dict.fromkeys(("dump", "load", "load_all"), "loaders")


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with importing():
        return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> set[str]:
    return {*globals(), *__all__}
