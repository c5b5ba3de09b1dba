"""Plan the CUDA kernels of a scheme: products that share a plane, vector widths, registers.

**Planes.** Products whose rows of W are equal up to sign affect C only through their sum. They form
a *chain*: their operands are laid side by side along the inner dimension, and one longer product
adds them up in its accumulators. A scheme of rank R may then have fewer than R planes of H:
<2,4,2;14>, which is Strassen twice along K, has 7.

**Registers.** A thread holds `width` neighbouring elements of every live value, 16 bytes of them if
the registers allow. The program with shared sums is preferred. If it has too many live values, the
program without shared sums is taken (it has more additions, but the kernels are memory-bound), and
then narrower vectors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from falcon.schemes import Scheme
from falcon.schemes.additions import Coefficient, share

from .program import Instruction, Op, Program, build, most_live

THREADS = 128
# 32-bit registers of a multiprocessor and the most that a thread may have, on every GPU since 2014.
_REGISTERS = 65536
_MOST_REGISTERS = 255
# Registers are allocated in multiples of this number.
_REGISTER_UNIT = 8
# Registers for the program's values, half of a thread's. As many again are for loads that the
# compiler issues ahead, and for sums that it computes at the same time.
_VALUE_REGISTERS = 128
# Registers for addresses and sizes. They are few because the kernels compute each address when it
# is needed, from one base (`times` in common.cuh).
_OTHER_REGISTERS = 48
# The same as _VALUE_REGISTERS if the program streams through its inputs: the compiler then loads
# many of them ahead.
_STREAM_REGISTERS = 80
# The widest access to memory of a thread.
ACCESS_BYTES = 16


@dataclass(frozen=True, slots=True)
class Group:
    """Chains of one length: a single strided-batched product."""

    plane: int  # first plane of H
    count: int  # number of planes
    length: int  # products per plane
    block: int  # first block of At and of Bt; each plane has `length` of them


@dataclass(frozen=True, slots=True)
class Place:
    """Where the operands of a product lie: block, position in its chain, chain length, A's sign."""

    block: int
    position: int
    length: int
    sign: int


@dataclass(frozen=True)
class Products:
    """The products of a scheme, arranged in chains."""

    places: tuple[Place, ...]  # one per product
    groups: tuple[Group, ...]  # longest chains first
    planes: int  # number of planes of H; at most the rank
    # ndarray, shape (m n, planes): Coefficients of the blocks of C in terms of the planes.
    rows: np.ndarray


@lru_cache(maxsize=256)
def products(scheme: Scheme) -> Products:
    """Arrange the products of a scheme in chains."""
    W = scheme.W.reshape(scheme.rank, -1)
    chains: dict[tuple, list[tuple[int, int]]] = {}
    for r, row in enumerate(map(tuple, W.tolist())):
        opposite = tuple(-x for x in row)
        key = opposite if row not in chains and opposite in chains else row
        chains.setdefault(key, []).append((r, 1 if key == row else -1))
    by_length: dict[int, list[list[tuple[int, int]]]] = defaultdict(list)
    for chain in chains.values():
        by_length[len(chain)].append(chain)
    places: dict[int, Place] = {}
    groups: list[Group] = []
    leaders: list[int] = []
    block = 0
    for length in sorted(by_length, reverse=True):
        group = Group(len(leaders), len(by_length[length]), length, block)
        groups.append(group)
        for chain in by_length[length]:
            leaders.append(chain[0][0])
            for position, (r, sign) in enumerate(chain):
                places[r] = Place(block, position, length, sign)
            block += length
    ordered = tuple(places[r] for r in range(scheme.rank))
    return Products(ordered, tuple(groups), len(leaders), W[leaders].T)


@dataclass(frozen=True, slots=True)
class Fit:
    """A program and how a thread runs it."""

    program: Program
    width: int  # neighbouring elements per thread and access
    blocks: int  # thread blocks per multiprocessor, passed to the compiler

    @property
    def registers(self) -> int:
        """The most registers that a thread may take."""
        most = _REGISTERS // (THREADS * self.blocks) // _REGISTER_UNIT * _REGISTER_UNIT
        return min(most, _MOST_REGISTERS)


def fit(rows: np.ndarray, element_bytes: int, sum_bytes: int) -> Fit:
    """Choose a program for the linear combinations `rows` (outputs x inputs), and its vector width.

    `rows`: ndarray of int64 or Fraction.
    `element_bytes`: of an element in memory; a vector of 16 bytes is the widest.
    `sum_bytes`: of an element in registers.
    """
    shared, unshared = build(share(rows)), streamed(rows)
    width = ACCESS_BYTES // element_bytes
    while True:
        words = width * sum_bytes // 4
        for program in (shared, unshared):
            needed = most_live(program) * words
            streams = program.n_inputs > program.n_outputs
            most = _STREAM_REGISTERS if streams and program is unshared else _VALUE_REGISTERS
            if needed <= most:
                return Fit(program, width, _blocks(needed))
        if width == 1:  # the compiler will spill or recompute values
            return Fit(unshared, 1, _blocks(_VALUE_REGISTERS))
        width //= 2


def _blocks(value_registers: int) -> int:
    """Blocks per multiprocessor, at most eight (half of its threads): enough to hide latency."""
    needed = 2 * value_registers + _OTHER_REGISTERS
    needed = -(-needed // _REGISTER_UNIT) * _REGISTER_UNIT
    return max(2, min(8, _REGISTERS // THREADS // needed))


def streamed(rows: np.ndarray) -> Program:
    """Return a program without shared sums that processes inputs or outputs one after the other.

    With at least as many outputs as inputs (Combine A and B), outputs are computed one after the
    other and the inputs stay live; with more inputs (Combine H), it is the other way round.

    Outputs are in the lexicographic order of their terms. The compiler computes leading terms that
    several outputs share only once: in this order such a sum is soon no longer needed, while in
    other orders such sums fill the registers. The order is from the end: the first outputs then
    need only the last inputs, so that not all inputs are loaded at once (at most 32 bytes of a
    thread of the catalogue's 16-bit kernels are spilled; in the order from the start 136).
    """
    n_out, n_in = rows.shape
    scratch, first_output = n_in, n_in + 1
    sums = [[(o, i, rows[o, i]) for i in range(n_in) if rows[o, i]] for o in range(n_out)]
    if n_in <= n_out:
        sums.sort(key=lambda terms: [term[1:] for term in terms], reverse=True)
    terms = [term for terms in sums for term in terms]
    if n_in > n_out:
        terms.sort(key=lambda term: term[1])
    code: list[Instruction] = []
    started: set[int] = set()
    for output, source, coefficient in terms:
        code += _accumulate(first_output + output, source, coefficient, scratch, output in started)
        started.add(output)
    return Program(n_in, 1, n_out, tuple(code))


def _accumulate(
    dst: int, x: int, coefficient: Coefficient, scratch: int, started: bool
) -> Sequence[Instruction]:
    if coefficient == int(coefficient):
        coefficient = int(coefficient)
    if not started:
        return [Instruction(Op.SCALE, dst, x, -1, coefficient)]
    op = Op.ADD if coefficient > 0 else Op.SUB
    if abs(coefficient) == 1:
        return [Instruction(op, dst, dst, x)]
    size = coefficient if coefficient > 0 else -coefficient
    scale = Instruction(Op.SCALE, scratch, x, -1, size)
    return [scale, Instruction(op, dst, dst, scratch)]
