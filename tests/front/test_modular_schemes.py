"""Products modulo p by every scheme and instruction set, and of tensors."""

from fractions import Fraction

import numpy as np
import pytest

import falcon
from falcon import schemes
from falcon._backends import BACKENDS
from reference.modular import modular

from ..cpu.support import run_script

MODULI = 2, 1009, 2**20, 2**26 - 5, 2**31 - 1
STRASSEN = schemes.get("strassen")


def ends(random, shape, p):
    """Return the residues of which products and sums are largest, with any signs."""
    return random.choice([p // 2, -(p // 2), p - 1, (p + 1) // 2], shape)


@pytest.mark.parametrize("name", [*schemes.names(), "strassen@strassen", "winograd@3x3x3:23"])
def test_every_scheme(name):
    random = np.random.default_rng(1)
    M, K, N = (3 * x + (x > 1) for x in schemes.get(name).format)
    for p in MODULI:
        for a, b in (
            (random.integers(0, p, (M, K)), random.integers(0, p, (K, N))),
            (ends(random, (M, K), p), ends(random, (K, N), p)),
        ):
            found = falcon.gemm(a, b, modulus=p, scheme=name)
            np.testing.assert_array_equal(found, modular(a, b, p))


@pytest.mark.parametrize("p", MODULI)
def test_schemes_of_slices(p):
    """K is longer than the sums of any scheme are exact."""
    random = np.random.default_rng(2)
    for name in ("strassen", "3x3x3:23", "4x4x4:49", "winograd@strassen"):
        a, b = ends(random, (33, 9000), p), ends(random, (9000, 34), p)
        c = ends(random, (33, 34), p)
        found = falcon.gemm(a, b, c, alpha=-3, beta=2, modulus=p, scheme=name)
        np.testing.assert_array_equal(found, (-3 * modular(a, b, p) + 2 * c) % p)


@pytest.mark.parametrize("p", MODULI)
def test_halves(p):
    """Halves are exact in floats, also modulo an even p; thirds are not."""
    a, b = (ends(np.random.default_rng(3), (41, 900), p) for _ in "ab")
    half, third = Fraction(1, 2), Fraction(1, 3)
    for first, last in ((half, 1), (half, half)):
        u, v, w = STRASSEN.U * first, STRASSEN.V * last, STRASSEN.W * int(1 / (first * last))
        scheme = falcon.Scheme(u, v, w, name="halved")
        found = falcon.gemm(a, b.T, modulus=p, scheme=scheme)
        np.testing.assert_array_equal(found, modular(a, b.T, p))
    scheme = falcon.Scheme(STRASSEN.U * third, STRASSEN.V, STRASSEN.W * 3, name="thirds")
    with pytest.raises(TypeError, match="thirds"):
        falcon.gemm(a, b.T, modulus=p, scheme=scheme)


FORCED = """
import numpy as np, falcon
from reference.modular import modular
random = np.random.default_rng(4)
for p in (2, 100, 127, 251, 1009, 2**20 + 7, 2**31 - 1):
    for dtype in ("i1", "u2", "i8"):
        info = np.iinfo(dtype)
        a, b = (random.integers(info.min, info.max, x, dtype, endpoint=True)
                for x in ((70, 300), (300, 90)))
        for scheme in ("auto", "strassen"):
            found = falcon.gemm(a, b, modulus=p, dtype="i8", scheme=scheme)
            assert (found == modular(a, b, p)).all(), (p, dtype, scheme)
"""


@pytest.mark.skipif(BACKENDS["cpu"].why_unavailable() is not None, reason="needs the extension")
def test_lesser_instruction_sets():
    from falcon._cpu import _core

    for isa in _core.supported_isas()[1:]:
        run_script(FORCED, FALCON_ISA=isa)


def test_tensors():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(5)
    a, b = random.integers(-(2**40), 2**40, (2, 60, 60))
    found = falcon.matmul(torch.from_numpy(a), torch.from_numpy(b), modulus=1009)
    assert found.dtype == torch.int64
    np.testing.assert_array_equal(found.numpy(), modular(a, b, 1009))
