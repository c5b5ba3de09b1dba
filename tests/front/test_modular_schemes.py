"""Products modulo p by every scheme and instruction set, and of tensors."""

import pickle
import re
from fractions import Fraction

import numpy as np
import pytest

import falcon
from falcon import schemes
from reference.modular import modular as by_floats

MODULI = 2, 1009, 2**20, 2**26 - 5, 2**31 - 1, 2**61 - 1
STRASSEN = schemes.get("strassen")


def modular(a, b, p):
    """Return the product by Python's integers, or by floats that never round where p is small."""
    if p < 2**31:
        return by_floats(a, b, p)
    return (a.astype(object) @ b.astype(object) % p).astype(np.int64)


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
        wanted = -3 * modular(a, b, p).astype(object) + 2 * c.astype(object)
        np.testing.assert_array_equal(found, wanted % p)


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


def test_tensors():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(5)
    a, b = random.integers(-(2**40), 2**40, (2, 60, 60))
    found = falcon.matmul(torch.from_numpy(a), torch.from_numpy(b), modulus=1009)
    assert found.dtype == torch.int64
    np.testing.assert_array_equal(found.numpy(), modular(a, b, 1009))


def test_plans():
    random = np.random.default_rng(6)
    for p in (2, *MODULI):
        a, b = random.integers(0, p, (90, 300)), random.integers(0, p, (300, 70))
        wanted = modular(a, b, p)
        for options in ({}, {"scheme": "strassen"}, {"threads": 1}, {"backend": "numpy"}):
            plan = falcon.plan(a, b, modulus=p, **options)
            for made in (plan, pickle.loads(pickle.dumps(plan))):
                np.testing.assert_array_equal(made(a, b), wanted)
                assert f"modulo {p}" in str(made)
                np.testing.assert_array_equal(made.error_bound(a, b), np.zeros(wanted.shape))
            if "scheme" in options:
                assert plan.scheme.name == "strassen"
            assert str(plan) in plan.explain()
        shapes = falcon.plan(a.shape, b.shape, modulus=p)
        assert str(shapes) == str(falcon.plan(a, b, modulus=p))
    with pytest.raises(ValueError, match="modulus is 1; expected"):
        falcon.plan((9, 9), (9, 9), modulus=1)
    with pytest.raises(TypeError, match="a has dtype float64"):
        falcon.plan(np.ones((9, 9)), b[:9], modulus=7)


@pytest.mark.parametrize("p", MODULI)
def test_packed(p):
    random = np.random.default_rng(7)
    a, b, c = (random.integers(-(2**62), 2**62, x) for x in ((70, 2000), (2000, 80), (70, 80)))
    wanted = modular(a, b, p)
    for options in ({}, {"scheme": "classical"}, {"scheme": "strassen"}, {"backend": "numpy"}):
        packed = falcon.pack(b, modulus=p, **options)
        again = pickle.loads(pickle.dumps(packed))
        loose = falcon.pack(np.asfortranarray(b), modulus=p, keep_source=False, **options)
        for w in (packed, again, loose):
            assert w.modulus == p
            np.testing.assert_array_equal(falcon.gemm(a, w, modulus=p), wanted)
            np.testing.assert_array_equal(a @ w, wanted)
            np.testing.assert_array_equal(falcon.matmul(a[3], w), wanted[3])
            np.testing.assert_array_equal(falcon.matmul(a[:, None, :], w)[:, 0], wanted)
            found = falcon.gemm(a[::-1], w, c, alpha=-2, beta=3)
            both = -2 * wanted[::-1].astype(object) + 3 * c.astype(object)
            np.testing.assert_array_equal(found, both % p)
    falcon.gemm(a, packed, check="verify")
    for M, K, N in ((0, 4, 3), (4, 0, 3), (4, 3, 0)):
        x, empty = np.ones((M, K), int), falcon.pack(np.ones((K, N), int), modulus=p)
        np.testing.assert_array_equal(falcon.gemm(x, empty), np.full((M, N), K % p))
        for w in (empty, falcon.pack(np.ones((K, N)), scheme="classical")):
            assert falcon.plan((M, K), w).problem.packed
    with pytest.raises(ValueError, match="modulus is 5, but b was packed for modulus"):
        falcon.gemm(a, packed, modulus=5)
    with pytest.raises(ValueError, match="packed for products without a modulus"):
        falcon.matmul(a, falcon.pack(b), modulus=p)


def test_packed_where_only_numpy_runs(doors):
    doors.without("cpu")
    a, b = np.arange(12).reshape(3, 4), np.arange(20, dtype="u1").reshape(4, 5)
    packed = falcon.pack(b, modulus=7, dtype="i8")
    np.testing.assert_array_equal(falcon.gemm(a, packed), a @ b % 7)


@pytest.mark.parametrize("p", MODULI)
def test_workspace_limits(p):
    """What fits is found: shorter slices of K, fewer parts, less workspace, or the classical."""
    a, b = np.random.default_rng(9).integers(0, p, (2, 300, 300))
    wanted = modular(a, b, p)
    with pytest.raises(ValueError, match=r"limit is 9 bytes; .* needs at least \d") as caught:
        falcon.gemm(a, b, modulus=p, workspace_limit=9)
    least = int(re.search(r"at least (\d+)", str(caught.value))[1])
    usual = falcon.plan(a, b, modulus=p).workspace
    for limit in (usual, (usual + least) // 2, least + 2**18):
        plan = falcon.plan(a, b, modulus=p, workspace_limit=limit)
        assert plan.workspace <= limit
        found = falcon.gemm(a, b, modulus=p, workspace_limit=limit)
        np.testing.assert_array_equal(found, wanted)
        out = a.copy()  # read by later slices
        falcon.gemm(out, b, modulus=p, workspace_limit=limit, out=out)
        np.testing.assert_array_equal(out, wanted)
