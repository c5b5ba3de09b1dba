"""Options as keywords of the public functions: their types, signatures and documentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, TypedDict, TypeVar

from falcon._tools.checks import Check, Overflow
from falcon.schemes import Scheme

from .options import FIELDS, arguments


class _Common(TypedDict, total=False):
    """The same as keywords and as settings."""

    backend: str
    scheme: str | Scheme
    arithmetic: str
    error: float | None
    threads: int | None
    workspace_limit: int | str | None


class TuningOptions(TypedDict, total=False):
    """Options of `falcon.tune`."""

    backend: str
    arithmetic: str
    max_growth: float | None
    threads: int | None
    modulus: int | list[int] | tuple[int, ...] | None


class PlanningOptions(_Common, total=False):
    """Options of functions that plan but do not multiply; None defers to the settings."""

    max_growth: float | None
    reproducible: bool | Literal["rows"] | None
    centre: bool | None
    modulus: int | list[int] | tuple[int, ...] | None


class PackingOptions(PlanningOptions, total=False):
    """Options of `falcon.pack`."""

    memory_limit: int | str | None


class CallOptions(PlanningOptions, total=False):
    """Options of functions that multiply."""

    check: Check | None
    overflow: Overflow | None


class Settings(_Common, total=False):
    """The options that `falcon.config` and `falcon.set_config` take."""

    max_growth: float
    reproducible: bool | Literal["rows"]
    centre: bool | None
    check: Check
    overflow: Overflow
    verbose: bool
    tuned: bool
    share_threads: bool
    memory_limit: int | str | None


_KEYWORD_TYPES = {**CallOptions.__annotations__, **PackingOptions.__annotations__}
Function = TypeVar("Function", bound=Callable[..., Any])


def takes_options(*names: str, unchanged: Any = None) -> Callable[[Function], Function]:
    """Give a function that takes ``**options`` the signature and the documentation of options.

    `names`: the options that it takes. Their documentation replaces the line ``{options}`` of the
    docstring.
    `unchanged`: the default shown in the signature of functions that change only the options they
    are given. None: the defaults are "auto" or None, which defer to the settings.
    """
    types = _KEYWORD_TYPES if unchanged is None else Settings.__annotations__

    def parameter(name: str) -> inspect.Parameter:
        default = "auto" if unchanged is None and FIELDS[name].default == "auto" else unchanged
        kind = types[name].__forward_arg__
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
        )

    def decorate(function: Function) -> Function:
        known = inspect.signature(function)
        given = [x for x in known.parameters.values() if x.kind is not x.VAR_KEYWORD]
        _, package, *_ = function.__module__.split(".")
        label = f"{package}." * (not package.startswith("_")) + function.__name__
        arguments[label] = tuple(x.name for x in given if x.kind is not x.POSITIONAL_ONLY)
        added = map(parameter, names)
        function.__signature__ = known.replace(parameters=[*given, *added])  # type: ignore[attr-defined]
        if function.__doc__ is not None:  # python -OO leaves none
            texts = "".join(f"    {name} : {FIELDS[name].metadata['text']}\n" for name in names)
            function.__doc__ = function.__doc__.replace("    {options}\n", texts)
        return function

    return decorate
