"""The engine's workspaces: how large they may be, and the pool that keeps one between calls."""

from __future__ import annotations

from functools import cache

from falcon._tools.cpus import kept_bytes, memory_bytes
from falcon._tools.pool import Pool

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


@cache
def shared() -> Pool:
    """Return the pool of all calls."""
    return Pool(kept_bytes(), _core.Workspace)
