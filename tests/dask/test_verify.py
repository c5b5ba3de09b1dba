"""`falcon.dask.verify`: how often chunks are read, and the same verdicts as of whole matrices."""

from collections import Counter
from threading import Lock

import numpy as np
import pytest

import falcon
from falcon._tools.progress import Progress

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
verifying = pytest.importorskip("falcon.dask.verify")
cluster = pytest.importorskip("falcon.dask.cluster")

SHAPES = (90, 80), (80, 70), (90, 70)
CHUNKS = (30, 16), ((20, 0, 60), 35), (45, (64, 6))


@pytest.fixture(autouse=True, params=["threads", "synchronous"])
def scheduler(request):
    with dask.config.set(scheduler=request.param):
        yield


@pytest.fixture
def small_memory(monkeypatch):
    """Workers that do not hold y."""
    on = cluster.Cluster(2, 2, 1, 8 * 80 * 70)
    monkeypatch.setattr(verifying, "current_cluster", lambda _: on)


def counted(name, x, chunks, counts):
    """A Dask array that counts how often each of its chunks is made."""
    lock = Lock()

    def count(chunk, block_id=None):
        with lock:
            counts[name, block_id] += 1
        return chunk

    x = da.from_array(x, chunks)
    return x.map_blocks(count, dtype=x.dtype, meta=x._meta)


def example(kind, seed=0):
    random = np.random.default_rng(seed)
    a, b = (8 * random.standard_normal(shape) for shape in SHAPES[:2])
    if np.dtype(kind).kind == "c":
        a = a + 1j * a[::-1]
    a, b = a.astype(kind), b.astype(kind)
    return a, b, a @ b


def readings(kind):
    """How often chunks of x, y and c are made; all chunks of one as often."""
    counts, given = Counter(), example(kind)
    arrays = [counted(*x, counts) for x in zip("xyc", given, CHUNKS, strict=True)]
    assert falcon.dask.verify(*arrays, progress=False)
    times = [{n for (array, _), n in counts.items() if array == name} for name in "xyc"]
    assert len(counts) == sum(x.npartitions for x in arrays)
    return times


@pytest.mark.parametrize("kind", ["f4", "f8", "c8", "i4"])
def test_each_chunk_is_made_once(kind):
    assert readings(kind) == [{1}, {1}, {1}]


@pytest.mark.parametrize(("kind", "times"), [("f8", 2), ("i8", 1)])
def test_chunks_of_a_y_beyond_the_memory_are_made_twice(kind, times, small_memory):
    assert readings(kind) == [{1}, {times}, {1}]


def test_progress_counts_what_is_read(small_memory, monkeypatch):
    seen, moved = [], Progress.at
    monkeypatch.setattr(Progress, "at", lambda bar, n: (seen.append(n), moved(bar, n)))
    given = [da.from_array(x, chunks) for x, chunks in zip(example("f8"), CHUNKS, strict=True)]
    assert falcon.dask.verify(*given)
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx((given[1].nbytes + sum(x.nbytes for x in given)) / 1e9)


def spoiled(how, a, b, c):
    """Change matrices such that chunks differ in size, or hold what is not finite."""
    if how == "uneven":  # by more than the squares of a float64 span
        a[:, 16:32] *= 1e-200
        a[30:60] *= 1e-120
        b[20:] *= 1e150
        b[:, 40] *= 1e-90
    elif how == "zeros":
        a[:30, :16] = a[60:] = b[:20, :35] = b[:, 50] = 0
    elif how == "tiny":
        a *= 1e-290
        a[:30] = 0
    elif how == "not finite":
        a[5, 7] = b[33, 2] = np.inf
        b[70, 69] = np.nan
    else:
        b *= 0
    with np.errstate(all="ignore"):
        return a, b, a @ b


@pytest.mark.parametrize("how", ["uneven", "zeros", "tiny", "not finite", "nothing"])
@pytest.mark.parametrize("kind", ["f8", "c16"])
@pytest.mark.parametrize("is_held", [True, False])
def test_verdicts_are_those_of_whole_matrices(how, kind, is_held, request):
    if not is_held:
        request.getfixturevalue("small_memory")
    a, b, c = spoiled(how, *example(kind))
    for line in (None, 2, 40):
        wrong = c.copy()
        if line is not None:
            wrong[line, 3] += 1e-3 * abs(c[line, 3]) + (not c.any())
        given = [da.from_array(x, y) for x, y in zip((a, b, wrong), CHUNKS, strict=True)]
        found = falcon.dask.verify(*given, seed=4, progress=False)
        expected = falcon.verify(a, b, wrong, seed=4)
        assert (found.passed, found.why) == (expected.passed, expected.why)
        if expected.is_wrong:
            assert found.residual == pytest.approx(expected.residual, rel=1e-3)


def test_overflow():
    """An entry that is not finite is wrong, unless the product may be that large."""
    a, b, c = example("f8")
    c[50, 60] = np.inf
    given = [da.from_array(x, y) for x, y in zip((a, b, c), CHUNKS, strict=True)]
    assert falcon.dask.verify(*given, progress=False).why.startswith("wrong: an entry is not")
    large = [x * 2.0**700 for x in given[:2]]
    assert falcon.dask.verify(*large, da.full_like(given[2], np.inf), progress=False).why == (
        "cannot verify: no row is finite"
    )


def test_empty_matrices():
    for M, N, K in ((0, 5, 6), (5, 0, 6), (5, 6, 0)):
        x, y = da.ones((M, K), chunks=3), da.ones((K, N), chunks=3)
        c = da.zeros((M, N), chunks=3)
        expected = falcon.verify(*(v.compute() for v in (x, y, c)))
        assert falcon.dask.verify(x, y, c, progress=False) == expected
