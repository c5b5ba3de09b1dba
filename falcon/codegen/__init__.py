"""Deployment: from a scheme to straight-line programs, and from those to executable form.

::

    program.py     Program: add, subtract, scale over blocks, temporaries reused
    c_program.py   the same as operations of the CPU engine's interpreter
    c_emit.py      the same as C, coefficients baked in
    numpy_exec.py  runs a Program on NumPy blocks, strip by strip
"""

from .program import Instruction, Program, combine_a, combine_b, combine_c

__all__ = ["Instruction", "Program", "combine_a", "combine_b", "combine_c"]
