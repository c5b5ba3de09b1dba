"""Run a combination program on NumPy blocks, strip by strip, reading each input element once.

A strip is some rows of every block, so many that the strips of all blocks fit into the L2 cache
together. The program runs over one strip with NumPy's vectorised arithmetic before the next.
Ragged blocks (at the edge of a matrix whose size the format does not divide) are padded with zeros
in scratch memory, one strip at a time, so no matrix is ever padded as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from falcon.schemes.additions import Coefficient

from .program import Instruction, Op, Program

# All input strips together: half of a typical L2; the other half is for outputs and temporaries.
_STRIP_BYTES = 256 * 1024
# With fewer elements, NumPy's call overhead (about 0.5 microseconds) outweighs the arithmetic.
_SMALLEST_STRIP = 4096


def strip_rows(n_inputs: int, rows: int, columns: int, itemsize: int) -> int:
    """Rows of each block that are processed together."""
    elements = max(_STRIP_BYTES // (itemsize * n_inputs), _SMALLEST_STRIP)
    return max(1, min(rows, elements // max(columns, 1)))


def scratch_slots(program: Program, ragged: int, *, accumulate: bool = False) -> int:
    """Strips of scratch memory that `run` needs with that many ragged blocks.

    With `accumulate` every output needs one, and inputs must not be ragged.
    """
    return program.n_temporaries + (program.n_outputs if accumulate else ragged)


def run(
    program: Program,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    scratch: np.ndarray,
    *,
    accumulate: bool = False,
    finish: Callable[[np.ndarray], bool] | None = None,
) -> bool:
    """Execute `program` over blocks of equal nominal shape.

    `inputs`, `outputs`: blocks; a block smaller than the nominal shape is ragged: an input is
    padded with zeros, an output is clipped. Inputs may have any real or complex dtype that casts to
    the outputs' dtype; the arithmetic is done in the latter.
    `scratch`: ndarray, shape (slots, strip rows, columns); at least `scratch_slots` strips;
    ``columns`` is the nominal width of a block.
    `accumulate`: add to the outputs instead of overwriting them.
    `finish`: called with each finished output strip, for example to scale it; the run stops when it
    returns False.
    Returns bool: False if `finish` stopped the run; the outputs are then incomplete.
    """
    step, columns = scratch.shape[1:]
    rows = max(x.shape[0] for x in (*inputs, *outputs))
    for start in range(0, rows, step):
        height = min(step, rows - start)
        slots = list(scratch[:, :height])
        values: list[np.ndarray] = []
        for block in inputs:
            strip = block[start : start + height]
            if strip.shape != (height, columns):
                strip = _padded(strip, slots.pop())
            values.append(strip)
        values.extend(slots.pop() for _ in range(program.n_temporaries))
        strips = [block[start : start + height] for block in outputs]
        for strip in strips:
            direct = strip.shape == (height, columns) and not accumulate
            values.append(strip if direct else slots.pop())
        for instruction in program.instructions:
            _step(instruction, values)
        for strip, value in zip(strips, values[program.first_output :], strict=True):
            clipped = value[: strip.shape[0], : strip.shape[1]]
            if accumulate:
                np.add(strip, clipped, out=strip)
            elif value is not strip:
                np.copyto(strip, clipped)
            if finish is not None and not finish(strip):
                return False
    return True


def _padded(strip: np.ndarray, scratch: np.ndarray) -> np.ndarray:
    height, width = strip.shape
    np.copyto(scratch[:height, :width], strip, casting="unsafe")
    scratch[:height, width:] = 0
    scratch[height:] = 0
    return scratch


def _step(instruction: Instruction, values: list[np.ndarray]) -> None:
    out = values[instruction.dst]
    x = values[instruction.x]
    # dtype= is needed for mixed operands: int8 blocks summed into int32 must not wrap as int8.
    if instruction.op is Op.ADD:
        np.add(x, values[instruction.y], out=out, dtype=out.dtype, casting="unsafe")
    elif instruction.op is Op.SUB:
        np.subtract(x, values[instruction.y], out=out, dtype=out.dtype, casting="unsafe")
    elif instruction.coefficient == 1:
        np.copyto(out, x, casting="unsafe")
    elif instruction.coefficient == -1:
        np.negative(x, out=out, dtype=out.dtype, casting="unsafe")
    else:
        np.multiply(
            x,
            _scalar(instruction.coefficient, out.dtype),
            out=out,
            dtype=out.dtype,
            casting="unsafe",
        )


def _scalar(coefficient: Coefficient, dtype: np.dtype) -> np.generic:
    """Return the coefficient in `dtype`; integers wrap as in array arithmetic."""
    if dtype.kind in "iu":
        if coefficient.denominator != 1:
            raise TypeError(f"the program has the coefficient {coefficient}; {dtype} is exact")
        return np.int64(coefficient).astype(dtype)
    # Divide in the dtype itself: long double has more digits than a Python float.
    return dtype.type(coefficient.numerator) / dtype.type(coefficient.denominator)
