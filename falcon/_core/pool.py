"""`Pool`: memory that is kept between calls, so that the next one need not touch new memory first.

New memory from the operating system costs a page fault per page at its first use; where that is
expensive (virtual machines that give freed memory back to their host: 1.5 ms per MiB was measured),
a Strassen product at 4096 lost a fifth of its time to it. So the largest workspace up to a limit is
kept for the next call, as other BLAS libraries keep their buffers. While in use it is taken out of
the pool: two threads never share one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .locks import ForkLock


class Pool:
    """Keeps at most one workspace, of at most `limit` bytes or what a call since allowed."""

    def __init__(self, limit: int, allocate: Callable[[int], Any]) -> None:
        self.limit = self._allowed = limit
        self._allocate = allocate
        self._kept: Any = None
        self._lock = ForkLock()

    def take(self, nbytes: int) -> Any:
        """Return a workspace of at least that many bytes, for the caller alone."""
        with self._lock.lock:
            kept, self._kept = self._kept, None
        if kept is not None and kept.nbytes >= nbytes:
            return kept
        del kept  # before the larger one is allocated
        return self._allocate(nbytes)

    def give(self, workspace: Any, allowed: int = 0) -> None:
        """Put a workspace back; the larger of two is kept, one beyond the limit is freed.

        `allowed`: bytes that may be kept from now on, if that is more than so far.
        """
        with self._lock.lock:
            self._allowed = max(self._allowed, allowed)
            if workspace.nbytes > self._allowed:
                return
            if self._kept is None or self._kept.nbytes < workspace.nbytes:
                self._kept = workspace

    def clear(self) -> None:
        """Free what is kept, and keep no more than `limit` again."""
        with self._lock.lock:
            self._kept, self._allowed = None, self.limit

    @property
    def nbytes(self) -> int:
        """Bytes kept at this moment."""
        kept = self._kept
        return 0 if kept is None else kept.nbytes
