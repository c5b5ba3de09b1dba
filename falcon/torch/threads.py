"""torch's threads: products of tensors take as many, and run on them while they spin."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

import torch

from falcon._tools import threads


def usual_threads() -> int:
    """Return how many threads a product takes, and let falcon know those of torch in this one.

    They spin for milliseconds after an operator, on the CPUs that falcon's own would need.
    """
    count = torch.get_num_threads()
    if threads.meet is not None:
        threads.meet(count, parallel)
    return count


@cache
def parallel() -> int:
    """Return the address of GOMP_parallel as torch calls it; 0: there is none."""
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    for where in (None, str(path)):  # as the loader looks for it: first where all may see it
        try:
            found = ctypes.CDLL(where, mode=os.RTLD_NOLOAD).GOMP_parallel
        except (OSError, AttributeError, TypeError):  # another system, or other threads
            continue
        return ctypes.cast(found, ctypes.c_void_p).value or 0
    return 0
