"""`Problem`: what the decision needs to know about a multiplication."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, cast

import numpy as np

from .dtypes import DType
from .matrix import Matrix, dense
from .options import Options, threads_of

# Up to 16 rows, falcon's kernels that read B in place ran at 1.08 to 3.0 of the speed of OpenBLAS,
# which copies B, in float32 and at 0.94 to 1.8 in float64 (N and K from 1024 to 8192, 1 and 2
# threads, Zen 4). They were slower with 24 rows in float64, and with 2 rows at N = K = 512.
MOST_ROWS_IN_PLACE, _LEAST_ELEMENTS_IN_PLACE = 16, 2**20
# Up to 63 rows, kernels whose tiles read rows of B while they multiply earlier ones (AVX-512) ran
# at 1.1 to 2.2 in float32, and with more than 32 rows at 0.99 to 1.3 in float64 (N, K from 1024 to
# 14336, 1 and 2 threads, Zen 5). Kernels that keep a panel of B (AVX2) ran at 0.74 to 1.1.
MOST_ROWS_STREAMED = 63
_LEAST_STREAMED_SIDE, _LEAST_STREAMED_ELEMENTS = 1024, 2**22
# Integers of so few products are computed in place, all of C: a triangle takes 2 to 10 times as
# long, as its operands are packed (Zen 4, 2 threads).
_FEW_PRODUCTS = 48**3
# On a GPU smaller products with the own transpose are computed whole: their tiles would fill none.
_LEAST_TRIANGLE_ON_GPU = 2048
_set = object.__setattr__  # sets fields of a frozen dataclass


def has_few_rows(M: int, N: int, K: int, itemsize: int) -> bool:
    """Whether A has so few rows that copying B, as a BLAS does, costs more than multiplying.

    This is when such products leave a BLAS; whether the kernels in use read B in place is the
    engine's to say (`Layout.b_in_place`). Of up to 32 rows in float64, the last panel of 8 rows may
    be nearly empty: they are not streamed.
    """
    if 2 <= M <= MOST_ROWS_IN_PLACE:
        return N * K >= _LEAST_ELEMENTS_IN_PLACE
    few = max(MOST_ROWS_IN_PLACE, 4 * itemsize) < M <= MOST_ROWS_STREAMED
    return few and min(N, K) >= _LEAST_STREAMED_SIDE and N * K >= _LEAST_STREAMED_ELEMENTS


@dataclass(frozen=True, slots=True)
class Problem:
    """One multiplication ``C = alpha A B + beta C``: A is M x K, B is K x N, C is M x N.

    Of a batch, all products are alike, and their layout is that of the first matrices.
    """

    M: int
    N: int
    K: int
    operand: DType  # of A and B, after any conversion; a pair if A and B differ
    # The types in which products are summed and written, by default those of `operand`'s row. If
    # `result` differs from `operand`, it is one of its `wide` types: the accumulators themselves.
    # Not hashed, because they rarely differ for equal operand types.
    accumulator: DType = field(default=cast(DType, None), hash=False)
    result: DType = field(default=cast(DType, None), hash=False)
    # The product needs a buffer of its own before it is written to C: beta is not zero, C overlaps
    # an operand, or C has another dtype than the result.
    buffered: bool = False
    # A BLAS can read the operand as it is: dtype of `operand`, one unit stride.
    a_direct: bool = True
    b_direct: bool = True
    # The operand has the dtype of `operand`, is aligned, with strides of whole elements.
    a_strided: bool = False
    b_strided: bool = False
    # Where the unit strides are: A is by columns, B by rows, C by columns.
    layout: tuple[bool, bool, bool] = (False, True, False)
    # C has the dtype of `result`, is aligned, with strides of whole elements, and overlaps no
    # operand except perhaps c.
    out_direct: bool = True
    out_overlaps_c: bool = False  # the c that is added overlaps C
    packed: bool = False  # B is packed: its sums need not be formed
    threads: int = 1  # how many may be used, by falcon's own code and by NumPy's BLAS
    device: int | None = None  # the GPU that holds the operands; None is host memory
    # The choice, and with it the bits of the result, depend on nothing of the machine but its
    # instruction set: not on threads, memory, or measured rates. "rows": nor do an entry's bits on
    # M and N.
    reproducible: bool | str = False
    # If B is A's transpose in the same memory, and c, if any, is symmetric: the part of C to write,
    # "full", "lower" or "upper". Empty for all other products.
    symmetric: str = ""
    # On a GPU: B is A's transpose, or its conjugate, so that the diagonal is of sums of squares.
    squares: bool = field(default=False, repr=False)
    of_complex: bool = field(default=False, repr=False)  # of a complex product (`reals`)
    # The steps of K have weights (`Weighted`).
    weighted: bool = False
    # If the elements are integers, though of a floating-point type, and results must be exact: how
    # many times the largest sum of K products a number may be. 0: results may be rounded.
    headroom: float = field(default=0.0, repr=False)
    # Products of a batch, of these sizes each.
    count: int = field(default=1, repr=False)

    def __post_init__(self) -> None:
        operand = self.operand
        if self.result is None:
            _set(self, "result", operand.result)
        if self.accumulator is None:
            _set(self, "accumulator", self.result if self.is_wide else operand.accumulator)

    @classmethod
    def of(
        cls,
        a: Matrix,
        b: Matrix,
        c: Matrix | None,
        out: Matrix | None,
        types: tuple[DType, DType],
        options: Options,
        *,
        device: int | None = None,
        packed: bool = False,
        symmetric: str = "",
        weighted: bool = False,
    ) -> Problem:
        """Describe ``out = a @ b + c`` by where and how its matrices, or batches of them, lie.

        `c` is None if it is not read, `out` for a new array by rows.
        `types`: as which a and b are multiplied, and that of the result.
        `packed`: b is packed, or is to be, and read only where the product is redone.
        `weighted`: steps of K are multiplied by weights.
        `symmetric`: the part of C to write; "" asks whether B is A's transpose in the same memory.
        """
        operand, result = types
        (*_, M, K), N = a.shape, b.shape[-1]
        if out is None:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
            out = dense(0, (*batch, M, N), result)
        squares = device is not None and (bool(symmetric) or a.is_transpose(b))
        if device is not None:
            scheme_allows = options.scheme in ("auto", "classical")  # by name it computes all of C
            is_gram = squares and not (packed or c is not None) and M >= _LEAST_TRIANGLE_ON_GPU
            symmetric = (
                "full"
                if scheme_allows and not operand.is_complex and (symmetric or is_gram)
                else ""
            )
        elif symmetric or not (packed or c is not None):
            symmetric = _part_of(a, b, operand, options, symmetric)
        layout = _layout(a, b, c, out, types, device, packed, symmetric)
        layout |= {"packed": packed, "symmetric": symmetric, "weighted": weighted}
        layout["squares"] = squares
        layout["count"] = prod(out.shape[:-2])
        sizes = M, N, K
        return cls.of_sizes(sizes, operand, options, device=device, result=result, **layout)

    @classmethod
    def of_sizes(
        cls,
        sizes: tuple[int, int, int],
        operand: DType,
        options: Options,
        *,
        device: int | None = None,
        **stated: Any,
    ) -> Problem:
        """Describe a product of matrices by rows, written to a new array of the operands' type.

        `sizes`: M, N, K.
        `stated`: fields that differ from that.
        """
        fields: dict[str, Any] = {"layout": (sizes[2] == 1, True, False)}
        fields |= {"a_strided": True, "b_strided": True}
        fields |= {"reproducible": options.reproducible, "device": device, **stated}
        fields.setdefault("threads", 1 if device is not None else threads_of(options))
        return cls(*sizes, operand, **fields)

    @property
    def dtype(self) -> np.dtype:
        """NumPy's dtype of the operands (of A), in native byte order."""
        return self.operand.left.numpy

    @property
    def plain(self) -> Problem:
        """The same product of operands by rows, written to a new array."""
        layout = (self.K == 1, True, False)
        return Problem(
            *(self.M, self.N, self.K, self.operand, self.accumulator, self.result),
            a_strided=True,
            b_strided=True,
            layout=layout,
            threads=self.threads,
            device=self.device,
            headroom=self.headroom,
        )

    @property
    def single(self) -> Problem:
        """One of the products of a batch."""
        return self if self.count == 1 else replace(self, count=1)

    def lying_as(self, other: Problem) -> Problem:
        """The same for operands that lie as those of another problem, and as many."""
        return replace(self, **{name: getattr(other, name) for name in _LIES})

    @property
    def short_sums(self) -> bool:
        """Whether products by parts are summed in short pieces, instead of being centred.

        Sums of squares have no mean to take away; neighbours in rows of complex numbers differ.
        """
        return self.squares or self.of_complex

    @property
    def may_have_units(self) -> bool:
        """Whether products on a GPU look for units along K: not Gram matrices, nor 16 bits."""
        return self.operand.accumulator is self.operand and not self.squares

    @property
    def is_wide(self) -> bool:
        """Whether the result has another type than the operands: that of their accumulators."""
        return self.result is not self.operand

    @property
    def flops(self) -> int:
        """Classical operation count ``2 M N K``."""
        return 2 * self.M * self.N * self.K

    @property
    def is_exact(self) -> bool:
        """Whether arithmetic is exact: integers wrap, they never round, or there is room."""
        return self.operand.is_exact or self.headroom > 0

    @property
    def buffer_bytes(self) -> int:
        """Size of the product buffer."""
        return self.M * self.N * self.result.itemsize if self.buffered else 0

    def __str__(self) -> str:
        text = f"{self.M} x {self.K} @ {self.K} x {self.N} {self.operand}"
        if self.is_wide:
            text += f" to {self.result}"
        if self.device is not None:
            text += f" on cuda:{self.device}"
        if self.count > 1:
            text = f"{self.count} times {text}"
        if self.symmetric:
            text += ", symmetric" + ("" if self.symmetric == "full" else f", {self.symmetric}")
        text += ", weighted" if self.weighted else ""
        return text


# Fields that say where and how operands lie.
_LIES = ("buffered", "a_direct", "b_direct", "a_strided", "b_strided", "layout", "out_direct",
         "out_overlaps_c", "packed", "count")  # fmt: skip


def _part_of(a: Matrix, b: Matrix, operand: DType, options: Options, symmetric: str) -> str:
    """Return the part of C that is written if B is A's transpose; empty: it is none, or all."""
    (*_, M, K), is_plain = a.shape, options.modulus is None
    if operand.is_exact and is_plain and M * M * K <= _FEW_PRODUCTS:
        return "" if symmetric == "full" else symmetric  # bits do not depend on it
    if symmetric:
        return symmetric
    # A scheme by name computes all of C; the rows of a part are those of a general product.
    is_plain = is_plain and options.reproducible != "rows"
    able = options.scheme in ("auto", "classical") and is_plain and M > 1
    return "full" if able and a.is_transpose(b) else ""


def _layout(
    a: Matrix,
    b: Matrix,
    c: Matrix | None,
    out: Matrix,
    types: tuple[DType, DType],
    device: int | None,
    packed: bool,
    symmetric: str,
) -> dict[str, Any]:
    """Return the fields that follow from where and how the matrices lie; see `Problem.of`."""
    operand, result = types
    left = operand.left
    overlaps = out.overlaps(a) or out.overlaps(b)
    overlaps_c = c is not None and out.overlaps(c)
    if packed:
        b = dense(0, b.shape, operand.right)
    a, b, out = a.first, b.first, out.first
    c = None if c is None else c.first
    # Of complex matrices on a GPU rows are read, and written, as real ones (`reals`).
    of_rows = device is not None and operand.is_complex
    a_strided, b_strided = a.holds(left), b.holds(operand.right)
    if device is None:  # falcon's engine writes at any strides, a BLAS at one unit stride
        out_direct = out.holds(result) and not overlaps
        is_whole = c is None and symmetric not in ("lower", "upper")
        buffered = not (is_whole and out_direct and out.is_direct)
    else:
        out_direct = _is_direct(out, of_rows) and out.dtype in (left, left.accumulator)
        is_free = c is None or not overlaps_c or c.is_same(out)
        out_direct = out_direct and is_free and not overlaps
        buffered = c is not None and not (
            out_direct and not overlaps_c and _can_add(c, out, of_rows)
        )
    return {
        "buffered": buffered,
        "a_direct": a_strided and _is_direct(a, of_rows),
        "b_direct": b_strided and b.is_direct,
        "a_strided": a_strided,
        "b_strided": b_strided,
        "layout": (  # copies are by rows; a single column has a unit stride both ways
            a.strides[0] == 1 if a_strided else a.shape[1] == 1,
            not b_strided or b.strides[1] == 1,
            out_direct and out.by_columns,
        ),
        "out_direct": out_direct,
        "out_overlaps_c": overlaps_c,
    }


def _is_direct(x: Matrix, of_rows: bool) -> bool:
    return x.is_by_rows if of_rows else x.is_direct


def _can_add(c: Matrix, out: Matrix, of_rows: bool) -> bool:
    """Whether cuBLAS adds c to out, by rows or columns as that is; or one line to all of it.

    (With a leading dimension of 0. A c that the result overwrote could not be added again where a
    region is repaired.)
    """
    is_line = c.strides == ((1, 0) if out.by_columns else (0, 1)) and not of_rows
    is_read = _is_direct(c, of_rows) or is_line
    return is_read and c.dtype is out.dtype and c.by_columns == out.by_columns
