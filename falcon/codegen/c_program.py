"""Translate a combination program into the operations of the CPU engine.

The engine (`falcon/_cpu/src/falcon_cpu.h`) keeps an accumulator in registers, and writes outputs
once without reading them again. So the additions of an output run through the accumulator and end
in a store; an output that later sums read is also kept in a temporary.
"""

from __future__ import annotations

from collections.abc import Sequence

from .program import Op, Program

# The engine's operations are those of `Op` and this one; the register number of its accumulator.
STORE = "store"
ACCUMULATOR = -1

EngineOp = tuple[str, int, int, int, float]


def engine_ops(program: Program, place: Sequence[int]) -> tuple[list[EngineOp], int]:
    """Return the engine's operations for a program and how many temporaries they need.

    `place`: the engine's number for each output.
    An operation is (name, dst, a, b, coefficient). Registers are the inputs, then the temporaries;
    coefficients are rounded to float64.
    """
    first_output = program.first_output
    last_write: dict[int, int] = {}
    read_later: set[int] = set()
    for at, x in enumerate(program.instructions):
        read_later.update(y for y in (x.x, x.y) if y >= first_output and y != x.dst)
        if x.dst >= first_output:
            last_write[x.dst] = at
    register = {slot: slot for slot in range(first_output)}
    n_temporaries = program.n_temporaries
    for slot in sorted(read_later):
        register[slot] = program.n_inputs + n_temporaries
        n_temporaries += 1
    ops: list[EngineOp] = []
    for at, x in enumerate(program.instructions):
        complete = last_write.get(x.dst) == at
        output = x.dst - first_output
        dst, a = (register.get(slot, ACCUMULATOR) for slot in (x.dst, x.x))
        b = register.get(x.y, ACCUMULATOR) if x.y >= 0 else 0
        if x.op is Op.SCALE and complete and dst == ACCUMULATOR:
            ops.append((STORE, place[output], a, 0, float(x.coefficient)))
            continue
        ops.append((x.op.value, dst, a, b, float(x.coefficient)))
        if complete:
            ops.append((STORE, place[output], dst, 0, 1.0))
    return ops, n_temporaries
