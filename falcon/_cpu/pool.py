"""Workspaces that are kept between calls, so that the next call need not touch new memory first.

New memory from the operating system costs a page fault per page at its first use; where that is
expensive (virtual machines that give freed memory back to their host: 1.5 ms per MiB was measured),
a Strassen product at 4096 lost a fifth of its time to it. So the largest workspace up to a limit is
kept for the next call, as other BLAS libraries keep their buffers. A workspace is taken out of the
pool while in use: two threads never share one.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from falcon._core.cpus import kept_bytes, memory_bytes
from falcon._core.locks import ForkLock

from . import _core

# Plans have the limit `kept_bytes` by default, so their workspaces are kept. Where a larger one
# would save passes, a plan considers that, too; it is then kept like any other.
# Shares of the memory that a workspace may have: one that saves passes, and one for which the
# caller has set a larger limit.
_LARGE_SHARE, _LARGEST_SHARE = 16, 4


@cache
def large_bytes() -> int:
    """Bytes that a workspace may have if that saves passes: 1/16 of the memory; read once."""
    return max(kept_bytes(), memory_bytes() // _LARGE_SHARE)


def largest_bytes() -> int:
    """Bytes that a workspace may have if the caller's limit allows it: 1/4 of the memory."""
    return max(kept_bytes(), memory_bytes() // _LARGEST_SHARE)


class Pool:
    """Keeps at most one workspace, of at most `limit` bytes or what a call since allowed."""

    def __init__(self, limit: int) -> None:
        self.limit = self._allowed = limit
        self._kept: Any = None
        self._lock = ForkLock()

    def take(self, nbytes: int) -> Any:
        """Return a workspace of at least that many bytes, for the caller alone."""
        with self._lock.lock:
            kept, self._kept = self._kept, None
        if kept is not None and kept.nbytes >= nbytes:
            return kept
        del kept  # before the larger one is allocated
        return _core.Workspace(nbytes)

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


@cache
def shared() -> Pool:
    """Return the pool of all calls."""
    return Pool(kept_bytes())
