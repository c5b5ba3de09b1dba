"""`DType`: one row per element type that falcon multiplies, the only table of types.

All that depends on an element type is in its row; code generators are passed the row. Rows are
unique objects: they are compared, hashed and copied by identity. A pair of types that kernels
multiply as they are has a row too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from .._tools.locks import importing
from .arithmetic import (
    BY_BFLOAT16,
    BY_FLOAT16,
    BY_FLOAT32,
    BY_FLOAT64,
    FIXED,
    INT64_BY_FLOAT64,
    SPLIT,
    TF32,
    Arithmetic,
)


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type: what it can represent, and its name in each library."""

    name: str  # its name in NumPy or ml_dtypes, and in torch
    itemsize: int  # bytes of an element
    # Half the distance from 1 to the next number (for complex types, that of the real parts); 0 for
    # integers, whose arithmetic wraps and never rounds.
    unit_roundoff: float
    # Of a pair: whether either is.
    is_complex: bool = False
    is_unsigned: bool = False
    # The type in which products of such elements are summed; None: the type itself.
    sums: DType | None = None
    # Other result types that falcon's kernels can write for operands of this type: the
    # accumulators, neither rounded nor wrapped to the type of the operands.
    wide: tuple[DType, ...] = ()
    module: str = "numpy"  # the package that defines its NumPy dtype: "numpy" or "ml_dtypes"
    # BLAS's letter for it (the s of sgemm), where NumPy's BLAS multiplies it.
    blas: str | None = None
    # The CPU engine's name for its kernels; of a complex type, for those of its parts.
    engine: str | None = None
    cuda: str | None = None  # its CUDA C++ type in memory; types with a name are multiplied on GPUs
    cublas: int | None = None  # its cudaDataType
    # CuPy's name for the cublasComputeType_t of products that are summed in this type.
    cublas_sums: str | None = None
    part: DType | None = None  # of a complex type: that of the real and imaginary parts
    # For a row that stands for two: the types of A and B. It has no NumPy dtype.
    pair: tuple[DType, DType] | None = None
    # For elements that are multiplied as numbers of another type, or as parts: how; `pair` is their
    # type twice.
    arithmetic: Arithmetic | None = None
    _numpy: np.dtype | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.arithmetic is not None:
            assert self.pair is not None  # for type checkers
            object.__setattr__(self, "_numpy", self.pair[0].numpy)
        elif self.module == "numpy" and self.pair is None:
            object.__setattr__(self, "_numpy", np.dtype(self.name))

    @property
    def left(self) -> DType:
        """The type of A's elements."""
        return self if self.pair is None else self.pair[0]

    @property
    def right(self) -> DType:
        """The type of B's elements."""
        return self if self.pair is None else self.pair[1]

    @property
    def is_exact(self) -> bool:
        """Whether arithmetic is exact: integers wrap, they never round."""
        return self.unit_roundoff == 0.0

    @property
    def has_blas(self) -> bool:
        """Whether NumPy's BLAS multiplies it; for other types NumPy uses plain loops."""
        return self.blas is not None

    @property
    def accumulator(self) -> DType:
        """The type in which products are summed."""
        return self if self.sums is None else self.sums

    @property
    def result(self) -> DType:
        """The default type of a product: as in NumPy, that of the operands; of a pair, its sums."""
        return self if self.pair is None else self.accumulator

    @property
    def measured(self) -> DType:
        """The row whose rates are its own: rates are measured per type, not per pair.

        Integers by float64 have the rates of float64, and elements that are rounded to another type
        those of that type.
        """
        if self.arithmetic is INT64_BY_FLOAT64:
            return FLOAT64
        if self.rounded is not self.left:
            return self.rounded
        return self if self.pair is None or self.arithmetic is not None else self.pair[0]

    @property
    def splits(self) -> int:
        """Numbers by which an element is multiplied: 1 but for splits of float32."""
        return 1 if self.arithmetic is None else self.arithmetic.splits

    @property
    def multiplied(self) -> DType:
        """The type of these numbers, of A's elements."""
        if self.arithmetic is None or not self.arithmetic.split_type:
            return self.left
        part = _KNOWN[self.arithmetic.split_type]
        return next(x for x in TABLE if x.part is part) if self.is_complex else part

    @property
    def converts(self) -> bool:
        """Whether elements become numbers of another type, so that a product may be redone."""
        return self.multiplied is not self.left

    @property
    def rounded(self) -> DType:
        """The type to which elements are rounded before they are added and multiplied."""
        return self.multiplied if self.splits == 1 else self.left

    @property
    def rounds_once(self) -> bool:
        """Whether sums of elements are formed in the type to which these are rounded."""
        return self.rounded is self.summed

    @property
    def summed(self) -> DType:
        """The type of the accumulators in which kernels sum products of such elements."""
        return self.rounded.accumulator

    @property
    def panel_bytes(self) -> int:
        """Bytes of all numbers by which an element is multiplied."""
        return self.splits * self.multiplied.itemsize

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype in native byte order; ml_dtypes is imported at the first use of bfloat16.

        Raises TypeError: ml_dtypes is missing.
        """
        if self._numpy is None:
            object.__setattr__(self, "_numpy", _imported(self))
        return self._numpy  # type: ignore[return-value]

    @property
    def finfo(self) -> Any:
        """NumPy's `finfo`, or that of the package that defines the dtype; not for exact types."""
        return import_module(self.module).finfo(self.numpy)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<DType {self.name}>"

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return _loaded, (self.name,)  # the row of the process that loads it


def _pair(left: DType, right: DType) -> DType:
    assert left.engine is not None and right.engine is not None  # for type checkers
    return DType(
        f"{left.name} x {right.name}",
        left.itemsize,
        0.0,
        is_unsigned=left.is_unsigned or right.is_unsigned,
        sums=left.wide[0],
        wide=left.wide[:1],
        engine=left.engine + right.engine,
        pair=(left, right),
    )


def _by(how: Arithmetic, row: DType, unit_roundoff: float = 0.0, **about: Any) -> DType:
    about |= {"sums": row, "wide": (row,), "cuda": row.cuda, "pair": (row, row), "arithmetic": how}
    about.setdefault("part", row.part)
    unit_roundoff = unit_roundoff or row.unit_roundoff
    name = f"{row.name} by {how.name}"
    return DType(name, row.itemsize, unit_roundoff, row.is_complex, **about)


def _by_float(row: DType) -> DType:
    return DType(
        f"{row.name} by float64",
        *(row.itemsize, 0.0),
        is_unsigned=row.is_unsigned,
        sums=row,
        wide=(row,),
        engine="i64f64",
        pair=(row, row),
        arithmetic=INT64_BY_FLOAT64,
    )


def _long(kind: Any, *, is_complex: bool = False) -> DType:
    """Return the row of a type whose width depends on the platform."""
    found, unit = np.dtype(kind), float(np.finfo(kind).eps) / 2
    return DType(found.name, found.itemsize, unit, is_complex)


FLOAT32 = DType(
    "float32", 4, 2.0**-24, blas="s", engine="f32", cuda="float", cublas=0,
    cublas_sums="CUBLAS_COMPUTE_32F",
)  # fmt: skip
FLOAT64 = DType(
    "float64", 8, 2.0**-53, blas="d", engine="f64", cuda="double", cublas=1,
    cublas_sums="CUBLAS_COMPUTE_64F",
)  # fmt: skip
FLOAT16 = DType(
    "float16", 2, 2.0**-11, sums=FLOAT32, wide=(FLOAT32,), engine="f16",
    cuda="half_t", cublas=2,
)  # fmt: skip
BFLOAT16 = DType(
    "bfloat16", 2, 2.0**-8, sums=FLOAT32, wide=(FLOAT32,), module="ml_dtypes",
    engine="bf16", cuda="bfloat_t", cublas=14,
)  # fmt: skip
INT32 = DType("int32", 4, 0.0, engine="i32")
INT8 = DType("int8", 1, 0.0, wide=(INT32,), engine="i8")
UINT32 = DType("uint32", 4, 0.0, is_unsigned=True, engine="i32")
UINT8 = DType("uint8", 1, 0.0, is_unsigned=True, wide=(INT32, UINT32), engine="u8")
INT64 = DType("int64", 8, 0.0, engine="i64")
UINT64 = DType("uint64", 8, 0.0, is_unsigned=True, engine="i64")
LONGDOUBLE = _long(np.longdouble)


def _complex(name: str, part: DType, blas: str, cublas: int) -> DType:
    unit, engine = part.unit_roundoff, part.engine
    about: dict[str, Any] = {"is_complex": True, "engine": engine, "part": part}
    about |= {"cublas": cublas, "cublas_sums": part.cublas_sums}
    return DType(name, 2 * part.itemsize, unit, blas=blas, **about)


COMPLEX64 = _complex("complex64", FLOAT32, "c", 4)
COMPLEX128 = _complex("complex128", FLOAT64, "z", 5)
# Messages and tables list types in this order.
TABLE = (
    FLOAT32,
    FLOAT64,
    FLOAT16,
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    INT8,
    DType("int16", 2, 0.0, wide=(INT32,), engine="i16"),
    INT32,
    INT64,
    UINT8,
    DType("uint16", 2, 0.0, is_unsigned=True, engine="i16"),
    UINT32,
    UINT64,
    LONGDOUBLE,
    _long(np.clongdouble, is_complex=True),
)
# Types of 8 bits. bfloat16 holds each of their numbers, and sums of blocks do not overflow there,
# as two large numbers of float8_e5m2 do in float16.
FLOAT8 = {
    row.name: row
    for row in (
        DType("float8_e4m3fn", 1, 2.0**-4, module="ml_dtypes"),
        DType("float8_e5m2", 1, 2.0**-3, module="ml_dtypes"),
    )
}
# Two types in one product: results are accumulators.
PAIRS = (_pair(UINT8, INT8), _pair(INT8, UINT8))
# float32 by other arithmetic: by parts, and rounded.
BY_ARITHMETIC = {x.name: _by(x, FLOAT32, engine=f"f32{x.name.removeprefix('bf16')}") for x in SPLIT}
BY_ARITHMETIC_ON_GPUS = {
    SPLIT[0].name: BY_ARITHMETIC[SPLIT[0].name],
    TF32.name: _by(TF32, FLOAT32, 2.0**-11, cublas_sums="CUBLAS_COMPUTE_32F_FAST_TF32"),
    BY_FLOAT16.name: _by(BY_FLOAT16, FLOAT32),
    FIXED.name: _by(FIXED, FLOAT64, cublas_sums="CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT"),
}
# The rungs of an error that a caller names, beside the own arithmetic: rounded as they are packed.
_AS_FLOAT32, _AS_FLOAT64 = (BY_FLOAT32, FLOAT32, "f64f32"), (BY_FLOAT64, FLOAT64, "f32f64")
RUNGS = {
    row: tuple(_by(how, row, sums.unit_roundoff, engine=engine) for how, sums, engine in hows)
    for row, hows in {
        FLOAT64: (_AS_FLOAT32, (BY_BFLOAT16, FLOAT32, "f64bf16")),
        COMPLEX128: (_AS_FLOAT32,),
        FLOAT32: (_AS_FLOAT64, (BY_BFLOAT16, FLOAT32, "f32bf16")),
        COMPLEX64: (_AS_FLOAT64,),
    }.items()
}
_RUNGS = tuple(x for some in RUNGS.values() for x in some)
# Integers of 64 bits by kernels for float64, where all sums are integers of 53 bits.
BY_FLOAT = {row: _by_float(row) for row in (INT64, UINT64)}
# Types that falcon's own kernels multiply in host memory, those that kernels on GPUs do, and those
# multiplied there.
ENGINE = tuple(row for row in TABLE if row.engine is not None)
CUDA = tuple(row for row in TABLE if row.cuda is not None)
ON_GPUS = tuple(row for row in TABLE if (row.part or row).cuda is not None)
# The engine's names of all that its kernels multiply; the build reads them.
ENGINE_NAMES = tuple(
    dict.fromkeys(
        row.engine
        for row in (*TABLE, *PAIRS, *BY_ARITHMETIC.values(), *BY_FLOAT.values(), *_RUNGS)
        if row.engine is not None
    )
)

# Rows by NumPy dtype and by name. Where long double is double, the first row stands for both.
_KNOWN: dict[np.dtype | str, DType] = {row.name: row for row in reversed(TABLE)}
_KNOWN |= {row.numpy: row for row in reversed(TABLE) if row.module == "numpy"}
_BY_PAIR = {row.pair: row for row in PAIRS}


def dtype_of(dtype: np.dtype | str) -> DType:
    """Return the row of a NumPy dtype in any byte order, or of its name.

    Raises TypeError: it is no dtype, or falcon does not multiply matrices of it.
    """
    row = _KNOWN.get(dtype)
    if row is None:
        row = find(np.dtype(dtype))
    if row is None:
        raise TypeError(
            f"falcon multiplies no matrices of dtype {dtype}; expected integers, floats or complex "
            "numbers"
        )
    return row


def native(dtype: np.dtype) -> np.dtype:
    """Return the dtype in the machine's byte order; those of the new style have no other."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def find(dtype: np.dtype) -> DType | None:
    """Return the row of a NumPy dtype in any byte order; None if falcon does not multiply it."""
    row = _KNOWN.get(dtype)
    if row is None:
        row = _searched(native(dtype))
        if row is not None:
            _KNOWN[dtype] = row
    return row


def find_torch(name: str) -> DType | None:
    """Return the row of torch's dtype of that name; None if falcon does not multiply it."""
    return _KNOWN.get(name.removeprefix("torch."))


def both(left: DType, right: DType) -> DType | None:
    """Return the row for an A and a B of these types; None if no kernel multiplies them."""
    return left if left is right else _BY_PAIR.get((left, right))


def named(arithmetic: str, operand: DType, *, on_gpu: bool = False) -> DType | None:
    """Return the row of an arithmetic by name; None: the elements' own, or one that is not there.

    `operand`: the type of elements, by which rows of one name are told apart.
    """
    some = [x for x in _RUNGS if x.arithmetic is not None and x.arithmetic.name == arithmetic]
    if on_gpu or not some:
        return (BY_ARITHMETIC_ON_GPUS if on_gpu else BY_ARITHMETIC).get(arithmetic)
    return next((x for x in some if x.left is operand), some[0])


def _loaded(name: str) -> DType:
    by_arithmetic = (BY_ARITHMETIC | BY_ARITHMETIC_ON_GPUS).values()
    rows = *PAIRS, *by_arithmetic, *BY_FLOAT.values(), *_RUNGS
    return next((row for row in rows if row.name == name), None) or dtype_of(name)


def _searched(dtype: np.dtype) -> DType | None:
    """Find aliases that NumPy hashes differently, and dtypes of other packages."""
    for row in TABLE:
        if row.module == "numpy" and row.numpy == dtype:
            return row
    known = _KNOWN.get(dtype.name)
    return known if known is not None and known.module == dtype.type.__module__ else None


def _imported(row: DType) -> np.dtype:
    """Import a row's NumPy dtype from the package that defines it."""
    try:
        with importing():
            return np.dtype(getattr(import_module(row.module), row.name))
    except ImportError:
        raise TypeError(
            f"{row.name} needs the package {row.module}: pip install {row.module}"
        ) from None
