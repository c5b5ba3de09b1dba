# cython: freethreading_compatible=True
"""What exceptions of signal handlers cannot interrupt, because Cython compiles this file.

Python raises them between its own instructions, and before the first one of a function. Where
falcon is not compiled, it runs as Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import FrameType
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_TRIES = 9  # a signal raises once


def insist(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function until it returns; then raise the first exception, if there was one."""
    error: BaseException | None = None
    for _ in range(_TRIES):
        try:
            result = function(*arguments)
            break
        except BaseException as raised:
            error = raised if error is None else error
    if error is not None:
        raise error
    return result


class Block(Generic[T]):
    """A context manager that has no effect if ``__enter__`` raises, and ends if ``__exit__`` does.

    `begin` and `end` of a subclass are called again, with the same key, until they return. `end`
    may come without, or after a part of, `begin`.
    """

    def __init__(self) -> None:
        self._keys: list[object] = []

    def begin(self, key: object) -> T:
        """Enter; return what ``with`` gives."""
        raise NotImplementedError

    def end(self, key: object) -> None:
        """Leave what was entered with the same key."""
        raise NotImplementedError

    def __enter__(self) -> T:
        key = object()
        try:
            result: T = insist(self.begin, key)
        except BaseException:
            insist(self.end, key)
            raise
        self._keys.append(key)
        return result

    def __exit__(self, *_: object) -> None:
        insist(self.end, self._keys.pop())


class Assigned(Generic[T]):
    """A context manager that sets a context variable to `value()`, and resets it."""

    def __init__(self, variable: ContextVar[T | None]) -> None:
        self._variable = variable
        self._tokens: list[Token[T | None]] = []

    def value(self) -> T:
        """Return what is set, and what ``with`` gives."""
        raise NotImplementedError

    def __enter__(self) -> T:
        value = self.value()
        self._tokens.append(self._variable.set(value))
        return value

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._tokens.pop())


def forgetful(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function; but frames of its exceptions keep no variables.

    For operands in memory that may be freed afterwards: who shows variables would read it.
    """

    def call(*operands: Any) -> Any:
        older = sys.exception()
        try:
            return function(*operands)
        except BaseException as error:
            _clear(error, older)
            raise

    return call


def _clear(error: BaseException, older: BaseException | None) -> None:
    """Clear the frames that have ended of an exception, and of those that led to it."""
    found = [error]
    for x in found:
        at = x.__traceback__
        while at is not None:
            frame: FrameType | None = at.tb_frame
            try:
                while frame is not None:
                    frame.clear()
                    frame = frame.f_back
            except RuntimeError:  # it runs; a signal may interrupt `suppress`
                pass
            at = at.tb_next
        about = x.exceptions if isinstance(x, BaseExceptionGroup) else ()
        for y in (x.__context__, x.__cause__, *about):
            if y is not None and y is not older and not any(y is z for z in found):
                found.append(y)
