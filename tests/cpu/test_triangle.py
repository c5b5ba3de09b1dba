"""The engine's triangles of C, and mirror images: against the whole product, bit for bit."""

from itertools import product

import numpy as np
import pytest

import falcon
from falcon._cpu.programs import engine_scheme
from falcon.schemes import get

from .support import gemm

OTHER = -77


def engine(scheme):
    """The engine's form of a scheme by name; None: classical."""
    return None if scheme is None else engine_scheme(get(scheme))


def expected(whole, triangle, mirrored, before=OTHER):
    """What C holds after a call that forms `triangle` of a symmetric product."""
    if triangle is None or mirrored:
        return whole
    below = np.tri(len(whole), dtype=bool)
    return np.where(below if triangle == "lower" else below.T, whole, before)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i2", "i4"])
@pytest.mark.parametrize("M", [1, 2, 5, 31, 64, 100, 257])
def test_only_the_triangle_is_written_and_mirrored(dtype, M):
    rng = np.random.default_rng(M)
    for K, order, threads in product((1, 7, 300), "CF", (1, 3)):
        x = rng.integers(-2, 3, (K, M)).astype(dtype)
        wide = x.astype(np.int64)
        whole = (wide.T @ wide).astype(dtype)
        for triangle, mirrored, scheme in product(
            ("lower", "upper"), (False, True), (None, "strassen")
        ):
            c = np.full((M, M), OTHER, dtype, order=order)
            mirror = c.T if mirrored else None
            chosen = engine(scheme)
            gemm(x.T, x, c, threads=threads, scheme=chosen, triangle=triangle, mirror=mirror)
            np.testing.assert_array_equal(c, expected(whole, triangle, mirrored))


def test_passes_cut_the_triangle():
    """A workspace so small that M, N and K are cut: parts off the diagonal, several sums of K."""
    rng = np.random.default_rng(2)
    x = rng.integers(-3, 4, (700, 300)).astype("f4")
    whole = x.T @ x
    for blocking in ((96, 128, 700, 0, 0, 0, 0, 0), (120, 64, 256, 64, 2, 1, 0, 0)):
        for triangle, mirrored, threads in product(("lower", "upper"), (False, True), (1, 2)):
            c = np.full((300, 300), OTHER, "f4")
            mirror = c.T if mirrored else None
            gemm(*(x.T, x, c), blocking=blocking, triangle=triangle, mirror=mirror, threads=threads)
            np.testing.assert_array_equal(c, expected(whole, triangle, mirrored))


@pytest.mark.parametrize("limit", [2_000_000, 1_000_000, 600_000])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_passes_cut_a_complex_triangle(limit, dtype):
    """Entries of the other triangle, which are mirrored, are not added to again."""
    rng = np.random.default_rng(3)
    x = (rng.integers(-3, 4, (355, 256)) + 1j * rng.integers(-3, 4, (355, 256))).astype(dtype)
    how = {"backend": "cpu", "scheme": "classical", "workspace_limit": limit}
    plan = falcon.plan(x.T, x, **how)
    assert plan.problem.symmetric
    assert plan.method.chunks[2] < 355 or dtype == "c8"
    np.testing.assert_array_equal(plan(x.T, x), x.T @ x)
    c = x.T @ x
    np.testing.assert_array_equal(falcon.gram(x, conjugate=False, beta=1, c=c, **how), 2 * c)


def test_what_is_refused():
    x, c = np.ones((3, 4), "f4"), np.ones((4, 4), "f4")
    with pytest.raises(ValueError, match="triangle 'left'"):
        gemm(x.T, x, c, triangle="left")
    with pytest.raises(ValueError, match="of a square"):
        gemm(x.T, np.ones((3, 5), "f4"), np.ones((4, 5), "f4"), triangle="lower")
    for mirror in (np.ones((4, 3), "f4"), np.ones((4, 4))):
        with pytest.raises(ValueError, match="mirror"):
            gemm(x.T, x, c, mirror=mirror)
