"""Which problems had to be repaired: repair.cu writes that to memory of the host.

The host reads it at the next call, without waiting for the device: a problem whose scheme "auto"
chose, and whose product had to be repaired once, is multiplied classically from then on.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from . import device
from .matrix import Memory

# Problems that are remembered; further ones are repaired whenever they need it.
_MOST = 1024
_memory: Memory | None = None
_places: dict[Hashable, int] = {}


def host_flag(problem: Hashable, operand: Hashable = None) -> int:
    """Return the address of a problem's flag; 0 if there is none.

    `operand`: as which elements are multiplied, if not as those of their own type.
    """
    global _memory
    if _memory is None:
        if device.is_capturing():
            return 0
        _memory = device.allocate_on_host(4 * _MOST)
    key = problem, operand
    if key not in _places and len(_places) == _MOST:
        return 0
    return _memory.pointer + 4 * _places.setdefault(key, len(_places))


def was_repaired(problem: Hashable, operand: Hashable = None) -> bool:
    """Whether a product of the problem, as far as the device has come, was repaired."""
    place = _places.get((problem, operand))
    if place is None or _memory is None:
        return False
    return bool(np.frombuffer(_memory.owner, np.uint32, _MOST)[place])
