"""How many roundings sums of a line's products have: the pass that an error by name measures."""

import numpy as np
import pytest

import falcon
from falcon._cpu.extension import why_unavailable

if (reason := why_unavailable()) is not None:
    pytest.skip(reason, allow_module_level=True)

from falcon._cpu import _core

ISAS = _core.supported_isas()


def counted(x, slice_):
    """Return the squared norms, and the squares of the shares of a line that are in its sums."""
    squares = np.abs(x.astype(np.complex128)) ** 2
    found = np.zeros(len(x))
    for k in range(0, x.shape[1], slice_):
        found += (np.cumsum(squares[:, k : k + slice_], axis=1) ** 2).sum(axis=1)
        found += squares[:, : k + slice_].sum(axis=1) ** 2
    return squares.sum(axis=1), found / squares.sum(axis=1) ** 2


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", ["f32", "f64", "f64f32", "f32f64"])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize(("lines", "K", "slice_"), [(1, 1, 1), (5, 300, 128), (70, 1000, 112)])
def test_counts(isa, kind, order, lines, K, slice_):
    x = np.random.default_rng(0).standard_normal((lines, K))
    x = x.astype("f4" if kind.startswith("f32") else "f8")
    x = (
        np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3]
        if order == "strided"
        else np.array(x, order=order)
    )
    squares, want = counted(x, slice_)
    for axis, y in ((0, x), (1, x.T)):
        for threads in (1, 3):
            found = np.empty((4, lines))
            _core.roundings(y, found, slice_, axis, threads, isa, kind)
            np.testing.assert_allclose(found[0], squares, rtol=1e-5)
            # Within 64 steps shares are taken to grow evenly.
            assert (0.9 * want <= found[1]).all()
            assert (found[1] <= 1.1 * want + 32 / max(K // slice_, 1)).all()


def test_extremes():
    K, n = 1024, 8
    even, first, last = np.ones(K), np.zeros(K), np.zeros(K)
    first[0] = last[-1] = 1
    found = np.empty((4, 3))
    _core.roundings(np.array([even, first, last]), found, K // n)
    assert found[1][0] == pytest.approx(K / (3 * n * n) + n / 3, rel=0.3)
    assert found[1][1] == pytest.approx(K // n + n, rel=0.3)
    assert 1 < found[1][2] < 64
    for value in (np.nan, np.inf, 1e200):
        _core.roundings(np.full((3, K), value), found, K)
        assert not np.isfinite(found[1]).any()
    _core.roundings(np.zeros((3, K)), found, K)
    assert not found[1].any()


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_complex_lines(dtype, order):
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((300, 900)) + 2j * rng.standard_normal((300, 900))).astype(dtype)
    x = np.repeat(x, 2, 1)[:, ::2] if order == "strided" else np.array(x, order=order)
    plan = falcon.plan(x, x.T, error=1e-3, backend="cpu")
    slice_ = plan.method.slice or x.shape[1]
    want = counted(x, slice_)[1]
    for axis, y in ((0, x), (1, x.T)):
        found, squares = plan.backend.roundings(y, axis, plan)
        assert (0.9 * want <= found).all()
        assert (found <= 1.6 * want).all()
        np.testing.assert_allclose(squares, (np.abs(x.astype("c16")) ** 2).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_entries_of_the_most_parallel_lines(dtype, order):
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((300, 60)), rng.standard_normal((60, 200))
    a[17], a[220] = -3 * b[:, 40], 1e-3 * b[:, 199]
    a[5] = 0
    c = (a @ b).astype(dtype) * (1j if dtype[0] == "c" else 1)
    c = np.repeat(c, 2, 1)[:, ::2] if order == "strided" else np.array(c, order=order)
    squares = (a**2).sum(axis=1), (b**2).sum(axis=0)
    backend = falcon.plan(a, b, backend="cpu").backend
    rows, columns = backend.most_parallel(c, squares, 6, 2)
    found = set(zip(rows.tolist(), columns.tolist(), strict=True))
    assert found == set() if order == "strided" else found > {(17, 40), (220, 199)}
    assert order == "strided" or len(found) == 6


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="found holds 96 bytes; expected 128"):
        _core.roundings(np.ones((4, 5)), np.empty((3, 4)), 8)
