"""Combination programs: the sums of a scheme as straight-line code over blocks.

All executors and emitters use this intermediate form. Operands are numbered slots::

    0 .. n_inputs-1                          input blocks (read only)
    n_inputs .. n_inputs+n_temporaries-1     temporaries, reused after their last use
    the following n_outputs                  output blocks; may be read once written

There are three instructions: ``dst = x + y``, ``dst = x - y``, ``dst = coefficient * x``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from falcon.schemes import ComplexScheme, Scheme
from falcon.schemes.additions import Coefficient, SharedSums


class Op(Enum):
    """Operations, by the names that the C interpreter knows."""

    ADD = "add"
    SUB = "sub"
    SCALE = "scale"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step: ``dst = x + y``, ``dst = x - y`` or ``dst = coefficient * x`` (y unused)."""

    op: Op
    dst: int
    x: int
    y: int = -1
    coefficient: Coefficient = 1


@dataclass(frozen=True)
class Program:
    """Straight-line code that forms linear combinations of blocks."""

    # Sizes of the three slot ranges, in this order.
    n_inputs: int
    n_temporaries: int
    n_outputs: int
    # Every output is complete before it is read; inputs are never written.
    instructions: tuple[Instruction, ...]

    @property
    def first_output(self) -> int:
        """Slot of output 0."""
        return self.n_inputs + self.n_temporaries

    @property
    def additions(self) -> int:
        """Additions and subtractions per element."""
        return sum(1 for x in self.instructions if x.op is not Op.SCALE)


def most_live(program: Program) -> int:
    """Return the most values that are live at once: inputs, temporaries and outputs."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    spans: list[tuple[int, int]] = []
    for at, x in enumerate(program.instructions):
        for operand in (x.x, x.y):
            if operand >= 0:
                first.setdefault(operand, at)
                last[operand] = at
        if x.dst in first and x.dst not in (x.x, x.y):  # the slot is reused for a new value
            spans.append((first.pop(x.dst), last.pop(x.dst)))
        first.setdefault(x.dst, at)
        last[x.dst] = at
    spans.extend((first[slot], last[slot]) for slot in first)
    change = [0] * (len(program.instructions) + 2)
    for start, end in spans:
        change[start] += 1
        change[end + 1] -= 1
    most = live = 0
    for step in change:
        live += step
        most = max(most, live)
    return most


@lru_cache(maxsize=256)
def combine_a(scheme: Scheme | ComplexScheme) -> Program:
    """Return Combine A: from the m*k blocks of A to the R left operands."""
    return build(scheme.shared_sums[0])


@lru_cache(maxsize=256)
def combine_b(scheme: Scheme | ComplexScheme) -> Program:
    """Return Combine B: from the k*n blocks of B to the R right operands."""
    return build(scheme.shared_sums[1])


@lru_cache(maxsize=256)
def combine_c(scheme: Scheme) -> Program:
    """Return Combine H: from the R products to the m*n blocks of C."""
    return build(scheme.shared_sums[2])


def build(sums: SharedSums) -> Program:
    """Schedule shared sums: temporaries before their first use, slots reused after the last."""
    return _Builder(sums).program()


class _Builder:
    """Depth-first scheduling of `SharedSums` with slot reuse.

    A temporary that equals an output is computed in the output's slot and read from there. While
    building, output i is slot ``~i``: how many temporaries come before it is known at the end.
    """

    def __init__(self, sums: SharedSums) -> None:
        self._sums = sums
        self._place = {x: x for x in range(sums.n_inputs)}  # of a variable: its slot
        self._uses = Counter(x for row in sums.rows for x, _ in row)
        self._uses.update(x for t in sums.temporaries for x in t[:2])
        self._home = {
            row[0][0]: index
            for index, row in reversed(list(enumerate(sums.rows)))
            if len(row) == 1 and row[0][1] == 1 and row[0][0] >= sums.n_inputs
        }
        self._free: list[int] = []
        self._end = sums.n_inputs  # of the temporaries
        self._code: list[tuple[Op, int, int, int | None, Coefficient]] = []

    def program(self) -> Program:
        for index, row in enumerate(self._sums.rows):
            if len(row) == 1 and self._home.get(row[0][0]) == index:
                self._need(row[0][0])
                self._release(row[0][0])
            else:
                self._linear(list(row), ~index)
        n_inputs, end = self._sums.n_inputs, self._end

        def final(slot: int) -> int:
            return slot if slot >= 0 else end + ~slot

        code = tuple(
            Instruction(op, final(dst), final(x), -1 if y is None else final(y), c)
            for op, dst, x, y, c in self._code
        )
        return Program(n_inputs, end - n_inputs, len(self._sums.rows), code)

    def _need(self, variable: int) -> None:
        """Compute a variable, if it has no slot yet."""
        if variable not in self._place:
            x, y, ratio = self._sums.temporaries[variable - self._sums.n_inputs]
            self._need(x)
            self._need(y)
            home = self._home.get(variable)
            slot = self._take() if home is None else ~home
            self._linear([(x, 1), (y, ratio)], slot)
            self._place[variable] = slot

    def _linear(self, terms: list[tuple[int, Coefficient]], dst: int) -> None:
        """Emit ``dst = sum of coefficient * variable``, first the terms with coefficient 1."""
        terms.sort(key=lambda term: (term[1] != 1, abs(term[1]) != 1))
        for variable, _ in terms:
            self._need(variable)
        if not terms:  # no scheme has such an output
            raise ValueError("a linear combination without terms")
        (first, c), rest = terms[0], terms[1:]
        head = self._place[first]
        if c != 1 or not rest:
            self._code.append((Op.SCALE, dst, head, None, c))
            self._release(first)
            head = dst
        for position, (variable, c) in enumerate(rest):
            place = self._place[variable]
            scratch = None
            if abs(c) != 1:
                scratch = self._take()
                self._code.append((Op.SCALE, scratch, place, None, c if c > 0 else -c))
                place = scratch
            self._code.append((Op.ADD if c > 0 else Op.SUB, dst, head, place, 1))
            if position == 0 and head != dst:
                self._release(first)
            head = dst
            if scratch is not None:
                self._free.append(scratch)
            self._release(variable)

    def _take(self) -> int:
        if self._free:
            return self._free.pop()
        self._end += 1
        return self._end - 1

    def _release(self, variable: int) -> None:
        self._uses[variable] -= 1
        if self._uses[variable] == 0 and self._place[variable] >= self._sums.n_inputs:
            self._free.append(self._place[variable])
