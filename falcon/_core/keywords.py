"""Options as keywords of the public functions: their types, signatures and documentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

from falcon.schemes import Scheme

from .checks import Check
from .options import FIELDS


class PlanningOptions(TypedDict, total=False):
    """Options of functions that plan or pack but do not multiply."""

    backend: str
    scheme: str | Scheme
    arithmetic: str
    max_growth: float | None
    threads: int | None
    workspace_limit: int | str | None
    reproducible: bool | None


class PackingOptions(PlanningOptions, total=False):
    """Options of `falcon.pack`."""

    memory_limit: int | str | None


class CallOptions(PlanningOptions, total=False):
    """The options that the public functions take as keywords."""

    check: Check | None


class Settings(TypedDict, total=False):
    """The options that `falcon.config` and `falcon.set_config` take."""

    backend: str
    scheme: str | Scheme
    arithmetic: str
    max_growth: float
    threads: int | None
    workspace_limit: int | str | None
    check: Check
    reproducible: bool
    verbose: bool
    tuned: bool
    share_threads: bool
    memory_limit: int | str | None


_TYPES = {**CallOptions.__annotations__, **PackingOptions.__annotations__}
Function = TypeVar("Function", bound=Callable[..., Any])


def takes_options(*names: str, unchanged: Any = None) -> Callable[[Function], Function]:
    """Give a function that takes ``**options`` the signature and the documentation of options.

    `names`: the options that it takes. Their documentation replaces the line ``{options}`` of the
    docstring.
    `unchanged`: the default shown in the signature of functions that change only the options they
    are given. None: the defaults are "auto" or None, which defer to the settings.
    """

    def parameter(name: str) -> inspect.Parameter:
        if unchanged is not None:
            default, kind = unchanged, FIELDS[name].type
        else:
            default = "auto" if FIELDS[name].default == "auto" else None
            kind = _TYPES[name].__forward_arg__
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
        )

    def decorate(function: Function) -> Function:
        known = inspect.signature(function)
        given = [x for x in known.parameters.values() if x.kind is not x.VAR_KEYWORD]
        added = map(parameter, names)
        function.__signature__ = known.replace(parameters=[*given, *added])  # type: ignore[attr-defined]
        if function.__doc__ is not None:  # python -OO leaves none
            told = "".join(f"    {name} : {FIELDS[name].metadata['text']}\n" for name in names)
            function.__doc__ = function.__doc__.replace("    {options}\n", told)
        return function

    return decorate
