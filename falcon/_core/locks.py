"""What a fork changes: a lock that the child can take, whoever held it in the parent."""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


class ForkLock:
    """A lock, renewed in every child: ``with x.lock:``.

    A fork copies a lock that is held, but not the thread that would release it: the child would
    wait for ever.

    Attributes
    ----------
    lock : threading.Lock
        Another object in the child. ``with`` keeps the one that it took, so that a thread that
        forks while it holds the lock releases what it had.
    """

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        _known.add(self)


_known: WeakSet[ForkLock] = WeakSet()


def in_forked_child() -> bool:
    """Whether this process was forked: with OpenMP's team falcon then runs on one thread."""
    return _forked


_forked = False


def _renew() -> None:
    global _forked
    _forked = True
    for x in _known:
        x.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
