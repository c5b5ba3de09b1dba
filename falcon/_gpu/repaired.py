"""Which problems had to be repaired: repair.cu writes how many regions to memory of the host.

The host reads the largest number at the next call, without waiting for the device. A problem of
which more than a 32nd was repaired is multiplied classically, in its own arithmetic, for as long as
that is likely to go on: the next 8 calls, and about twice as many each time that it is tried again
in vain.
"""

from __future__ import annotations

from collections.abc import Hashable
from ctypes import c_uint32
from threading import Lock

from falcon._core.plan import Plan

from . import device
from .geometry import regions
from .matrix import Memory

# Problems that are remembered; further ones are repaired whenever they need it.
_MOST = 1024
# Calls that are classical at first, and at most, and one part in how many may be repaired.
_FEWEST, _LONGEST, _SHARE = 8, 1024, 32
_memory: Memory | None = None
_flags: dict[Hashable, Flag] = {}
_lock = Lock()


class Flag:
    """The count of a problem, and how many of its next calls are classical."""

    __slots__ = ("_count", "_last", "_left", "_most", "pointer")

    def __init__(self, pointer: int, most: int) -> None:
        self.pointer = pointer  # in memory of the host: of an unsigned number
        self._count = c_uint32.from_address(pointer)
        self._most, self._last, self._left = most, 0, 0

    def take(self) -> bool:
        """Return whether a call that begins now is to be classical."""
        if not (self._count.value or self._last) or device.is_capturing():
            return False  # a graph does what its plan says
        with _lock:
            count, self._count.value = self._count.value, 0
            if self._left:  # what is counted now is of products before
                self._left -= 1
                return True
            if count > self._most:
                self._last = min(max(2 * self._last, _FEWEST), _LONGEST)
                self._left = self._last - 1
            else:
                self._last = max(self._last - 1, 0)
            return self._left > 0


def flag_of(plan: Plan) -> Flag | None:
    """Return the flag of a plan's problem and arithmetic.

    None if there is none, or the plan is neither by parts nor by a scheme that "auto" chose; or
    reproducible: what was repaired before then decides nothing.
    """
    global _memory
    if plan.problem.reproducible or not (plan.guarded or plan.operand.splits > 1):
        return None
    problem, key = plan.problem, (plan.problem, plan.operand)
    if key in _flags:
        return _flags[key]
    with _lock:
        if _memory is None:
            if device.is_capturing():
                return None
            _memory = device.allocate_on_host(4 * _MOST)
        if key not in _flags and len(_flags) < _MOST:
            most = max(regions(problem.M, problem.N), regions(problem.N, problem.M)) // _SHARE
            _flags[key] = Flag(_memory.pointer + 4 * len(_flags), most)
        return _flags.get(key)
