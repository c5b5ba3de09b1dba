"""Programs on NumPy blocks: strips, ragged blocks, mixed dtypes, accumulation, early stop."""

from fractions import Fraction

import numpy as np
import pytest

from falcon.codegen.numpy_exec import run, scratch_slots
from falcon.codegen.program import build
from falcon.schemes.additions import share

MATRIX = np.array([[1, 1, 0], [1, 1, 1], [0, -1, 2], [1, 0, 0], [0, 0, -1]])


def blocks(rng, shapes, dtype):
    return [rng.integers(0, 10, s).astype(dtype) for s in shapes]


def padded(x, shape):
    result = np.zeros(shape, x.dtype)
    result[: x.shape[0], : x.shape[1]] = x
    return result


def expected(matrix, inputs, shape, dtype):
    whole = [padded(x, shape).astype(dtype) for x in inputs]
    with np.errstate(all="ignore"):
        return [sum((np.array(c).astype(dtype) * x for c, x in zip(row, whole, strict=True)),
                    np.zeros(shape, dtype)) for row in matrix.tolist()]  # fmt: skip


def scratch_for(program, shape, dtype, step, ragged, accumulate=False):
    slots = scratch_slots(program, ragged, accumulate=accumulate)
    scratch = np.empty((slots, step, shape[1]), dtype)
    scratch[...] = 77  # what was there before must not matter
    return scratch


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "i4", "u1", "g"])
@pytest.mark.parametrize("step", [1, 2, 3, 5])
@pytest.mark.parametrize("accumulate", [False, True])
def test_even_and_ragged_blocks(dtype, step, accumulate):
    """Inputs are padded with zeros (not to accumulate); outputs are clipped, and may be empty."""
    rng, shape, program = np.random.default_rng(2), (5, 4), build(share(MATRIX))
    for ragged in (0, *[8] * 20):
        shapes = [tuple(rng.integers(0, (6, 5))) if ragged else shape for _ in range(8)]
        inputs = blocks(rng, [shape] * 3 if accumulate else shapes[:3], dtype)
        outputs = blocks(rng, shapes[3:], dtype)
        kept, before = ([x.copy() for x in y] for y in (inputs, outputs))
        scratch = scratch_for(program, shape, dtype, step, ragged, accumulate)
        assert run(program, inputs, outputs, scratch, accumulate=accumulate)
        assert all(map(np.array_equal, inputs, kept))
        wanted = expected(MATRIX, inputs, shape, dtype)
        for found, want, old in zip(outputs, wanted, before, strict=True):
            part = want[: found.shape[0], : found.shape[1]]
            np.testing.assert_array_equal(found, part + old if accumulate else part)


def test_strided_swapped_and_narrower_inputs():
    """The arithmetic is done in the outputs' dtype: int8 sums must not wrap at int8."""
    rng = np.random.default_rng(3)
    program = build(share(MATRIX))
    big = np.full((6, 8), 127, "i1")
    inputs = [big[::2, ::2], rng.integers(0, 99, (4, 3)).astype(">i2").T,
              rng.integers(0, 99, (3, 4))[::-1, ::-1]]  # fmt: skip
    outputs = [np.empty((3, 4)) for _ in range(5)]
    assert run(program, inputs, outputs, scratch_for(program, (3, 4), "f8", 2, 0))
    for found, want in zip(outputs, expected(MATRIX, inputs, (3, 4), "f8"), strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("dtype", ["i1", "u1", "u4", "i8", "u8"])
def test_coefficients_wrap_with_the_dtype(dtype):
    matrix = np.array([[300, -7], [-1, 2**20]])
    program = build(share(matrix))
    inputs = [np.full((2, 2), 5, dtype), np.full((2, 2), 3, dtype)]
    outputs = [np.empty((2, 2), dtype) for _ in range(2)]
    with np.errstate(all="raise"):
        run(program, inputs, outputs, scratch_for(program, (2, 2), dtype, 2, 0))
    for row, found in zip(matrix, outputs, strict=True):
        want = np.array(5 * int(row[0]) + 3 * int(row[1])).astype(dtype)
        np.testing.assert_array_equal(found, want)


def test_fractions():
    program = build(share(np.array([[Fraction(1, 3), Fraction(1)]], dtype=object)))

    def third(dtype):
        inputs, found = [np.ones((2, 2), dtype), np.zeros((2, 2), dtype)], np.empty((2, 2), dtype)
        run(program, inputs, [found], scratch_for(program, (2, 2), dtype, 2, 0))
        return found

    for dtype in ("f4", "f8", "g", "c16"):
        np.testing.assert_array_equal(third(dtype), np.dtype(dtype).type(1) / 3)
    with pytest.raises(TypeError, match=r"coefficient 1/3; int64 is exact"):
        third("i8")


def test_finish_sees_every_finished_strip_once_and_may_stop():
    program = build(share(MATRIX))
    rng = np.random.default_rng(4)
    inputs = blocks(rng, [(6, 4)] * 3, "f8")
    outputs = [np.zeros((6, 4)) for _ in range(4)] + [np.zeros((3, 2))]
    scratch = scratch_for(program, (6, 4), "f8", 2, 8)
    seen = []

    def double(strip):
        seen.append(strip.size)
        strip *= 2
        return True

    assert run(program, inputs, outputs, scratch, finish=double)
    assert sum(seen) == sum(x.size for x in outputs)
    for found, want in zip(outputs, expected(MATRIX, inputs, (6, 4), "f8"), strict=True):
        np.testing.assert_array_equal(found, 2 * want[: found.shape[0], : found.shape[1]])
    calls = []
    stopped = run(program, inputs, outputs, scratch, finish=lambda x: bool(calls.append(x)))
    assert not stopped
    assert len(calls) == 1
