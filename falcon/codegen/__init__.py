"""Deployment: from a scheme to straight-line programs, and from those to executable form.

::

    element.py     Element: what the emitter of CUDA asks of an element type
    program.py     Program: add, subtract, scale over blocks, temporaries reused
    update.py      Combine H as what follows each product, for engines that keep C on chip
    c_program.py   a Program as operations of the CPU engine's interpreter
    numpy_exec.py  runs a Program on NumPy blocks, strip by strip
    cuda_plan.py   a scheme on a GPU: chains of products, vectors that fit the registers
    cuda_emit.py   a Program as the CUDA struct that differs per scheme
"""

from .program import Instruction, Program, combine_a, combine_b, combine_c
from .update import Update, Updates, updates

__all__ = [
    "Instruction",
    "Program",
    "Update",
    "Updates",
    "combine_a",
    "combine_b",
    "combine_c",
    "updates",
]
