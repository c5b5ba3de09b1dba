"""The engine's passes modulo p: those of NumPy, for every type, layout, instruction set."""

import numpy as np
import pytest

from falcon._core.dtypes import FLOAT64
from falcon._core.modular import Residues
from falcon._cpu import _core
from falcon._cpu import residues as by_engine
from falcon._numpy import residues as by_numpy

INTEGERS = [np.dtype(x) for x in "bBhHiIqQ"]
MODULI = [2, 3, 255, 1009, 2**20 - 3, 2**31 - 2, 2**31 - 1]
every_isa = pytest.mark.parametrize("isa", _core.supported_isas())
every_modulus = pytest.mark.parametrize("modulus", MODULI)


def whole(random, shape, dtype):
    info = np.iinfo(dtype)
    x = random.integers(info.min, info.max, shape, dtype, endpoint=True)
    if x.itemsize == 8:  # float64 holds some runs of 512, but not others
        x[:, :600] >>= np.array(random.choice([12, 13, 30]), dtype)
    return x


@every_isa
@every_modulus
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_residues_are_those_of_numpy(isa, modulus, dtype):
    random = np.random.default_rng(1)
    for rows, columns, parts, threads in ((1, 1, 1, 1), (3, 1700, 1, 2), (2, 9000, 3, 2)):
        way = Residues(modulus, FLOAT64, (parts, 1))
        base, largest = way.bases[0], way.largest[0]
        x = whole(random, (rows, 2 * columns), dtype)
        for view in (x[:, :columns], x[:, ::2], x[::-1, columns - 1 :: -1]):
            wanted = np.empty((1, rows, columns), np.int64)
            by_numpy.modulo([view], [1], list(wanted), modulus, modulus)
            for kind, most in (("float64", 2**53), ("float32", 2**24), ("int16", 2**15 - 1)):
                if largest <= most:
                    found = np.empty((parts, rows, columns), kind)
                    _core.modulo([view], [1], list(found), modulus, base, threads, isa)
                    assert abs(found).max() <= largest
                    places = base ** np.arange(parts)[:, None, None]
                    gap = (found.astype(np.int64) * places).sum(axis=0) - wanted[0]
                    assert not (gap % modulus).any()


@every_isa
@every_modulus
@pytest.mark.parametrize("kind", ["float64", "float32", "int32"])
def test_reductions_are_those_of_numpy(isa, modulus, kind):
    random = np.random.default_rng(2)
    most = {"float64": 2**53 - 2**32, "float32": 2**24, "int32": 2**31 - 1}[kind]
    most = min(most, 2**51 * modulus - 1)
    for dtype in (x for x in INTEGERS if np.iinfo(x).max >= modulus - 1):
        for count, M, N in ((1, 3, 1500), (6, 5, 40)):
            c = whole(random, (M, N), dtype)
            sums = random.integers(-most, most, (count, M, N), endpoint=True).astype(kind)
            weights = random.integers(0, modulus, count).tolist()
            for beta in (1, modulus // 2, modulus - 1):
                wanted = np.empty((M, N), np.int64)
                by_numpy.modulo([*sums, c], [*weights, beta], [wanted], modulus)
                for out in (c.copy(), np.empty((N, 2 * M), dtype)[:, ::2].T):
                    added = out if out.flags.c_contiguous else c
                    terms = [*sums, added], [*weights, beta]
                    _core.modulo(*terms, [out], modulus, 0, 2, isa)
                    np.testing.assert_array_equal(out, wanted)


def test_matrices_that_the_engine_cannot_address_are_copied_piece_by_piece(doors):
    doors.numbers(copied_at_once=8)  # two lines
    x, wanted = np.arange(-6, 6).reshape(3, 4), [[1, 2, 3, -3], [-2, -1, 0, 1], [2, 3, -3, -2]]
    odd = np.zeros((3, 33), np.int8)[:, 1:].view([("", "i1"), ("x", "i4"), ("", "i1", 3)])["x"]
    odd[...] = x
    for term in (x, x.astype(">i4"), x.astype(">i8"), x.astype("i2", order="F"), odd):
        for found in (np.empty((3, 4)), np.empty((4, 3), ">i4").T, odd.copy()):
            by_engine.modulo([term], [1], [found], 7, 7)
            assert (found == wanted).all()
    c = x.astype(">u2")
    by_engine.modulo([x, c], [3, 1], [c], 7)  # written over a term
    assert (c == (3 * x + x.astype(">u2")) % 7).all()


def test_buffers_that_do_not_fit_are_refused():
    x = np.zeros((3, 4), np.int64)
    with pytest.raises(ValueError, match="does not fit"):
        _core.modulo([x], [1], [np.empty((4, 4))], 7, 7)
    with pytest.raises(ValueError, match="does not fit"):
        _core.modulo([np.zeros((3, 5))], [1], [x], 7, 0)
    with pytest.raises(ValueError, match="40 terms and 1 parts"):
        _core.modulo([x] * 40, [1] * 40, [x], 7, 0)
    x.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        _core.modulo([x], [1], [x], 7, 0)
