"""Dask: products modulo p, Gram matrices, and Freivalds' test with its progress."""

import numpy as np
import pytest

import falcon
from falcon._tools.progress import Progress

da = pytest.importorskip("dask.array")

MODULI = 2, 100, 2**31 - 1, 2**61 - 1


@pytest.fixture(autouse=True, params=["threads", "synchronous"])
def scheduler(request):
    import dask

    with dask.config.set(scheduler=request.param):
        yield


def whole(random, shape, dtype="i8"):
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max, shape, dtype, endpoint=True)


def exact(a, b, p, c=0, alpha=1, beta=0):
    return (alpha * (a.astype(object) @ b.astype(object)) + beta * c) % p


@pytest.mark.parametrize("p", MODULI)
def test_modulus(p):
    """Sums over chunks are reduced too: in one run along K, and in several."""
    random = np.random.default_rng(1)
    a, b = whole(random, (50, 90)), whole(random, (90, 40), "u8")
    for chunks in ((50, 90, 40), (20, 30, 16), (50, 10, 40)):
        x, y = da.from_array(a, chunks[:2]), da.from_array(b, chunks[1:])
        product = falcon.dask.matmul(x, y, modulus=p, dtype="i8")
        found = product.compute()
        assert found.dtype == np.int64
        assert (found == exact(a, b, p)).all()
        assert falcon.dask.verify(x, y, product, modulus=p)
        assert not falcon.dask.verify(x, y, product + (np.arange(40) == 7), modulus=p)
        c = whole(random, (50, 40))
        z = da.from_array(c, (chunks[0], chunks[2]))
        made = falcon.dask.gemm(x, y, z, alpha=-3, beta=2**62, modulus=p, dtype="i8")
        assert (made.compute() == exact(a, b, p, c.astype(object), -3, 2**62)).all()
    stack = whole(random, (3, 8, 9))
    made = falcon.dask.matmul(da.from_array(stack, (2, 5, 4)), a[:9, :6], modulus=p)
    assert (made.compute() == exact(stack, a[:9, :6], p)).all()
    empty = falcon.dask.gemm(x[:, :0], y[:0], z, beta=5, modulus=p, dtype="i8").compute()
    assert (empty == 5 * c.astype(object) % p).all()


def test_residues_may_need_more_than_the_least_workspace():
    x = da.zeros((2100, 2100), dtype="i8", chunks=2100)
    plan = falcon.dask.plan(x, x, modulus=7)
    assert plan.chunk.workspace > 2**24


def test_small_types_do_not_wrap():
    a = np.full((6, 60), 99, "i1")
    x = da.from_array(a, (3, 7))
    found = falcon.dask.matmul(x, x.T, modulus=100).compute()
    assert found.dtype == np.int8
    assert (found == 60).all()


def test_gram_modulo_p():
    a = whole(np.random.default_rng(3), (50, 60))
    found = falcon.dask.gram(da.from_array(a, (30, 25)), modulus=2**61 - 1).compute()
    assert (found == exact(a.T, a, 2**61 - 1)).all()


def test_errors_of_a_modulus():
    x = da.ones((4, 4), dtype="i8", chunks=2)
    with pytest.raises(TypeError, match="takes one modulus"):
        falcon.dask.matmul(x, x, modulus=[5, 7])
    with pytest.raises(TypeError, match="c has dtype int64"):
        falcon.dask.gemm(x.astype("i1"), x.astype("i1"), x, beta=1, modulus=5, dtype="i1")
    with pytest.raises(TypeError, match="x has dtype bool"):
        falcon.dask.matmul(x > 0, x > 0, modulus=5)
    with pytest.raises(TypeError, match="x has dtype float64"):
        falcon.dask.matmul(x * 1.0, x, modulus=5)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i4"])
@pytest.mark.parametrize("transpose", [False, True])
def test_gram(dtype, transpose):
    random = np.random.default_rng(2)
    x = random.integers(-9, 9, (70, 90)).astype(dtype)
    if dtype == "c16":
        x += 1j * random.integers(-9, 9, x.shape)
    across = x.T.conj()
    wanted = x @ across if transpose else across @ x
    for chunks in ((70, 90), (20, 40), (70, 30), ((60, 10), (1, 0, 89))):
        found = falcon.dask.gram(da.from_array(x, chunks), transpose=transpose)
        assert found.dtype == dtype
        assert (found.compute() == wanted).all()
    x = x + random.random(x.shape).astype(x.real.dtype) if dtype != "i4" else x
    found = falcon.dask.gram(da.from_array(x, (20, 40)), transpose=transpose).compute()
    assert (found == found.T.conj()).all()
    np.testing.assert_allclose(found, falcon.gram(x, transpose=transpose), rtol=1e-4, atol=1e-2)


def test_gram_multiplies_only_the_lower_chunks():
    x = da.ones((40, 60), chunks=(40, 10))
    tasks = falcon.dask.gram(x).__dask_graph__()
    made = {k[1:] for k in tasks if isinstance(k, tuple) and k[0].endswith("-mirrored")}
    assert len(made) == 36
    products = [k for k in tasks if isinstance(k, tuple) and not k[0].endswith("-mirrored")]
    assert {k[1:] for k in products if k[0].startswith("falcon-gram")} == {
        (i, j) for i in range(6) for j in range(i + 1)
    }


def test_progress_of_verify(doors, capfd):
    doors.numbers(first_progress=0.01, next_progress=0.01, renewed_progress=0.01)
    x = da.from_array(np.ones((40, 40)), chunks=20).map_blocks(slow)
    assert falcon.dask.verify(x, x.T, falcon.dask.matmul(x, x.T))
    assert "GB, about 0:0" in capfd.readouterr().err
    assert falcon.dask.verify(x, x.T, falcon.dask.matmul(x, x.T), progress=False)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("dtype", "modulus"), [(float, None), (int, None), (int, 7)])
def test_progress_moves_with_the_tasks(dtype, modulus, monkeypatch):
    x, seen = da.ones((80, 60), chunks=20, dtype=dtype), []
    moved = Progress.at
    monkeypatch.setattr(Progress, "at", lambda bar, n: (seen.append(n), moved(bar, n)))
    y = falcon.dask.matmul(x, x.T, modulus=modulus)
    assert falcon.dask.verify(x, x.T, y, modulus=modulus)
    total = sum(v.nbytes for v in (x, x.T, y))
    assert seen == sorted(seen) and seen[-1] == pytest.approx(total / 1e9)
    assert len({*seen}) > 12 * len((x, x.T, y))  # chunks of each


def slow(x):
    from time import sleep

    sleep(0.02)
    return x
