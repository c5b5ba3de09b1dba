"""Execution: the stages of one multiplication, launched one after another in the current stream.

::

    for each chunk of rows, columns:                      (one chunk without a workspace limit)
        for each chunk of the inner dimension:
            Combine A, Combine B    A, B  -> At, Bt       sources.combine_in, once each
            products                At, Bt -> H           a strided-batched call per chain length
        Combine H                   H     -> C            alpha, beta, C and out folded in
        repair                                            ends at once unless Combine H marked some

Nothing waits for the device. See docs/gpu.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from falcon._core.plan import Plan
from falcon.codegen.cuda_plan import products
from falcon.schemes import Scheme

from . import device, kernels
from .geometry import Buffers, Sizes, block_sizes, mark_bytes, matrix_bytes, round_up, spans
from .matrix import ITEM_BYTES, Matrix, Operand, dense
from .packed import Packed
from .sources import SUMS_DTYPE

# Workspaces that a recorded graph will use when it is replayed.
_kept: list[Any] = []


def execute(
    plan: Plan,
    a: Matrix,
    b: Matrix,
    c: Matrix | None,
    out: Matrix,
    *,
    packed: Packed | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    check: str = "finite",
) -> None:
    """Write ``alpha a b + beta c`` to `out`, on the current device and stream.

    Parameters
    ----------
    plan : Plan
    a, b, out : Matrix
        Of any strides and floating dtype; `out` must not overlap `a` or `b` unless it has to be
        converted anyway.
    c : Matrix, optional
        May be `out`, or not overlap it.
    packed : Packed, optional
        The sums of `b`.
    check : {"finite", "none"}
        See `falcon.gemm`.
    """
    call = _Call.of(plan, a, b, c, out, packed)
    memory = device.allocate(call.nbytes)
    if device.is_capturing():
        _kept.append(memory)
    a, b, c, target = call.settle(int(memory.data.ptr))
    if plan.scheme is None:
        _classical(plan, a, b, c, target, alpha, beta)
    else:
        stages = _Stages(plan, plan.scheme, a, b, target, packed, call.place(memory))
        stages.run(c, alpha, beta, check)
    if target is not out:
        kernels.copy(target, out)


def release() -> None:
    """Free the workspaces of recorded graphs."""
    _kept.clear()


def copied_bytes(
    M: int, N: int, K: int, dtype: str, *, a: bool, b: bool, c: bool, out: bool
) -> tuple[int, int, int, int]:
    """Return the bytes of the copies of those operands that need one."""
    item, sums = ITEM_BYTES[dtype], ITEM_BYTES[SUMS_DTYPE[dtype]]
    sizes = (
        (a, M, K, item),
        (b, K, N, item),
        (c, M, N, sums),  # an out of the sums' dtype takes a c of that dtype
        (out, M, N, item),
    )
    return tuple(  # type: ignore[return-value]
        matrix_bytes(rows, columns, width) if needed else 0
        for needed, rows, columns, width in sizes
    )


@dataclass(frozen=True)
class _Call:
    """The operands of a call, and the copies that they need."""

    plan: Plan
    operands: tuple[Matrix, Matrix, Matrix | None, Matrix]
    copied: tuple[bool, bool, bool, bool]
    packed: Packed | None

    @classmethod
    def of(
        cls,
        plan: Plan,
        a: Matrix,
        b: Matrix,
        c: Matrix | None,
        out: Matrix,
        packed: Packed | None,
    ) -> _Call:
        dtype = plan.problem.dtype.name
        product = needs_product(out, a, None if packed else b, c, dtype)
        copied = (
            not readable(a, dtype),
            packed is None and not readable(b, dtype),
            plan.scheme is not None and c is not None and needs_copy(c, None if product else out),
            product,
        )
        return cls(plan, (a, b, c, out), copied, packed)

    @property
    def _copies(self) -> tuple[int, int, int, int]:
        p = self.plan.problem
        a, b, c, out = self.copied
        return copied_bytes(p.M, p.N, p.K, p.dtype.name, a=a, b=b, c=c, out=out)

    @property
    def _start(self) -> int:
        return sum(round_up(x, 256) for x in self._copies)

    @property
    def buffers(self) -> Buffers:
        """Sizes of At, Bt, H and the marks."""
        dtype = self.plan.problem.dtype.name
        if self.plan.scheme is None:
            return Buffers(0, 0, 0, 0)
        return Buffers.of(
            local_chunk(self.plan),
            products(self.plan.scheme),
            ITEM_BYTES[dtype],
            ITEM_BYTES[SUMS_DTYPE[dtype]],
            packed=self.packed is not None,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the workspace."""
        return self._start + self.buffers.total

    def place(self, memory: Any) -> tuple[int, int, int, int]:
        """Return the addresses of At, Bt, H and the marks."""
        return self.buffers.offsets(int(memory.data.ptr) + self._start)

    def settle(self, at: int) -> tuple[Matrix, Matrix, Matrix | None, Matrix]:
        """Copy what must be, from address `at` on; return operands that the kernels can take."""
        dtype = self.plan.problem.dtype.name
        a, b, c, out = self.operands
        places = []
        for nbytes in self._copies:
            places.append(at)
            at += round_up(nbytes, 256)
        target = dense(places[3], out.shape, dtype) if self.copied[3] else out
        if self.copied[0]:
            a = _copied(a, dense(places[0], a.shape, dtype))
        if self.copied[1]:
            b = _copied(b, dense(places[1], b.shape, dtype))
        if c is not None and self.copied[2]:
            like = dense(places[2], out.shape, target.dtype)
            if target.by_columns:
                like = dense(places[2], out.shape[::-1], target.dtype).transposed()
            c = _copied(c, like)
        return a, b, c, target


def readable(x: Matrix, dtype: str) -> bool:
    """Whether cuBLAS and the kernels can read the matrix as it stands."""
    return x.dtype == dtype and x.is_direct


def needs_product(out: Matrix, a: Matrix, b: Matrix | None, c: Matrix | None, dtype: str) -> bool:
    """Whether the product needs a matrix of its own before it is converted into `out`."""
    if not out.is_direct or out.dtype not in (dtype, SUMS_DTYPE[dtype]):
        return True
    if c is not None and c.overlaps(out) and not same(c, out):
        return True
    return out.overlaps(a) or (b is not None and out.overlaps(b))


def same(x: Matrix, y: Matrix) -> bool:
    """Whether the two are one matrix in memory."""
    return (x.pointer, x.strides, x.dtype) == (y.pointer, y.strides, y.dtype)


def needs_copy(c: Matrix, out: Matrix | None) -> bool:
    """Whether Combine H cannot add `c` as it stands to `out` (None: to a buffer by rows).

    A c that is overwritten could not be added again where a region has to be repaired.
    """
    if out is None:
        return True
    alike = c.dtype == out.dtype and c.is_direct and c.by_columns == out.by_columns
    return not alike or c.overlaps(out)


def duplicate(x: Matrix) -> Matrix:
    """Copy a matrix to memory of its own."""
    memory = device.allocate(matrix_bytes(*x.shape, x.itemsize))
    return _copied(x, dense(int(memory.data.ptr), x.shape, x.dtype, memory))


def local_chunk(plan: Plan) -> Sizes:
    """Rows, columns and inner length of the part of every block that is multiplied at a time."""
    return plan.option.tiling[3:6]  # type: ignore[return-value]


def _copied(x: Matrix, target: Matrix) -> Matrix:
    kernels.copy(x, target)
    return target


def _classical(
    plan: Plan, a: Matrix, b: Matrix, c: Matrix | None, out: Matrix, alpha: float, beta: float
) -> None:
    problem = plan.problem
    if c is not None and not same(c, out):
        kernels.copy(c, out)
    device.multiply(
        problem.M,
        problem.N,
        problem.K,
        Operand.of(a),
        Operand.of(b),
        Operand.of(out),
        alpha=alpha,
        beta=0.0 if c is None else beta,
        sums=SUMS_DTYPE[problem.dtype.name],
        tf32=problem.tf32,
    )


class _Stages:
    """The stages of an LCMA over all chunks."""

    def __init__(
        self,
        plan: Plan,
        scheme: Scheme,
        a: Matrix,
        b: Matrix,
        out: Matrix,
        packed: Packed | None,
        places: tuple[int, int, int, int],
    ) -> None:
        problem = plan.problem
        self._plan, self._scheme, self._packed = plan, scheme, packed
        self._a, self._b, self._out = a, b, out
        self._at, self._bt, self._h, self._marks = places
        self._dtype = problem.dtype.name
        self._sums = SUMS_DTYPE[self._dtype]
        self._block = block_sizes(problem.M, problem.N, problem.K, scheme, ITEM_BYTES[self._dtype])
        self._held: dict[str, tuple] = {}

    def run(self, c: Matrix | None, alpha: float, beta: float, check: str) -> None:
        chunk = local_chunk(self._plan)
        rows, columns, inner = (
            spans(size, part) for size, part in zip(self._block, chunk, strict=True)
        )
        for row in rows:
            for column in columns:
                for part in inner:
                    self._combine("u", row, part)
                    if self._packed is None:
                        self._combine("v", part, column)
                    self._products(row, column, part)
                self._finish(row, column, c, alpha, beta, check)

    def _combine(self, factor: str, first: tuple[int, int], second: tuple[int, int]) -> None:
        """Form the sums of a part of A or B, unless they are still there."""
        if self._held.get(factor) == (first, second):
            return
        self._held[factor] = (first, second)
        M, N, K = self._block
        source, target, block = (
            (self._a, self._at, (M, K)) if factor == "u" else (self._b, self._bt, (K, N))
        )
        start, part = (first[0], second[0]), (first[1], second[1])
        kernels.combine_in(self._scheme, factor, source, target, block, start, part)

    def _products(
        self, row: tuple[int, int], column: tuple[int, int], part: tuple[int, int]
    ) -> None:
        item, sum_item = ITEM_BYTES[self._dtype], ITEM_BYTES[self._sums]
        (_, rows), (first_column, columns), (first_inner, inner) = row, column, part
        by_columns, a_columns = self._out.by_columns, self._a.by_columns
        for group in products(self._scheme).groups:
            long = group.length * inner
            plane = rows * inner
            a = Operand(
                self._at + group.block * plane * item,
                rows if a_columns else long,
                a_columns,
                group.length * plane,
                self._dtype,
            )
            if self._packed is not None:
                b = self._packed.group(group, first_column)
            else:
                plane = inner * columns
                b = Operand(
                    self._bt + group.block * plane * item,
                    long if self._b.by_columns else columns,
                    self._b.by_columns,
                    group.length * plane,
                    self._dtype,
                )
            h = Operand(
                self._h + group.plane * rows * columns * sum_item,
                rows if by_columns else columns,
                by_columns,
                rows * columns,
                self._sums,
            )
            device.multiply(
                rows,
                columns,
                long,
                a,
                b,
                h,
                beta=float(first_inner > 0),
                batch=group.count,
                sums=self._sums,
                tf32=self._plan.problem.tf32,
            )

    def _finish(
        self,
        row: tuple[int, int],
        column: tuple[int, int],
        c: Matrix | None,
        alpha: float,
        beta: float,
        check: str,
    ) -> None:
        marks = self._marks if check == "finite" else 0
        if marks:
            device.set_zero(marks, mark_bytes(row[1], column[1]))
        update = kernels.Update(
            self._scheme,
            self._sums,
            self._out,
            c,
            self._block[:2],
            (row[0], column[0]),
            (row[1], column[1]),
            alpha,
            0.0 if c is None else beta,
            marks,
        )
        kernels.combine_out(update, self._h)
        if marks:
            kernels.repair(update, self._a, self._b)
