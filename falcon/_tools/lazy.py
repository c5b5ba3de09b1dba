"""`lazy`: a property that is computed once, without a lock."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")


class lazy(cached_property[T]):  # noqa: N801 - a decorator, as its base
    """functools.cached_property without the lock that a class of Python 3.11 holds meanwhile.

    A child that is forked while another thread holds it would wait for ever, and threads would
    compute one after the other. Without it two may compute the same value; the first one is kept.
    """

    if not TYPE_CHECKING:

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.attrname, self.func(instance))
