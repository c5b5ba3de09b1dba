"""Forks beside threads: locks that a child can take, and imports that a fork waits for."""

from __future__ import annotations

import os
import threading
from typing import Any
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


_imports: WeakSet[Any] = WeakSet()  # a lock of each, held meanwhile
_gate = threading.RLock()
_held: list[Any] = []


def importing() -> Any:
    """Return a context manager for an import in a function: a fork waits until it is done.

    A child would wait for ever for the module, which a thread of its parent was importing. Imports
    do not wait for one another, as one may need a module that another one imports.
    """
    lock = threading.RLock()
    with _gate:
        _imports.add(lock)
    return lock


def _stop() -> None:
    """Wait until no other thread imports, and let none begin."""
    while True:
        _gate.acquire()
        for lock in [*_imports]:
            if not lock.acquire(blocking=False):
                break
            _held.append(lock)
        else:
            return
        _go_on()
        with lock:  # it is waited for without holding any
            pass


def _go_on() -> None:
    while _held:
        _held.pop().release()
    _gate.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_stop, after_in_parent=_go_on, after_in_child=_go_on)
    os.register_at_fork(after_in_child=_renew)
