"""The schemes that the C engine runs: each is converted once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from falcon._core.centring import CENTRED
from falcon.codegen import updates
from falcon.codegen.cpu_emit import of_scheme
from falcon.schemes import ComplexScheme, Scheme

from . import _core


def engine_scheme(scheme: Scheme | ComplexScheme | None) -> _core.Scheme | None:
    """Return the engine's form of `scheme`; a packed operand keeps the one it was packed for.

    None, and a trivial scheme, are the engine's own classical algorithm, which centres nothing.
    """
    if scheme is None or (scheme.rank == 1 and scheme.name != CENTRED.name):
        return None
    return converted(scheme)


@lru_cache(maxsize=1024)  # the catalogue has a quarter of that
def converted(scheme: Scheme | ComplexScheme) -> _core.Scheme:
    """Return a scheme as data; it is all that is kept, as many schemes are compared and few run."""
    components = 2 if isinstance(scheme, ComplexScheme) else 1
    made = updates.__wrapped__(scheme)
    return _core.Scheme(*scheme.format, *of_scheme(scheme, made), made, components)


@lru_cache(maxsize=1024)
def complex_scheme(product: Any, scheme: Scheme | None) -> ComplexScheme:
    """Return the scheme for complex matrices; `product`: M3 or M4. Equal arguments, one object."""
    return ComplexScheme(product, scheme)
