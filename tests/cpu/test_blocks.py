"""NEON's matrix instructions: what BFMMLA computes, and every small size.

The instructions are emulated (`emulated.py`), so that every machine runs these tests; the checklist
of shapes, strides and schemes is in test_types.py and in the C driver, which compares the emulation
with the instructions where they run (test_neon.py: in QEMU).
"""

import itertools

import ml_dtypes
import numpy as np
import pytest

from falcon._cpu import _core

from . import emulated
from .support import kind_of, pack, same_bits
from .test_amx import TYPES, of_close_exponents
from .test_amx import product as multiplied

BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.fixture
def blocks(emulated_libraries):
    with emulated.kernels(emulated_libraries, "blocks") as isa:
        yield isa


def product(a, b, isa, **options):
    kind = "bf16" if a.dtype == np.uint16 else kind_of(a, b)
    return multiplied(a, b, kind, isa, **options)


def bits(x):
    return np.ascontiguousarray(x.astype(BF16)).view(np.uint16)


def to_odd(x):
    """Round float64 to float32: where it is not exact, to the neighbour whose last bit is 1."""
    near = x.astype(np.float32)
    found = near.view(np.uint32) - (abs(near) > abs(x))  # towards zero
    return (found | (near != x)).view(np.float32)


def test_the_emulated_kernels_are_used(blocks):
    for dtype, isa in emulated.KINDS["blocks"].items():
        found = _core.kernel_info(dtype, blocks)
        assert (found["name"], found["isa"]) == (f"blocks_{dtype}_ukr_8x12", isa)
    assert _core.kernel_info("bf16", "neon_i8mm")["isa"] != "neon_bf16"


def test_bfloat16_is_summed_as_the_manual_says(blocks):
    """Pair by pair of steps: the sum of two products, then that added to C, each rounded to odd."""
    M, N, K = 19, 27, 70  # the last four steps are two steps and padding
    a, b = of_close_exponents((M, K), (K, N))
    want = np.zeros((M, N), np.float32)
    for k in range(0, K, 2):
        even, odd = (np.outer(a[:, q].astype(float), b[q].astype(float)) for q in (k, k + 1))
        want = to_odd(want.astype(float) + to_odd(even + odd))
    assert same_bits(product(bits(a), bits(b), blocks), want)


def entry(x, y, isa):
    """The sum of products, as an entry of a matrix that has several rows and columns."""
    a, b = np.repeat(np.array([x]), 3, 0), np.repeat(np.array([y]).T, 5, 1)
    c = product(bits(a), bits(b), isa)
    assert (c == c[0, 0]).all()
    return c[0, 0]


def test_rounding_to_odd(blocks):
    """Of sums that float64 does not hold, and of those between the largest number and 2^128."""
    above, below = (np.nextafter(np.float32(1), np.float32(x)) for x in (2, 0))
    tiny = 2.0**-60
    assert entry((1, tiny), (1, tiny), blocks) == above
    assert entry((1, 0, tiny), (1, 0, tiny), blocks) == above  # added to C
    assert entry((1, tiny), (1, -tiny), blocks) == below
    assert entry((-1, tiny), (1, tiny), blocks) == -below
    eights = [255 * 2.0**x for x in (120, 112, 104)]  # their sum is 2^128 - 2^104
    most = np.finfo(np.float32).max
    for last, want in ((0, most), (2.0**103, most), (2.0**104, np.inf)):
        for sign in (1, -1):
            assert entry((*eights, 0, last), 5 * [sign], blocks) == sign * want


def test_subnormals_are_zero(blocks):
    """Operands, products and sums."""
    tiny = float(np.finfo(np.float32).tiny)
    assert entry((tiny / 2,), (2.0**100,), blocks) == 0
    assert entry((tiny,), (0.5,), blocks) == 0
    assert entry((tiny,), (1,), blocks) == tiny
    assert entry((1.5 * tiny, -tiny), (1, 1), blocks) == 0
    assert entry((1.5 * tiny, 0, -tiny), (1, 1, 1), blocks) == 0


@pytest.mark.parametrize("dtype", TYPES)
def test_every_small_size(blocks, dtype):
    """Rows without a partner, columns that fill no vector, steps that fill no lane."""
    rng = np.random.default_rng(2)
    for M, N, K in itertools.product(range(1, 11), range(1, 15), (*range(1, 10), 15, 16, 17)):
        if dtype == "bf16":
            x, y = (rng.integers(-8, 9, s).astype(float) for s in ((M, K), (K, N)))
            a, b = bits(x), bits(y)
        else:
            sides = zip(((M, K), (K, N)), TYPES[dtype], strict=True)
            a, b = (rng.integers(0, 256, s, np.uint8).view(kind) for s, kind in sides)
            x, y = a.astype(np.int64), b.astype(np.int64)
        np.testing.assert_array_equal(product(a, b, blocks), x @ y)
        if K in (7, 16):
            packed = pack(b, dtype if dtype == "bf16" else None, isa=blocks)
            np.testing.assert_array_equal(product(a, b, blocks, packed=packed), x @ y)
