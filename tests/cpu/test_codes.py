"""Programs that run as compiled code have the bits of their interpretation.

The code of all schemes of the table runs in the kernels of 64-byte vectors: where the machine has
none, in their templates over plain C (`c/kernels_wide.c`), in the place of AVX-512's.
"""

import ctypes
import itertools
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from falcon._cpu import _core
from falcon._cpu.programs import converted
from falcon._cpu.sources import CODED
from falcon.codegen import updates
from falcon.codegen.cpu_emit import STORE, coded_scheme, of_scheme
from falcon.schemes import ComplexScheme

from ..support import HANG, alone
from .support import SOURCES, gemm, same_bits
from .test_c_driver import COMPILER, DRIVER, require_compiler, write_headers
from .test_fused import measured

WIDE = "f32", "f64", "f16", "i64f64"


@pytest.fixture(scope="module")
def wide(built):
    """The instruction set whose kernels of these types have vectors of 64 bytes."""
    if "avx512" in _core.supported_isas():
        yield "avx512"
        return
    require_compiler()
    made = Path(built) / "wide.so"
    with alone(made.parent):
        if not made.exists():
            write_headers(made.parent, ())
            command = [COMPILER, "-std=gnu11", "-Wno-psabi", "-O0", "-fPIC", "-shared", "-lm"]
            for folder in (SOURCES / "src", DRIVER.parent, made.parent):
                command += ["-I", folder]
            command += [DRIVER.parent / "kernels_wide.c", "-o", made]
            subprocess.run(command, check=True, timeout=HANG)
    loaded = ctypes.CDLL(str(made))
    for dtype in WIDE:
        kernel = ctypes.c_char.in_dll(loaded, f"falcon_kernel_generic_{dtype}")
        _core.put_kernel("avx512", dtype, ctypes.addressof(kernel))
    yield "avx512"
    for dtype in WIDE:
        _core.put_kernel("avx512", dtype, 0)


def interpreted(scheme):
    """The engine's form of a scheme whose programs have a temporary too many: there is no code."""
    made = updates(scheme)
    both = [x._replace(n_temporaries=x.n_temporaries + 1) for x in of_scheme(scheme, made)]
    parts = 2 if isinstance(scheme, ComplexScheme) else 1
    return _core.Scheme(*scheme.format, *both, made, parts)


# Whole strips and edges, in C's order or not; panels in the caches and written past them.
ORDERS = "CCC", "FFF", "FCC", "CFF"
STREAMED = [(0, 0, 0, 0, 0, 0, x, 0) for x in (1, 2)]
CASES = [*itertools.product([(96, 256, 640)], ORDERS, STREAMED)]
CASES += [*itertools.product([(150, 170, 301)], ORDERS, STREAMED[:1])]
CASES += [*itertools.product([(31, 33, 35), (5, 700, 900)], ORDERS[:2], STREAMED[:1])]
TYPES_OF = {"f32": (np.float32, np.complex64), "f64": (np.float64, np.complex128)}


def matrices(kind, shape, order, is_complex=False):
    """A and B of random numbers, and C, in their orders."""
    M, N, K = shape
    rng, dtype = np.random.default_rng(M), np.dtype(TYPES_OF[kind][is_complex])
    for lines, extent, o in ((M, K, order[0]), (K, N, order[1]), (M, N, order[2])):
        x = rng.standard_normal((2, lines, extent))
        yield np.asarray((x[0] + 1j * x[1] if is_complex else x[0]).astype(dtype), order=o)


def results(scheme, isa, kind, shape, order, blocking):
    """What a product comes to, plain, with the sums of lines, and with scales."""
    a, b, c = matrices(kind, shape, order)
    (M, N), K = c.shape, a.shape[1]
    by = {"a_by_columns": order[0] == "F", "b_by_rows": order[1] == "C", "isa": isa}
    by |= {"c_by_columns": order[2] == "F", "blocking": blocking, "scheme": scheme}
    planned = _core.plan(M, N, K, kind, **by)
    found = [*measured(planned, a, b, c), c.copy()]
    rng = np.random.default_rng(K)
    scales = [2.0 ** rng.integers(-3, 3, x) for x in (M, N)]
    _core.gemm(planned, a, b, c, row_scales=scales[0], column_scales=scales[1])
    return [*found, c]


@pytest.mark.parametrize("kind", TYPES_OF)
@pytest.mark.parametrize("name", CODED)
def test_code_has_the_bits_of_its_interpretation(name, kind, wide):
    scheme = coded_scheme(name)
    forms = converted(scheme), interpreted(scheme)
    assert all(forms[0].codes) and not any(forms[1].codes)
    is_complex = isinstance(scheme, ComplexScheme)
    for shape, order, blocking in CASES:
        how = wide, kind, shape, order, blocking
        if not is_complex:
            found, expected = (results(x, *how) for x in forms)
        else:
            a, b, c = matrices(kind, shape, order, True)
            found, expected = [c], [np.empty_like(c)]
            for form, out in zip(forms, (c, expected[0]), strict=True):
                gemm(a, b, out, scheme=form, isa=wide, blocking=blocking)
        for x, y in zip(found, expected, strict=True):
            assert same_bits(x, y), (shape, order, blocking)


@pytest.mark.parametrize("kind", ["f16", "bf16", "i64f64"])
def test_elements_of_another_type_than_panels_are_converted(kind, wide):
    """Kernels share the programs' code with others that have the same panels."""
    dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "i64f64": np.int64}[kind]
    rng = np.random.default_rng(4)
    for order in ORDERS:
        a, b = (np.asarray(rng.integers(-4, 5, x).astype(dtype), order=o)
                for x, o in zip(((96, 640), (640, 1024)), order, strict=False))  # fmt: skip
        expected = a.astype(int) @ b.astype(int)
        c = np.zeros(expected.shape, np.int64 if kind == "i64f64" else np.float32, order[2])
        isas = (None, wide) if kind in WIDE else (None,)
        for name, isa in itertools.product(("strassen", "winograd", "2x4x4:26"), isas):
            c[...] = -1
            gemm(a, b, c, kind=kind, isa=isa, scheme=converted(coded_scheme(name)))
            np.testing.assert_array_equal(c, expected, err_msg=f"{name} {order} {isa}")


FIELDS = {"op": "sub", "dst": 0, "a": 1, "b": 1, "coefficient": -1}


@pytest.mark.parametrize("field", FIELDS)
def test_a_program_that_differs_anywhere_is_interpreted(field):
    """Programs are known by all that they do, not by a name."""
    scheme = coded_scheme("strassen")
    made = updates(scheme)
    left, right = of_scheme(scheme, made)
    is_store = field in ("dst", "coefficient")
    for at, x in enumerate(left.operations):
        if (x.op == STORE) != is_store or getattr(x, field) == FIELDS[field]:
            continue
        other = list(left.operations)
        other[at] = x._replace(**{field: FIELDS[field]})
        form = _core.Scheme(*scheme.format, left._replace(operations=tuple(other)), right, made)
        assert form.codes[0] == 0 < form.codes[1], (at, x)
