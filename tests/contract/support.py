"""The subjects: what multiplies, elements of which type, whose arrays, by which call.

A new backend, element type, arithmetic, algorithm, array library or call is a row of one of the
tables here; every test of this folder that fits then runs for it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import falcon
from falcon._backends import BACKENDS, DEVICE
from falcon._core.dtypes import ON_GPUS, TABLE, DType, dtype_of
from reference.classical import classical

from ..support import CHANGED, is_drawn
from .libraries import LIBRARIES
from .places import LAYOUTS
from .third import ThirdBackend
from .values import rounded, whole, widest

# Odd, so that blocks of every scheme have edges; larger than the tiles of kernels.
SIZE = (61, 67, 53)
LARGE = (163, 171, 199)  # integers of 64 bits are multiplied as float64 from such a size on

# --- the tables ------------------------------------------------------------------------------

ALGORITHMS = ("classical", "strassen")
MORE_ALGORITHMS = ("2x4x2:14", "auto")  # of the types of `SOME`
SOME = ("float32", "bfloat16", "complex64", "int16")
SPLITS = ("bf16x6", "bf16x3")
SPLITS_ON_GPUS = ("bf16x6", "fp16x3")


class Multiplies(NamedTuple):
    """What a backend multiplies."""

    types: Callable[[DType], bool]
    has_schemes: bool = True  # besides the classical algorithm
    splits: tuple[str, ...] = ALGORITHMS  # with which float32 is multiplied by splits


# Every backend has its row.
BY_BACKEND = {
    "cpu": Multiplies(lambda row: row.engine is not None),
    "numpy": Multiplies(lambda row: True, splits=()),
    DEVICE: Multiplies(lambda row: row in ON_GPUS),
    "scipy": Multiplies(lambda row: row.name in ("float32", "complex64"), False, splits=()),
}
# A backend that is added to falcon's while a test needs it.
THIRD = ThirdBackend()
# Types of a and b, and of a result that is asked for by `dtype`: as if both were cast first.
CAST = (
    *(("int8", "int8", "int32"), ("uint8", "int8", "int32"), ("int8", "uint8", "int32")),
    *(("int16", "int8", "int32"), ("uint8", "int16", "int64"), ("int8", "float16", "float32")),
    *(("float16", "bfloat16", "float32"), ("bfloat16", "bfloat16", "float32")),
    *(("bfloat16", "bfloat16", "float64"), ("float64", "float32", "float16")),
    *(("float32", "float32", "complex64"), ("float32", "float64", "bfloat16")),
)
# Calls, by how they are made; `how` holds the other keywords.
DOORS: dict[str, Callable] = {
    "gemm": lambda a, b, c, how: falcon.gemm(a, b, c, **how),
    "packed": lambda a, b, c, how: falcon.gemm(a, falcon.pack(b, **planning(how)), c, **given(how)),
    "matmul": lambda a, b, c, how: falcon.matmul(a, b, **how),
    "batch": lambda a, b, c, how: by_batch(a, b, **how),
    "einsum": lambda a, b, c, how: falcon.einsum("ij,jk->ik", a, b, **how),
    "plan": lambda a, b, c, how: falcon.plan(a, b, **planning(how))(a, b, how.get("out")),
}
WITH_SCALARS = ("gemm", "packed")  # the calls that take alpha, beta and c


def planning(how):
    return {key: x for key, x in how.items() if key not in ("out", "alpha", "beta", "check")}


def given(how):
    """What is said again where b is packed: its scheme and backend are known."""
    again = ("out", "alpha", "beta", "check", "threads", "workspace_limit")
    return {key: how[key] for key in again if key in how}


def by_batch(a, b, out=None, **how):
    """One matrix of a batch; einsum's letters of NumPy."""
    product = falcon.matmul(a[None], b, out=None if out is None else out[None], **how)
    return product[0] if out is None else out


@dataclass(frozen=True)
class Subject:
    """One way to multiply; it is called on arrays of its library."""

    backend: str
    row: DType
    scheme: str = "classical"
    arithmetic: str = "auto"
    library: str = "numpy"
    door: str = "gemm"
    size: tuple[int, int, int] = SIZE
    cast: tuple[DType, DType] | None = None  # the types of b and of the result, if not `row`
    reproducible: bool | str = False  # the setting

    def __str__(self):
        usual = {"arithmetic": "auto", "library": "numpy", "door": "gemm", "size": SIZE}
        usual["reproducible"] = False
        more = [str(getattr(self, x)) for x, y in usual.items() if getattr(self, x) != y]
        kinds = dict.fromkeys(x.name for x in self.rows)
        return "-".join([self.backend, *kinds, self.scheme, *more])

    @property
    def rows(self):
        """The types of a, b and of the result."""
        return (self.row, *(self.cast or (self.row, self.row)))

    @property
    def result(self):
        return self.rows[2]

    @property
    def arrays(self):
        """The library of its arrays."""
        return LIBRARIES[self.library]

    @property
    def options(self):
        how = {"backend": self.backend, "scheme": self.scheme}
        if self.arithmetic != "auto":
            how |= {"arithmetic": self.arithmetic, "max_growth": 16}
        if self.cast is not None:
            how |= {"dtype": self.result.numpy}
        return how

    @property
    def takes_scalars(self):
        return self.door in WITH_SCALARS

    @property
    def is_float(self):
        """Whether all elements are numbers of one type that rounds."""
        return self.cast is None and not self.row.is_exact

    @property
    def layouts(self):
        """Layouts of the library's arrays; a plan takes the machine's byte order alone."""
        known = [x for x in LAYOUTS.values() if x.kind in self.arrays.layouts]
        return [x for x in known if not x.is_swapped or self.door != "plan"]

    def why_absent(self):
        """Why it cannot run on this machine; None if it does."""
        if self.backend == DEVICE:
            return None  # by the stand-in
        reason = {THIRD.name: THIRD, **BACKENDS}[self.backend].why_unavailable()
        if reason is None and self.arithmetic != "auto":
            try:
                falcon.plan(SIZE[:2], SIZE[1:], self.row.numpy, **self.options)
            except TypeError as error:
                assert "need AMX_BF16" in str(error)
                return "this machine has no AMX"
        return reason

    def __call__(self, a, b, c=None, **how):
        return DOORS[self.door](a, b, c, self.options | how)

    def place(self, values, layout="rows"):
        """Copy values to an array of the library, in a layout."""
        return self.arrays.place(values, LAYOUTS[layout] if isinstance(layout, str) else layout)[0]

    def host(self, x):
        return self.arrays.host(x)

    def operands(self, *shapes, values=None, layout="rows"):
        """Arrays of these shapes; without shapes those of a, b and c."""
        M, K, N = self.size
        shapes = shapes or ((M, K), (K, N), (M, N))
        values, names = values or whole, [x.name for x in self.rows]
        return [self.place(values(names[i], x, i), layout) for i, x in enumerate(shapes)]

    def expected(self, a, b, c=None, alpha=1, beta=0):
        """The exact result for host arrays whose sums are exact, in the type of the result."""
        row, wide = self.result, widest(self.result)
        alpha, beta = (wide(x % 2**64) if row.is_unsigned else wide(x) for x in (alpha, beta))
        a, b = (x.astype(row.numpy).astype(wide) for x in (a, b))
        with np.errstate(all="ignore"):
            made = np.zeros((a.shape[0], b.shape[1]), wide)
            if alpha != 0:
                made = alpha * classical(a, b)
            if beta != 0:
                made = made + beta * c.astype(wide)
            return rounded(made, row)

    def check(self, found, expected):
        """Compare an array of the library with what a host array holds, NaN included."""
        found = self.host(found)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)


def limits(subject, a, b):
    """Limits that the subject's algorithm can keep, with the plans that keep them."""
    most = falcon.plan(a, b, **subject.options).workspace
    for share in (1, 0.7, 0.4, 0.2):
        limit = int(most * share)
        try:
            yield limit, falcon.plan(a, b, workspace_limit=limit, **subject.options)
        except ValueError as error:
            assert f"workspace_limit is {limit}" in str(error)
            assert share < 1


# --- the subjects ----------------------------------------------------------------------------


def algorithms(backend, row):
    """The schemes of a type on a backend."""
    if not BY_BACKEND[backend].has_schemes:
        return ("classical",)
    if backend == "numpy" and row.itemsize == 2 and not row.is_exact:
        return ("classical",)  # NumPy's own loops
    if row.name not in SOME or (backend == DEVICE and row.name != "float32"):
        return ALGORITHMS  # every kernel for GPUs takes a second to compile
    return ALGORITHMS + MORE_ALGORITHMS


def library_of(backend):
    return "cupy" if backend == DEVICE else "numpy"


def all_subjects():
    for backend in (*BACKENDS, DEVICE, THIRD.name):
        types = [row for row in TABLE if BY_BACKEND[backend].types(row)]
        mine = {"library": library_of(backend)}
        for row in types:
            for scheme in algorithms(backend, row):
                yield Subject(backend, row, scheme, **mine)
        for arithmetic in SPLITS_ON_GPUS if backend == DEVICE else SPLITS:
            for scheme in BY_BACKEND[backend].splits:
                yield Subject(backend, dtype_of("float32"), scheme, arithmetic, **mine)
        for door in [x for x in DOORS if x != "gemm"]:
            others = ("bfloat16", "complex64") if backend == DEVICE else ("int16",)
            for row in map(dtype_of, ("float32", *others)):
                for scheme in algorithms(backend, row)[:2] if row in types else ():
                    yield Subject(backend, row, scheme, door=door, **mine)
        for kinds in CAST:
            row, *cast = map(dtype_of, kinds)
            if {row, *cast} <= set(types):
                for scheme in algorithms(backend, cast[1])[:2]:
                    yield Subject(backend, row, scheme, cast=tuple(cast), **mine)
    for scheme in ALGORITHMS:
        yield Subject(DEVICE, dtype_of("float64"), scheme, "fixed", library="cupy")
    yield Subject("cpu", dtype_of("int64"), "auto", size=LARGE)
    for row in map(dtype_of, ("float32", "float64", "bfloat16", "int16", "complex64")):
        for door in DOORS:
            if (row.name, door) != ("bfloat16", "packed"):  # its panels take no out of float32
                yield Subject("cpu", row, "auto", door=door, reproducible="rows")
    for scheme in ALGORITHMS:
        yield Subject("cpu", dtype_of("complex64"), scheme, door="plan")
    for library in LIBRARIES.values():
        for name in library.types:
            for scheme in ALGORITHMS:
                yield Subject("cpu", dtype_of(name), scheme, library=library.name)
        for door in ("packed", "matmul", "batch") if library.types and library.is_written else ():
            yield Subject("cpu", dtype_of("float32"), "strassen", library=library.name, door=door)


SUBJECTS = tuple(all_subjects())

# --- which of them run -----------------------------------------------------------------------

SAMPLE = 8  # of the subjects that this does not concern, each test runs for one in so many


def has_other_kernels(subject):
    """Whether the instruction set in use has others for the subject's types than the best has."""
    from falcon._cpu.extension import _core, isa

    names = {x.engine for x in subject.rows}
    return any(_core.kernel_info(x, isa())["name"] != _core.kernel_info(x)["name"] for x in names)


IS_CONCERNED = {
    None: lambda x: True,
    "kernels": lambda x: x.backend == "cpu" and has_other_kernels(x),
    "threads": lambda x: x.backend == "cpu" and x.row.name in SOME and x.library == "numpy",
    "compiler": lambda x: x.backend == "numpy" and x.row.name in SOME,
    "packages": lambda x: x.library == "torch",
}


def over(fits=lambda subject: True):
    """Parametrize a test over the subjects that its contract fits, or over a sample."""

    def decorate(test):
        def runs(x):
            drawn = is_drawn(f"{test.__name__} {x}", SAMPLE)
            return fits(x) and (IS_CONCERNED[CHANGED](x) or drawn)

        chosen = [pytest.param(x, id=str(x)) for x in SUBJECTS if runs(x)]
        return pytest.mark.parametrize("subject", chosen, indirect=True)(test)

    return decorate
