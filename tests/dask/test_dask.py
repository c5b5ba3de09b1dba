"""`falcon.dask` without distributed: shapes, chunks, types, plans, errors, files, verification."""

import re
from itertools import product

import numpy as np
import pytest

import falcon
from falcon._core.rates import Rates

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
format_bytes = pytest.importorskip("dask.utils").format_bytes
api = pytest.importorskip("falcon.dask.api")
cluster = pytest.importorskip("falcon.dask.cluster")
place = pytest.importorskip("falcon.dask.place")
planning = pytest.importorskip("falcon.dask.plan")
work = pytest.importorskip("falcon.dask.work")
dasks_own = pytest.importorskip("dask.array.tests.test_routines")

RNG = np.random.default_rng(46)


@pytest.fixture(autouse=True, params=["threads", "synchronous"])
def scheduler(request):
    with dask.config.set(scheduler=request.param):
        yield


def integers(shape, dtype="float64"):
    return RNG.integers(-4, 5, shape).astype(dtype)


def chunked(shape, chunks, dtype="float64"):
    x = integers(shape, dtype)
    return x, da.from_array(x, chunks=chunks)


SHAPES = [
    (((7, 9), (3, 4)), ((9, 5), (2, 5))),
    (((7, 9), ((3, 4), (1, 8))), ((9, 5), ((8, 1), (2, 3)))),
    (((2, 3, 7, 9), (1, 2, 3, 4)), ((3, 9, 5), (2, 5, 2))),
    (((4, 1, 7, 9), (3, 1, 7, 5)), ((1, 3, 9, 5), (1, 2, 9, 5))),
    (((7, 6), (3, (0, 6))), ((6, 5), ((2, 0, 4), 5))),
    (((0, 4), (1, 4)), ((4, 3), (2, 3))),
    (((3, 0), (3, 1)), ((0, 4), (1, 4))),
    (((0, 3, 4), (1, 3, 4)), ((4, 5), (4, 5))),
    (((3, 2, 0), (1, 2, 1)), ((0, 5), (1, 5))),
    # Axes of one line beside empty chunks: broadcast ones, and rows.
    (((2, 1, 7, 9), (1, (0, 0, 1), 3, 4)), ((3, 9, 5), (2, 5, 2))),
    (((3, 7, 9), (2, 3, 4)), ((2, 1, 9, 5), (1, (0, 1), 9, 5))),
    (((1, 9), ((0, 1, 0), 4)), ((9, 1), (3, (0, 0, 1)))),
]


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "int8", "int64", "complex64", "float16", "bool"]
)
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_as_numpy(left, right, dtype):
    (a, x), (b, y) = chunked(*left, dtype), chunked(*right, dtype)
    expected = np.matmul(a, b)
    made = falcon.dask.matmul(x, y)
    assert made.shape == expected.shape
    assert made.dtype == expected.dtype
    found = made.compute()
    assert np.asarray(found).dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("a", "b", "dtype"),
    [("f4", "f8", None), ("i1", "f4", None), ("i2", "i4", None), ("f4", "c16", None),
     ("int8", "int8", "int32"), ("float32", "float32", "float64"), ("u1", "u1", "f4")],
)  # fmt: skip
def test_types(a, b, dtype):
    (a, x), (b, y) = chunked((30, 70), 16, a), chunked((70, 25), 20, b)
    found, expected = falcon.dask.matmul(x, y, dtype=dtype), np.matmul(a, b, dtype=dtype)
    assert found.dtype == found.compute().dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(*dasks_own.test_matmul.pytestmark[0].args)
def test_dasks_own(x_shape, y_shape, x_chunks, y_chunks, monkeypatch):
    """In da.matmul's place: NumPy arrays and scalars beside Dask arrays."""
    monkeypatch.setattr(da, "matmul", falcon.dask.matmul)
    dasks_own.test_matmul(x_shape, y_shape, x_chunks, y_chunks)


def test_operands_become_single_chunks():
    (a, x), b = chunked((50, 30), (20, 7)), integers((30, 8))
    for y in (b, b.tolist()):
        np.testing.assert_array_equal(falcon.dask.matmul(x, y).compute(), a @ b)
    np.testing.assert_array_equal(falcon.dask.gemm(b.T, x.T).compute(), b.T @ a.T)
    assert falcon.dask.plan([x[0], x[1]], b).grid.counts == (2, 1, 5)
    assert falcon.dask.verify(x, b, a @ b)


def test_booleans_are_counted():
    a, b = (RNG.random(shape) < 0.04 for shape in ((30, 700), (700, 25)))
    x, y = da.from_array(a, (7, 300)), da.from_array(b, 80)
    for right, dtype in product((y, y.astype("int8")), (None, "int64", "float32")):
        found = falcon.dask.matmul(x, right, dtype=dtype)
        expected = np.matmul(a, right.compute(), dtype=dtype)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.compute(), expected)


def test_what_falcon_does_not_multiply_goes_to_dask():
    (a, x), (b, y) = chunked((30, 20), 9, object), chunked((20, 25), 8)
    np.testing.assert_array_equal(falcon.dask.matmul(x, y, threads=1).compute(), a @ b)
    other = type("Other", (np.ndarray,), {})
    z = x.astype(float).map_blocks(lambda v: v.view(other))
    assert type(falcon.dask.matmul(z, y).blocks[0, 0].compute()) is other
    for how in ({"scheme": "strassen"}, {"dtype": float}):
        for v, message in ((x, "dtype object"), (z, "x has chunks of Other; expected NumPy or")):
            with pytest.raises(TypeError, match=message):
                falcon.dask.matmul(v, y, **how)
    with pytest.raises(TypeError, match="y has chunks of MaskedArray"):
        falcon.dask.matmul(x, da.from_array(np.ma.masked_less(b, 0), 8))


@pytest.mark.parametrize("dtype", ["float64", "int16", "complex128"])
def test_gemm(dtype):
    (a, x), (b, y), (c, z) = (chunked((120, 120), 30, dtype) for _ in range(3))
    for alpha, beta in ((1, 0), (2, -1), (1, 1), (0, 3), (-3, 0)):
        found = falcon.dask.gemm(x, y, z, alpha=alpha, beta=beta).compute()
        expected = (np.array(alpha, dtype) * (a @ b) + np.array(beta, dtype) * c).astype(dtype)
        np.testing.assert_array_equal(found, expected)


def test_products_along_k_are_added_in_tasks():
    x = da.ones((64, 64), chunks=8)
    made = falcon.dask.matmul(x, x)
    assert len(made.__dask_graph__()) - len(x.__dask_graph__()) == 8 * 8 + 1
    assert (made == 64).all().compute()


def test_many_products_along_k_are_added_in_runs():
    """Few chunks of C: several tasks add at once, and a tree adds their results."""
    a, x = chunked((20, 4000), (20, 10))
    with dask.config.set(num_workers=30, scheduler="threads"):
        made = falcon.dask.matmul(x, x.T)
        assert falcon.dask.plan(x, x.T).runs == 29
    names = [key[0] for key in made.__dask_graph__() if key[0].startswith("falcon")]
    assert sum(name.endswith("-sum") for name in names) == 4  # of 8, 7, 7 and 7
    np.testing.assert_array_equal(made.compute(), a @ a.T)


def test_tasks_do_not_write_to_results_of_others():
    """Every array that a task reads is read-only, and still the sums come out."""
    a, x = chunked((60, 300), (60, 20))
    y = x.map_blocks(read_only, dtype=x.dtype)
    made = falcon.dask.matmul(y, y.T).map_blocks(read_only, dtype=x.dtype)
    np.testing.assert_array_equal(made.compute(), a @ a.T)
    z = da.from_array(a[:, :60].copy(), 60).map_blocks(read_only, dtype=x.dtype)
    found = falcon.dask.gemm(y, y.T, z, beta=1).compute()
    np.testing.assert_array_equal(found, a @ a.T + a[:, :60])


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


# --- places ---------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [(4, 2, 3), (5, 7, 2), (3, 3, 1)])
@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_places(counts, workers):
    """Equal shares; the bytes are those that workers read and do not hold."""
    M, N, K = counts
    rng = np.random.default_rng(M + workers)
    held = [rng.integers(0, workers, shape) for shape in ((M, K), (K, N))]
    goes, told = place.places(counts, (3.0, 5.0), workers, tuple(held))
    shares = np.bincount(goes.reshape(-1), minlength=workers)
    assert shares.max() - shares.min() <= 1
    moved = 0
    for worker in range(workers):
        i, j = np.nonzero(goes == worker)
        moved += 3 * np.count_nonzero(held[0][np.unique(i)] != worker)
        moved += 5 * np.count_nonzero(held[1][:, np.unique(j)] != worker)
    assert told == moved
    # 8 x 8 squares of 4 x 4 chunks: each reads 2 x 4 x 32 chunks, and holds a 64th of them.
    assert place.places((32, 32, 32), (1, 1), 64, (None, None))[1] == 64 * 256 * 63 / 64


# --- plans ----------------------------------------------------------------------------------


def test_plan_explains():
    x = da.zeros((8192, 8192), chunks=2048, dtype="float32")
    made = falcon.dask.plan(x, x, threads=1)
    text = made.explain()
    for word in ("8192 x 8192 @ 8192 x 8192 float32", "4 x 4, 4 along K", "growth", "chosen"):
        assert word in text
    assert "2048 x 2048 @ 2048 x 2048 float32" in str(made)
    assert repr(made) == "<GridPlan of 4 x 4 x 4 chunks>"
    assert "memory not limited" not in text  # without a cluster it is this machine's
    told = re.search(r"total +(\d+\.?\d*) s, if .*; (.*) of chunks are read", text)
    each = planning.predicted(made.chunk).total
    assert float(told[1]) == pytest.approx(64 * each / made.cluster.slots, rel=0.1)
    assert told[2] == "512.00 MiB"
    assert made.cluster.threads == 1
    with dask.config.set(scheduler="threads", num_workers=64):
        assert falcon.dask.plan(x, x).cluster.threads == 1
        assert falcon.dask.plan(x, x, threads=3).chunk.threads == 3


def test_plan_tells_time_and_memory(monkeypatch):
    """In units that a reader knows, whatever the size; by tasks, and by workers."""
    on = cluster.Cluster(2, 4, 1, 8 * 2**30, ("avx2",))
    monkeypatch.setattr(planning, "current_cluster", lambda *_, **__: on)
    x = da.zeros((2**17, 2**17), chunks=2**13)
    given, read = (falcon.dask.plan(x, x, reread=reread) for reread in (False, True))
    for made, share in ((given, 3 * x.nbytes // 2), (read, 0)):
        assert re.search(r"total      (\d+ms|\d+m|\d+hr) \d+(m|s), if workers", str(made))
        chunks = 3 if made is read else 2 * made.products
        task = (chunks + 1 + (made is given)) * 8 * 2**26 + made.chunk.workspace
        told = re.search("memory     (.*) in a task, (.*) in a worker", str(made))
        assert told.groups() == tuple(map(format_bytes, (task, 2 * task + share)))


def test_the_total_knows_each_product_and_the_longest_task(monkeypatch):
    on = cluster.Cluster(2, 2, 1, 8 * 2**30, ("avx2",))
    monkeypatch.setattr(planning, "current_cluster", lambda *_, **__: on)
    x = da.zeros((3000, 3000), chunks=50)  # of which a product takes microseconds
    uneven = da.zeros((3000, 3000), chunks=((2900, 100), 3000))
    batch = da.zeros((8, 1500, 1500), chunks=((7, 1), 1500, 1500))
    pairs = (x, x), (uneven, uneven[:2900].T), (batch, batch)
    plans = [falcon.dask.plan(*pair) for pair in pairs]
    tiny, *longest = (float(re.search(r"total +([\d.]+) s, if", str(x))[1]) for x in plans)
    assert tiny >= 60**3 * planning._PRODUCT / 2
    for seconds, made, products in zip(longest, plans[1:], (1, 7), strict=True):
        assert seconds >= 0.98 * products * planning.predicted(made.chunk).total


@pytest.mark.parametrize("num_workers", [1, 30])
def test_the_products_of_all_tasks_are_planned(num_workers):
    """And no others: `Step` and `GridPlan.plans` agree on sizes and on what is added to."""
    x = da.ones((30, 80), chunks=((10, 20), (7, 7, 30, 36)))
    c, seen = da.ones((30, 30), chunks=((10, 20),) * 2), set()
    with dask.config.set(num_workers=num_workers, scheduler="threads"):
        made = falcon.dask.gemm(x, x.T, c, beta=1)
        plan = planning.plan_product("gemm", x, x.T, c, None, False, {})
    for task in made.__dask_graph__().layers[made.name].mapping.values():
        if isinstance(task, tuple) and isinstance(task[0], work.Step):
            step, _, added, *_ = task
            for at, (left, right) in enumerate(step.cuts):
                K = len(range(left.shape[1])[left.part[1]])
                seen.add((left.shape[0], right.shape[1], K, added is not None or at > 0))
    assert seen == plan.plans().keys()
    assert (len(plan.steps) > 1) == (num_workers > 4)


def test_advice(monkeypatch, caplog):
    on = cluster.Cluster(2, 2, 1, 8 * 2**30, ("avx2",))
    monkeypatch.setattr(planning, "current_cluster", lambda *_, **__: on)
    x = da.zeros((40000, 14000), chunks=14000)
    advice = falcon.dask.plan(x.T, x).advice
    assert any("chunks of x take 1.46 GiB: x.rechunk(11520) takes an" in text for text in advice)
    x = da.zeros((100_000, 100_000), chunks=50_000)  # which rechunk would hold
    advice = falcon.dask.plan(x, x, reread=True).advice
    assert any("to read its file by chunks=11520, or to store it anew" in text for text in advice)
    x = da.zeros((8192, 8192), chunks=512)
    assert any("chunks of 512 lines" in text for text in falcon.dask.plan(x, x).advice)
    x = da.zeros((8000, 8000), chunks=1000)
    assert not any("chunks of 1000 lines" in text for text in falcon.dask.plan(x, x).advice)
    x = da.zeros((2**17, 2**17), chunks=4096)
    assert any("reread=True" in text for text in falcon.dask.plan(x, x).advice)
    x = da.zeros((8192, 8192), chunks=((1024, 1024, 6144), 4096))
    told = "chunks of x's rows have 1024 to 6144 lines: workers wait for the largest"
    assert any(text.startswith(told) for text in falcon.dask.plan(x, x).advice)
    monkeypatch.setattr(api, "_advised", [])
    for _ in range(2):
        falcon.dask.matmul(x, x)
    (record,) = (r for r in caplog.records if "falcon.dask.plan" in r.message)
    assert told in record.message


# --- errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tf32", "bf16x6"])
def test_a_setting_of_arithmetic_is_no_keyword_for_the_workers(name):
    """Where chunks have no plan, as their sizes are unknown, it may not fit them."""
    a, x = chunked((40, 30), (10, 30))
    kept = a[:, 0] > 0
    with falcon.config(arithmetic=name):
        y = falcon.dask.matmul(x[x[:, 0] > 0], x.T)
    np.testing.assert_array_equal(y.compute(), a[kept] @ a.T)
    with pytest.raises(TypeError, match=f"arithmetic '{name}'"):
        falcon.dask.matmul(x, x.T, arithmetic=name)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_unknown_chunks(dtype):
    (a, x), (b, y) = chunked((40, 6, 30), 8, dtype), chunked((30, 8), 7, dtype)
    where = RNG.random(40) > 0.5, RNG.random(40) > 0.5
    a, x, other = a[where[0]], *(x[da.from_array(v, 8)] for v in where)
    for pick in (
        lambda x, y: (x[:, 0], y),
        lambda x, y: (y.T, x[:, 0].T),
        lambda x, _: (x[:, 0].T, x[:, 1]),
        lambda x, _: (x[:, 0, 0], x[:, 0]),
        lambda x, y: (x, y[None]),
    ):
        found, expected = falcon.dask.matmul(*pick(x, y)), np.matmul(*pick(a, b))
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.compute(), expected)
    with pytest.raises(ValueError, match="do not fit together"):
        falcon.dask.matmul(x[:, 0].T, other[:, 0]).compute()
    told = "x has shape .*chunk sizes are unknown.*x.compute_chunk_sizes"
    for left, right in ((x, x.swapaxes(1, 2)), (x[:, 0].T, y), (x[:, 0].T, y[:1])):
        with pytest.raises(ValueError, match=told):
            falcon.dask.matmul(left, right)
    with pytest.raises(ValueError, match=told):
        falcon.dask.verify(x[:, 0], y, y)


def test_bad_arguments():
    x = da.ones((20, 20), chunks=10)
    matmul, gemm = falcon.dask.matmul, falcon.dask.gemm
    for call, error, message in (
        (lambda: matmul(x, da.ones(7)), ValueError, "x has .*inner dimensions 20 and 7"),
        (lambda: matmul(x, 3.0), ValueError, "y is a scalar"),
        (lambda: matmul(x, dask.delayed(1)), TypeError, "y is a Delayed.*; expected a"),
        (lambda: matmul(x, x, block_scheme="strassen"), TypeError, "unexpected keyword"),
        (lambda: matmul(x, x, scheme="nonsense"), ValueError, "nonsense"),
        (lambda: matmul(x, x, check="verify"), ValueError, "falcon.dask.verify"),
        (lambda: gemm(x, x.astype(object)), TypeError, "dtype"),
        (lambda: gemm(x, x, beta=1), ValueError, "beta is 1 but c is missing"),
        (lambda: gemm(x, x[0]), ValueError, r"b has shape \(20,\); expected a matrix"),
        (lambda: gemm(x, x, x[:3], beta=1), ValueError, r"c has shape \(3, 20\)"),
        (lambda: gemm(x, x, x.rechunk(5), beta=1), ValueError, "c has chunks .*rechunk"),
        (lambda: gemm(x, x, x, beta="1"), TypeError, "beta is '1'"),
        (lambda: gemm(x, x, alpha=1j), TypeError, "alpha is 1j"),
        (lambda: falcon.dask.placed(x, x[0], x).__enter__(), ValueError, r"y has shape \(20,\)"),
        (lambda: falcon.dask.placed(x, x, x[:9]).__enter__(), ValueError, r"c has shape \(9, 20\)"),
        (lambda: falcon.dask.verify(x, x, x[:3]), ValueError, "shapes do not fit"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_falcons_other_functions_name_those_for_dask():
    x = da.ones((20, 20), chunks=10)
    remedy = r"(a|operand 0) is a Dask collection.*\.compute\(\), or falcon\.dask\.matmul"
    strassen = {"scheme": "strassen"}
    for call in (
        lambda: falcon.matmul(x, x, **strassen),
        lambda: falcon.einsum("ij,jk->ik", x, x, **strassen),
        lambda: falcon.gemm(x, x),
        lambda: falcon.plan(x, x),
        lambda: falcon.verify(x, x, x),
    ):
        with pytest.raises(TypeError, match=remedy):
            call()
    assert type(falcon.matmul(x, x)) is da.Array  # Dask's own, as of np.matmul


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda v: v[:5], r"has shape \(5, 10\); expected \(10, 10\)"),
        (lambda v: v[None, :, :5], r"has shape \(1, 10, 5\); expected \(10, 10\)"),
        (lambda v: v * 1j, r"has dtype complex128, which does not cast to float64 \(same_kind\)"),
        (lambda v: v.astype(object), "has dtype object, which does not cast to float64"),
        (np.ma.array, "is a numpy.ma.MaskedArray; expected a numpy.ndarray"),
    ],
)
def test_chunks_that_are_not_what_the_array_states(wrong, message):
    x = da.ones((20, 20), chunks=10)
    y, unknown = x.map_blocks(wrong, meta=np.ones((0, 0))), x[x[:, 0] > 0]
    for *operands, name in ((y, x, x, "x"), (x, y, x, "y"), (x, x, y, "c"), (unknown, y, 0, "y")):
        with pytest.raises((TypeError, ValueError), match=f"a chunk of {name} {message}"):
            falcon.dask.gemm(*operands, beta=name == "c").compute()
    halves = x.map_blocks(lambda v: v.astype("f2"), dtype=float)  # they cast by same_kind
    assert (falcon.dask.gemm(halves, x, halves, beta=1) == 21).all().compute()


# --- from files -----------------------------------------------------------------------------


def test_reread(tmp_path):
    zarr = pytest.importorskip("zarr")
    a = integers((90, 90))
    a[3, 80] = np.nan
    made = zarr.create_array(str(tmp_path / "x"), shape=a.shape, chunks=(15, 15), dtype=a.dtype)
    made[...] = a
    x = da.from_zarr(str(tmp_path / "x"))
    found = falcon.dask.matmul(x, x.T, reread=True)
    graph = dict(found.__dask_graph__())
    assert not any("zarr" in str(key[0]) for key in graph if isinstance(key, tuple))
    np.testing.assert_array_equal(found.compute(), a @ a.T)


def test_reread_is_for_files():
    x = da.ones((400, 400), chunks=20)
    assert (falcon.dask.matmul(x, x, reread=True) == 400).all().compute()
    with pytest.raises(ValueError, match="a chunk of x takes 1 tasks and 1280000 bytes"):
        falcon.dask.matmul(da.from_array(np.ones((400, 400)), 400), x, reread=True)
    with pytest.raises(ValueError, match=r"a chunk of x takes \d+ tasks"):
        falcon.dask.matmul(x.sum(axis=0, keepdims=True), x, reread=True)


# --- verification ---------------------------------------------------------------------------


KINDS = ["float32", "float64", "int32", "complex64", "float16", "float16 float32"]


@pytest.mark.parametrize("kinds", KINDS)
def test_verify(kinds):
    a, b = (8 * RNG.standard_normal(s) for s in ((300, 200), (200, 250)))
    a, b = a.astype(kinds.split()[0]), b.astype(kinds.split()[-1])
    x, y = da.from_array(a, (70, 90)), da.from_array(b, (60, 64))
    made = falcon.dask.matmul(x, y)
    c = made.compute()
    assert falcon.dask.verify(x, y, made, seed=1)
    c[5, 7] = 2 * abs(c[5, 7]) + 99
    wrong = falcon.dask.verify(x, y, da.from_array(c, 99), seed=1)
    expected = falcon.verify(a, b, c, seed=1)
    assert wrong.why == expected.why
    assert wrong.why.startswith("wrong")
    assert wrong.residual == pytest.approx(expected.residual, rel=1e-6)


def test_columns_in_different_units(doors):
    doors.rates(Rates(1e9, 1e13, 1e13))
    rng = np.random.default_rng(1)
    units = 10 ** rng.uniform(-3, 3, 2400)
    a = (rng.standard_normal((1100, 2400)) * units).astype("f4")
    b = (rng.standard_normal((2400, 1100)) / units[:, None]).astype("f4")
    exact = a.astype("f8") @ b
    chunks = da.from_array(a, chunks=(1100, 1200)), da.from_array(b, chunks=(1200, 1100))
    errors = [np.sqrt(np.mean((c - exact) ** 2)) for c in (falcon.dask.matmul(*chunks), a @ b)]
    assert errors[0] <= 9 * errors[1]


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8"])
@pytest.mark.parametrize("chunk", [50, 20, 7])
def test_integers_that_overflow(dtype, chunk):
    random = np.random.default_rng(5)
    a, b = random.integers(0, 3, (40, 50)), random.integers(0, 2, (50, 30))
    a, b = a.astype(dtype), b.astype(dtype)
    y = da.from_array(b, chunks=(chunk, 20))
    for how in ("raise", "widen"):
        z = falcon.dask.matmul(da.from_array(a, chunks=(20, chunk)), y, overflow=how)
        found = z.compute(scheduler="synchronous")
        kind = falcon.matmul(a, b, overflow=how).dtype
        assert found.dtype == z.dtype == kind
        assert (found == a.astype(object) @ b.astype(object)).all()
    a[33] = np.iinfo(dtype).max
    x = da.from_array(a, chunks=(20, chunk))
    with falcon.config(overflow="raise"):
        made = falcon.dask.matmul(x, y)
    with pytest.raises(OverflowError, match=f"beyond {np.dtype(dtype)}"):
        made.compute(scheduler="synchronous")
    c = da.from_array(a[:, :30] // 2, chunks=20)
    made = falcon.dask.gemm(x, y, c, alpha=0, beta=3, overflow="raise")
    with pytest.raises(OverflowError, match=f"beyond {np.dtype(dtype)}"):
        made.compute(scheduler="synchronous")


def test_sums_over_chunks_that_come_back():
    a, b = np.zeros((20, 40), np.int32), np.zeros((40, 20), np.int32)
    a[:, 0] = b[0] = b[39] = 2**31 - 1
    a[:, 39] = -(2**31) + 1
    x, y = da.from_array(a, chunks=20), da.from_array(b, chunks=20)
    z = falcon.dask.matmul(x, y, overflow="raise")
    assert z.dtype == np.int32 and not z.compute(scheduler="synchronous").any()
    long = [da.from_array(v.astype("i8") << 31, chunks=20) for v in (a, b)]
    with pytest.raises(OverflowError, match="beyond int64"):
        falcon.dask.matmul(*long, overflow="raise").compute(scheduler="synchronous")
