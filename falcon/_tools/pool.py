"""`Pool`: memory that is kept between calls, so that the next one need not touch new memory first.

New memory from the operating system costs a page fault per page at its first use; where that is
expensive (virtual machines that give freed memory back to their host: 1.5 ms per MiB was measured),
a Strassen product at 4096 lost a fifth of its time to it. So workspaces are kept for the next
calls, as other BLAS libraries keep their buffers: as many as calls ran at once, the largest that
together keep a limit. While in use one is taken out of the pool: two threads never share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .locks import ForkLock


class Pool:
    """Keeps workspaces of at most `limit` bytes together, or what a call since allowed."""

    def __init__(self, limit: int, allocate: Callable[[int], Any]) -> None:
        self.limit = self._allowed = limit
        self._allocate = allocate
        self._kept: list[Any] = []  # the largest first
        self._lock = ForkLock()

    def take(self, nbytes: int) -> Any:
        """Return a workspace of at least that many bytes, for the caller alone."""
        with self._lock.lock:
            enough = sum(x.nbytes >= nbytes for x in self._kept)
            if enough:
                return self._kept.pop(enough - 1)
            del self._kept[:1]  # before the larger one is allocated
        return self._allocate(nbytes)

    def give(self, workspace: Any, allowed: int = 0) -> None:
        """Put a workspace back; the largest are kept, others are freed.

        `allowed`: bytes that may be kept from now on, if that is more than so far.
        """
        with self._lock.lock:
            self._allowed = max(self._allowed, allowed)
            held, self._kept = sorted([*self._kept, workspace], key=_size, reverse=True), []
            bytes_left = self._allowed
            for x in held:
                if x.nbytes <= bytes_left:
                    self._kept.append(x)
                    bytes_left -= x.nbytes

    def clear(self) -> None:
        """Free what is kept, and keep no more than `limit` again."""
        with self._lock.lock:
            self._kept, self._allowed = [], self.limit

    @property
    def nbytes(self) -> int:
        """Bytes kept at this moment."""
        return sum(map(_size, self._kept))


def _size(workspace: Any) -> int:
    return int(workspace.nbytes)
