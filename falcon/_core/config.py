"""`config` and `set_config`: settings for a ``with`` block, and for the process."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, Unpack

from falcon._tools.uninterrupted import Assigned

from .keywords import Settings, takes_options
from .options import SETTINGS, Options, active, base, changed, set_base


class Config(Assigned[Options], ContextDecorator):
    """What `config` returns: settings that hold inside a ``with`` block, or a decorated call."""

    def __init__(self, changes: dict[str, Any]) -> None:
        changed("config", changes)  # raises errors now, not when the block is entered
        super().__init__(active)
        self._changes = changes
        self._used = False

    def value(self) -> Options:
        """Return the settings of the block."""
        self._used = True
        return changed("config", self._changes)

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Decorate a function."""
        self._used = True
        return super().__call__(function)

    def _recreate_cm(self) -> Config:
        return Config(self._changes)  # one per call: calls may run in several threads

    def __del__(self) -> None:
        if not getattr(self, "_used", True) and self._changes:
            warnings.warn(
                "falcon.config(...) alone changes nothing: use it in a with statement, or "
                "falcon.set_config(...) for the whole process",
                RuntimeWarning,
                stacklevel=2,
            )


@takes_options(*SETTINGS, unchanged=...)
def config(**changes: Unpack[Settings]) -> Config:
    """Change falcon's defaults inside a ``with`` block, for this thread or task only.

    Parameters
    ----------
    {options}

    Returns
    -------
    context manager
        It yields the settings in force inside the block, and can decorate a function.

    Raises
    ------
    TypeError
        There is no such setting, or a value has the wrong type.
    ValueError
        A value is out of range.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> a = np.ones((64, 64))
    >>> with falcon.config(scheme="strassen", workspace_limit="1MiB"):
    ...     c = falcon.gemm(a, a)
    """
    return Config(dict(changes))


@takes_options(*SETTINGS, unchanged=...)
def set_config(**changes: Unpack[Settings]) -> None:
    """Change falcon's defaults for the whole process, including threads that already run.

    Inside a ``falcon.config`` block that block's settings stay in force.

    Parameters
    ----------
    {options}

    Raises
    ------
    TypeError
        There is no such setting, or a value has the wrong type.
    ValueError
        A value is out of range.

    Examples
    --------
    >>> import falcon
    >>> falcon.set_config(threads=1)
    >>> falcon.plan((512, 512), (512, 512)).threads
    1
    >>> falcon.set_config(threads=None)
    """
    set_base(changed("set_config", changes, process=True))


def tell_children() -> None:
    """Tell processes that start with `falcon.accelerate` on the settings of this one."""
    set_base(base())
