"""torch's threads: products of tensors take as many, and run on them while they spin."""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache
from pathlib import Path

import torch

from falcon._front.surface import host_engine, meet, settings


class _Thread(threading.local):
    known: tuple[int, bool] = (1, True)


_thread = _Thread()


def usual_threads() -> int:
    """Return how many threads a product takes, and let falcon know those of torch in this one.

    They spin for milliseconds after an operator, on the CPUs that falcon's own would need.
    """
    known = torch.get_num_threads(), settings().share_threads
    if _thread.known != known:
        _thread.known = known
        if not host_engine().is_library:
            meet(_parallel() if known[1] else 0)
    return known[0]


@cache
def _parallel() -> int:
    """Return the address of GOMP_parallel of torch's OpenMP; 0: there is none."""
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        found = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD).GOMP_parallel
    except (OSError, AttributeError):  # another system, or another kind of threads
        return 0
    return ctypes.cast(found, ctypes.c_void_p).value or 0
