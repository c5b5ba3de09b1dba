"""The engine's passes modulo p: those of NumPy, for every type, layout, instruction set."""

import numpy as np
import pytest

from falcon._core.modular import Residues
from falcon._numpy import residues as by_numpy

from .support import require_cpu

require_cpu()
from falcon._core.dtypes import FLOAT64  # noqa: E402
from falcon._cpu import _core  # noqa: E402
from falcon._cpu import residues as by_engine  # noqa: E402

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
            by_numpy.residues(view, modulus, modulus, wanted)
            for kind, most in (("float64", 2**53), ("float32", 2**24), ("int16", 2**15 - 1)):
                if largest <= most:
                    found = np.empty((parts, rows, columns), kind)
                    _core.residues(view, found, modulus, base, threads, isa)
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
        for shape, bases in (((1, 3, 1, 1500), (1, 1)), ((2, 5, 3, 40), (46341, 1291))):
            M, N = shape[1], shape[3]
            c = whole(random, (M, N), dtype)
            sums = random.integers(-most, most, shape, endpoint=True).astype(kind)
            for alpha, beta in ((1, 1), (modulus - 1, modulus - 1), (modulus // 2, 1)):
                wanted = np.empty((M, N), np.int64)
                by_numpy.reduce(sums, modulus, bases, wanted, alpha, c, beta)
                for out in (c.copy(), np.empty((N, 2 * M), dtype)[:, ::2].T):
                    added = out if out.flags.c_contiguous else c
                    _core.reduce(sums, out, modulus, bases, alpha, added, beta, 2, isa)
                    np.testing.assert_array_equal(out, wanted)


def test_operands_that_the_engine_cannot_address_are_copied():
    x, found = np.arange(-6, 6, dtype=">i4").reshape(3, 4), np.empty((1, 3, 4))
    by_engine.residues(x, 7, 7, found)
    assert (found[0] == [[1, 2, 3, -3], [-2, -1, 0, 1], [2, 3, -3, -2]]).all()
    out = np.empty((3, 4), ">i4")
    by_engine.reduce(found.reshape(1, 3, 1, 4), 7, (7, 7), out, c=x)
    assert (out == 2 * x.astype(int) % 7).all()


def test_buffers_that_do_not_fit_are_refused():
    x = np.zeros((3, 4), np.int64)
    with pytest.raises(ValueError, match="does not fit"):
        _core.residues(x, np.empty((1, 4, 4)), 7, 7)
    with pytest.raises(ValueError, match="neighbours in a line"):
        _core.residues(x, np.empty((1, 3, 8))[:, :, ::2], 7, 7)
    with pytest.raises(ValueError, match="does not fit"):
        _core.reduce(np.zeros((1, 3, 1, 5)), x, 7, (7, 7))
    with pytest.raises((ValueError, BufferError)):
        _core.reduce(np.zeros((1, 3, 1, 8))[..., ::2], x, 7, (7, 7))
