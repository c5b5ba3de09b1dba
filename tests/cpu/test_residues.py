"""The engine's passes modulo p: those of NumPy, for every type, layout, instruction set."""

import numpy as np
import pytest

from falcon._core.dtypes import FLOAT64, dtype_of
from falcon._core.modular import Residues, coprime
from falcon._cpu import _core
from falcon._cpu import residues as by_engine
from falcon._numpy import residues as by_numpy

INTEGERS = [np.dtype(x) for x in "bBhHiIqQ"]
MODULI = [2, 3, 255, 1009, 2**20 - 3, 2**31 - 2, 2**31 - 1, 2**53, 2**61 - 1, 2**62]
every_isa = pytest.mark.parametrize("isa", _core.supported_isas())
every_modulus = pytest.mark.parametrize("modulus", MODULI)


def whole(random, shape, dtype):
    info = np.iinfo(dtype)
    x = random.integers(info.min, info.max, shape, dtype, endpoint=True)
    if x.itemsize == 8:  # some runs of 512 have digits, but not others
        x[:, :600] >>= np.array(random.choice([12, 32, 33]), dtype)
    return x


@every_isa
@pytest.mark.parametrize("modulus", [0, *MODULI])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_residues_are_those_of_a_number_equal_modulo_p(isa, modulus, dtype):
    """Of least magnitude, or next to p / 2 of its neighbour."""
    random = np.random.default_rng(1)
    ways = [Residues.several((modulus or 5,), dtype_of(x), 1000, 2**64)
            for x in ("int8", "int16", "float64")]  # fmt: skip
    ways += [Residues((modulus,), FLOAT64)] if 0 < modulus < 2**27 else []
    for rows, columns, threads in ((1, 1, 1), (3, 1700, 2)):
        x = whole(random, (rows, 2 * columns), dtype)
        for way, view in ((w, v) for w in ways for v in (x[:, :columns], x[:, ::2], x[::-1, ::-2])):
            found = np.empty((len(way.moduli), rows, columns), way.kind.numpy)
            parts, _, carry = way.of_operand(found)
            _core.modulo([(view, 1, 0, 0)], parts, modulus, carry, threads, isa)
            assert abs(found.astype(int)).max() <= way.largest
            exact = view.astype(object) % modulus if modulus else view.astype(object)
            near = [exact - modulus, exact]
            m, found = np.reshape(way.moduli, (-1, 1, 1)), found.astype(int).astype(object)
            same = [((y - found) % m == 0).all(axis=0) for y in near]
            able = [abs(y) <= modulus * 0.501 if modulus else True for y in near]
            assert ((same[0] & able[0]) | (same[1] & able[1])).all()


@every_isa
@every_modulus
@pytest.mark.parametrize("kind", ["float64", "float32", "int32"])
def test_reductions_are_those_of_python(isa, modulus, kind):
    random = np.random.default_rng(2)
    most = {"float64": 2**53 - 2**33, "float32": 2**23, "int32": 2**31 - 2**9}[kind]
    for dtype in (x for x in INTEGERS if np.iinfo(x).max >= modulus - 1):
        for bits, M, N in ((6, 3, 1500), (60, 5, 40)):
            c = whole(random, (M, N), dtype)
            x = random.integers(-(2**bits), 2**bits, (M, N), endpoint=True)
            moduli = coprime(2**13 if kind == "float64" else 255, 3 * 2**bits)
            way, m = Residues((modulus,), FLOAT64, moduli), np.reshape(moduli, (-1, 1, 1))
            turns = random.integers(-(most // 2**13), most // 2**13, (len(m), M, N))
            sums = (x % m + m * turns).astype(kind)  # equal to x modulo each
            for alpha, beta in (
                (1, 1),
                (modulus - 1, modulus // 2),
                (modulus // 3 + 1, modulus - 1),
            ):
                terms, carry = way.of_sums(sums, modulus, alpha)
                product = alpha * x.astype(object)
                for out in (c.copy(), np.empty((N, 2 * M), dtype)[:, ::2].T):
                    added = out if out.flags.c_contiguous else c
                    both = [*terms, (added, beta, 0, 0)]
                    _core.modulo(both, [(out, 0)], modulus, carry, 2, isa)
                    assert (out == (product + beta * c.astype(object)) % modulus).all()
                alone = np.empty((M, N), dtype)
                for call in (_core.modulo, by_numpy.modulo):
                    call(terms, [(alone, 0)], modulus, carry)
                    assert (alone == product % modulus).all()


def test_matrices_that_the_engine_cannot_address_are_copied_piece_by_piece(doors):
    doors.numbers(copied_at_once=8)  # two lines
    x, wanted = np.arange(-6, 6).reshape(3, 4), [[1, 2, 3, -3], [-2, -1, 0, 1], [2, 3, -3, -2]]
    odd = np.zeros((3, 33), np.int8)[:, 1:].view([("", "i1"), ("x", "i4"), ("", "i1", 3)])["x"]
    odd[...] = x
    for term in (x, x.astype(">i4"), x.astype(">i8"), x.astype("i2", order="F"), odd):
        for found in (np.empty((3, 4)), np.empty((4, 3), ">i4").T, odd.copy()):
            by_engine.modulo([(term, 1, 0, 0)], [(found, 7)], 7)
            assert (found == wanted).all()
    c = x.astype(">u2")
    by_engine.modulo([(x, 3, 0, 0), (c, 1, 0, 0)], [(c, 0)], 7)  # written over a term
    assert (c == (3 * x + x.astype(">u2")) % 7).all()


def test_buffers_that_do_not_fit_are_refused():
    x = np.zeros((3, 4), np.int64)
    with pytest.raises(ValueError, match="does not fit"):
        _core.modulo([(x, 1, 0, 0)], [(np.empty((4, 4)), 7)], 7)
    with pytest.raises(ValueError, match="does not fit"):
        _core.modulo([(np.zeros((3, 5)), 1, 0, 0)], [(x, 0)], 7)
    with pytest.raises(ValueError, match="40 terms and 1 parts"):
        _core.modulo([(x, 1, 0, 0)] * 40, [(x, 0)], 7)
    x.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        _core.modulo([(x, 1, 0, 0)], [(x, 0)], 7)
