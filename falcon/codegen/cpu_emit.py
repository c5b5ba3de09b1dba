"""Programs for the CPU engine: operations that it interprets, and C code that it is built with.

Both are made here, so that the code of a program has the bits of its interpretation. Code is made
of the macros of `kernels/code_impl.h`, and so is the same for all instruction sets and types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import frexp
from typing import NamedTuple

from falcon.schemes import M3, ComplexScheme, Scheme, get
from falcon.schemes.additions import Coefficient

from .program import Op, Program, combine_a, combine_b
from .update import Updates, updates

#: The register that never leaves the processor's.
ACCUMULATOR = -1
STORE = "store"
COMPLEX = "3M"


class Operation(NamedTuple):
    """``dst = a + b``, ``dst = a - b``, ``dst = coefficient * a``, or the same stored as an output.

    Registers are inputs, then temporaries, or `ACCUMULATOR`. Slots that do not exist are -2.
    """

    op: str  # of an `Op`, or `STORE`
    dst: int  # a register; of a store, the place of an output
    a: int
    b: int = 0
    coefficient: Coefficient = 1


class Operations(NamedTuple):
    """A program as the engine takes it."""

    n_inputs: int
    n_temporaries: int
    n_outputs: int
    operations: tuple[Operation, ...]


def operations(program: Program, place: Mapping[int, int]) -> Operations:
    """Return a program as operations; output x becomes output place[x].

    The accumulator never leaves the registers, and no output is read: so the additions of an output
    run through the accumulator to a store. One that later sums read is also kept in a temporary.
    """
    first = program.first_output
    last_write = {x.dst: at for at, x in enumerate(program.instructions)}
    register = {slot: slot for slot in range(first)}
    register |= {first + x: ACCUMULATOR for x in range(program.n_outputs)}
    kept = {
        slot
        for x in program.instructions
        for slot in (x.x, x.y)
        if slot != x.dst and register.get(slot) == ACCUMULATOR
    }
    register |= {slot: first + at for at, slot in enumerate(sorted(kept))}
    made = []
    for at, x in enumerate(program.instructions):
        dst, a, coefficient = register.get(x.dst, -2), register.get(x.x, -2), x.coefficient
        is_scale = x.op is Op.SCALE
        is_complete = x.dst >= first and last_write[x.dst] == at
        if not (is_scale and is_complete and dst == ACCUMULATOR):  # else the store scales
            b = 0 if is_scale else register.get(x.y, -2)
            made.append(Operation(x.op.value, dst, a, b, coefficient))
            a, coefficient = dst, 1
        if is_complete:
            made.append(Operation(STORE, place.get(x.dst - first, -1), a, 0, coefficient))
    temporaries = program.n_temporaries + len(kept)
    return Operations(program.n_inputs, temporaries, program.n_outputs, tuple(made))


def of_scheme(scheme: Scheme | ComplexScheme, made: Updates) -> tuple[Operations, Operations]:
    """Return the operations of Combine A and of Combine B, for products in the order of `made`."""
    place = {product: at for at, product in enumerate(made.order)}
    a, b = combine_a.__wrapped__(scheme), combine_b.__wrapped__(scheme)
    return operations(a, place), operations(b, place)


def coded_scheme(name: str) -> Scheme | ComplexScheme:
    """Return the scheme of this name; "3M" and "3M strassen": those for complex matrices."""
    if not name.startswith(COMPLEX):
        return get(name)
    inner = name.removeprefix(COMPLEX).strip()
    return ComplexScheme(M3, get(inner) if inner else None)


def header_of(names: Iterable[str]) -> str:
    """Return the C text of the programs of some schemes."""
    made = [(scheme, updates(scheme)) for scheme in map(coded_scheme, names)]
    return header(dict.fromkeys(x for each in made for x in of_scheme(*each)))


def header(programs: Iterable[Operations]) -> str:
    """Return the C text of some programs: the operations, and the same as straight-line code.

    A kernel defines how many of them, the first ones, it takes as code.
    """
    programs = tuple(programs)
    lines = ["/* Written by falcon/codegen/cpu_emit.py. */", "#ifdef CODE"]
    for number, x in enumerate(programs):
        lines += [f"#if {number} < CODED", f"CODE({number}, {x.n_outputs}) {{"]
        lines += [*map("    ".__add__, _statements(x)), "}", "#endif"]
    lines += [f"static const falcon_code_fn CODES[{len(programs)}] = {{"]
    for number in range(len(programs)):
        lines += [f"#if {number} < CODED", f"CODE_OF({number}),", "#endif"]
    lines += ["};", "#else"]
    for number, x in enumerate(programs):
        ops = ", ".join(map(_initializer, x.operations))
        lines.append(f"static const falcon_op ops_{number}[] = {{{ops}}};")
    lines.append("static const falcon_program coded[] = {")
    for number, x in enumerate(programs):
        sizes = x.n_inputs, x.n_outputs, x.n_temporaries, len(x.operations)
        lines.append(f"{{{', '.join(map(str, sizes))}, ops_{number}, {number + 1}}},")
    lines += ["};", "#endif", ""]
    return "\n".join(lines)


def _initializer(x: Operation) -> str:
    return f"{{FALCON_OP_{x.op.upper()}, {x.dst}, {x.a}, {x.b}, {float(x.coefficient)!r}}}"


def _statements(program: Operations) -> Iterable[str]:
    """Yield the statements of a program; each value has a name of its own."""
    names = {x: f"x{x}" for x in range(program.n_inputs)}
    yield from (f"CODE_INPUT(x{x}, {x});" for x in names)
    for at, x in enumerate(program.operations):
        value, b, c = names[x.a], names.get(x.b), float(x.coefficient)
        if abs(frexp(c)[0]) != 0.5:  # compilers join a product and a sum: it must be exact
            raise ValueError(f"coefficient {x.coefficient} of a program that is to be compiled")
        if c != 1:
            yield f"CODE_SCALE(v{at}, {value}, {c!r});"
            value = f"v{at}"
        if x.op in ("add", "sub"):
            yield f"CODE_{x.op.upper()}(v{at}, {value}, {b});"
            value = f"v{at}"
        if x.op == STORE:
            yield f"CODE_STORE({x.dst}, {value});"
        else:
            names[x.dst] = value
