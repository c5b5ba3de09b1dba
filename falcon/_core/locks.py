"""`ForkLock`: a lock that a forked child can take, even if it was held in the parent."""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


class ForkLock:
    """A lock that is replaced by a new one in every forked child: ``with x.lock:``.

    A fork copies a held lock but not the thread that would release it, so that the child would wait
    for ever.

    `lock`: a new object in the child. A ``with`` statement keeps the lock that it took, so that a
    thread that forks while it holds the lock releases the old one.
    """

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        _known.add(self)


_known: WeakSet[ForkLock] = WeakSet()


def _renew() -> None:
    for x in _known:
        x.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
