"""Turn a scheme into straight-line programs, and programs into NumPy calls, C or CUDA code.

::

    program.py     Program: additions, subtractions and scalings of blocks, temporaries reused
    update.py      Combine H as updates after each product, for engines that keep C on chip
    numpy_exec.py  runs a Program on NumPy blocks, strip by strip
    cpu_emit.py    a Program as operations for the CPU engine, and as C that it is built with
    cuda_plan.py   a scheme on a GPU: chains of products, vector widths, registers
    cuda_emit.py   a Program as the CUDA struct that differs per scheme
"""

from .program import combine_a, combine_b, combine_c
from .update import updates

__all__ = ["combine_a", "combine_b", "combine_c", "updates"]
