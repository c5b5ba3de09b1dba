"""`error=`: products keep the error that is named, whatever the data, at every door."""

import logging
import pickle
import re

import numpy as np
import pytest

import falcon
from falcon._core import sampled
from falcon._core.dtypes import FLOAT32, FLOAT64, RUNGS
from falcon._cpu.extension import why_unavailable

pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason="no kernels")
SINGLE = RUNGS[FLOAT64][0]
SHAPES = (640, 500), (500, 400)


@pytest.fixture(autouse=True)
def by_own_kernels(doors):
    """Also where a library is faster than they are, as with the generic ones."""
    doors.forget()  # what was made again before
    with falcon.config(backend="cpu"):
        yield


@pytest.fixture
def operands():
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal(x) for x in SHAPES)


def off(c, a, b, exact=None):
    """Return the largest error over the norms."""
    wide = np.result_type(a.dtype, np.float64)
    a, b = a.astype(wide), b.astype(wide)
    exact = a @ b if exact is None else exact
    size = np.multiply.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=0))
    return float((np.abs(c - exact)[size > 0] / size[size > 0]).max())


def test_the_rung_is_the_cheapest_that_promises_the_error(operands):
    for error, row in ((1e-4, SINGLE), (1e-6, SINGLE), (1e-7, None), (1e-13, None)):
        plan = falcon.plan(*operands, error=error)
        assert plan.method.compute_type is row
        assert off(falcon.gemm(*operands, error=error), *operands) <= error
        bound = plan.error_bound(*operands)
        assert (bound <= error * np.multiply.outer(
            np.linalg.norm(operands[0], axis=1), np.linalg.norm(operands[1], axis=0)
        )).all()  # fmt: skip
        assert (plan.error_bound(*operands, proved=True) >= bound).all()
    assert falcon.plan(*operands).method.compute_type is None


def test_float32_goes_up_where_its_own_sums_err_by_more(operands):
    a, b = (x.astype(np.float32) for x in operands)
    assert falcon.plan(a, b, error=1e-4).method.compute_type is None
    assert falcon.plan(a, b, error=1e-7).method.compute_type is RUNGS[FLOAT32][0]
    c = falcon.gemm(a, b, error=1e-7)
    assert c.dtype == np.float32
    assert off(c, a, b) <= 1e-7 < off(falcon.gemm(a, b), a, b)


def test_an_error_that_nothing_promises(operands):
    a, b = (x.astype(np.float32) for x in operands)
    with pytest.raises(ValueError, match=r"error is 1e-09; the largest of .* may be 6.0e-08"):
        falcon.gemm(a, b, error=1e-9)
    with falcon.config(error=1e-9):  # a setting: as accurate as can be
        assert falcon.plan(a, b).method.compute_type is RUNGS[FLOAT32][0]
        assert falcon.gemm(np.eye(3, dtype=int), np.eye(3, dtype=int)).dtype == int


def uneven(x, axis, every, factor):
    """Return x with some rows (axis 0) or columns multiplied."""
    factors = np.where(np.arange(x.shape[axis]) % every, 1, factor)
    return x * (factors if axis else factors[:, None])


KINDS = {
    "one sign": lambda x: np.abs(x),
    "outlier features": lambda x: uneven(x, 1, 99, 1e3),
    "outlier lines": lambda x: uneven(x, 0, 9, 1e6),
    "constant": lambda x: np.full(x.shape, 0.1),
    "sparse": lambda x: x * (np.abs(x) > 2.5),
    "small": lambda x: x * 1e-30,
    "tiny lines": lambda x: uneven(x, 0, 9, 1e-60),
    "large": lambda x: x * 1e39,
    "zeros": lambda x: 0 * x,
}


def drawn(kind, rng, rows, columns, *, is_complex):
    x = KINDS[kind](rng.standard_normal((rows, columns)))
    return x + 1j * KINDS[kind](rng.standard_normal((rows, columns))) if is_complex else x


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [1e-3, 1e-6])
@pytest.mark.parametrize("is_complex", [False, True])
def test_data_of_all_kinds(kind, error, is_complex):
    rng = np.random.default_rng(1)
    (M, K), (_, N) = SHAPES
    a, b = (drawn(kind, rng, x, K, is_complex=is_complex) for x in (M, N))
    b, error = b.T, error * (4 if is_complex else 1)
    for _ in range(3):  # what was made again is remembered
        c = falcon.matmul(a, b, error=error)
        assert kind == "zeros" or off(c, a, b) <= error
        assert np.isfinite(c).all()


def test_what_is_out_of_range_is_made_again_and_remembered(operands, caplog):
    a, b = operands[0] * 1e-40, operands[1]
    before = sum(sampled.again.values())
    with caplog.at_level(logging.INFO, logger="falcon"):
        for _ in range(3):
            np.testing.assert_allclose(falcon.gemm(a, b, error=3e-5), a @ b, rtol=1e-6, atol=1e-50)
    assert sum(sampled.again.values()) == before + 3
    assert caplog.text.count("is out of range, or not finite: made again by classical") == 1


def test_a_sample_that_errs_takes_the_next_rung(operands, monkeypatch, caplog):
    """Where the engine writes too large numbers, as sums of adversarial data would be."""
    a, b = operands
    plan = falcon.plan(a, b, error=3e-6)
    usual = plan._runner()

    class Wrong(type(usual)):
        def bind(self, *given, **more):
            run = usual.bind(*given, **more)

            def wrong(a, b, c, out, mirror=None):
                run(a, b, c, out, mirror)
                out *= 1 + 1e-4

            return wrong

    runner = sampled.SampledRunner(plan, Wrong.__new__(Wrong))
    out = np.empty((640, 400))
    with caplog.at_level(logging.INFO, logger="falcon"):
        runner(a, b, None, out)
    assert "may err by" in caplog.text
    assert off(out, a, b) < 1e-14
    c = out.copy()
    runner = sampled.SampledRunner(plan, Wrong.__new__(Wrong))
    runner(a, b, c, c, 2.0, -1.0)  # in place: the c that was overwritten is added again
    np.testing.assert_allclose(c, out, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("beta", [1.0, -0.5])
@pytest.mark.parametrize("is_complex", [False, True])
def test_c_is_added_in_its_own_type(operands, beta, is_complex):
    a, b = operands
    c = np.random.default_rng(5).standard_normal((640, 400)) * 1e9
    if is_complex:
        a, c = a * (1 + 2j), c * (1 - 1j)
        b = b.astype(complex)
    want = a @ b + beta * c
    for out in (None, c.copy(), np.asfortranarray(c)):
        added = c if out is None else out
        found = falcon.gemm(a, b, added, beta=beta, out=out, error=1e-5)
        assert off(found, a, b, want) <= 1e-5
    with falcon.config(workspace_limit="16MiB"):
        same = c.copy()
        falcon.gemm(a, b, same, beta=beta, out=same, error=1e-5)
    assert off(same, a, b, want) <= 1e-5


def test_doors(operands):
    a, b = operands
    error = 2e-6
    x = np.random.default_rng(3).standard_normal((500, 300))
    for c in (
        falcon.matmul(a, b, error=error),
        falcon.einsum("ij,jk->ik", a, b, error=error),
        falcon.tensordot(a, b, 1, error=error),
        falcon.plan(a, b, error=error)(a, b),
        pickle.loads(pickle.dumps(falcon.plan(a, b, error=error)))(a, b),
        falcon.gemm(a, b, error=error, check="verify"),
        falcon.gemm(a, b, error=error, reproducible=True),
        falcon.gemm(a, b, error=error, workspace_limit="1MiB"),
        falcon.gemm(np.asfortranarray(a), b[::-1][::-1], error=error),
        falcon.matmul(np.stack([a, a]), b, error=error)[1],
        falcon.matmul(np.stack([a, a]), np.stack([b, b]), error=error)[1],
    ):
        assert 1e-9 < off(c, a, b) <= error
    for how in ({}, {"symmetric": "lower"}, {"symmetric": "upper"}, {"weights": np.ones(500)}):
        want = {"lower": np.tril, "upper": np.triu}.get(how.get("symmetric"), np.asarray)(x.T @ x)
        assert off(falcon.gram(x, error=error, **how), x.T, x, want) <= error
    with falcon.config(error=error):
        assert falcon.plan(a, b).method.compute_type is SINGLE


def test_by_name(operands):
    for how in ({"scheme": "strassen"}, {"scheme": "classical"}, {}):
        plan = falcon.plan(*operands, arithmetic="float32", **how)
        assert plan.method.compute_type is SINGLE
        c = falcon.gemm(*operands, arithmetic="float32", **how)
        assert 1e-9 < off(c, *operands) < 3e-6
    with pytest.raises(TypeError, match="arithmetic 'float32' multiplies float64 to float64"):
        falcon.gemm(np.eye(9, dtype=int), np.eye(9, dtype=int), arithmetic="float32")
    with falcon.config(arithmetic="float32"):  # a setting is for what it fits
        assert falcon.plan((9, 9), (9, 9), "float32").method.compute_type is None


@pytest.mark.parametrize("keep_source", [True, False])
def test_packed(operands, keep_source):
    a, b = operands
    w = falcon.pack(b, error=2e-6, keep_source=keep_source)
    assert w.error == 2e-6
    assert w.arithmetic == "float32"
    assert w.payload.nbytes < 0.75 * b.nbytes
    for c in (falcon.gemm(a, w), a @ w, falcon.gemm(a, w, error=1e-3)):
        assert 1e-9 < off(c, a, b) <= 2e-6
    with pytest.raises(ValueError, match=r"b was packed by float32 .* which promises .*: pack it"):
        falcon.gemm(a, w, error=1e-12)
    small = a * 1e-40
    if keep_source:
        assert off(falcon.gemm(small, w), small, b) <= 2e-6
        again = pickle.loads(pickle.dumps(w))
        assert (again.error, again.arithmetic) == (2e-6, "float32")
    else:
        with pytest.raises(ValueError, match="keep_source=False"):
            falcon.gemm(small, w)


def test_nothing_changes_without_it(operands):
    a, b = operands
    assert falcon.plan(a, b).higher is None
    assert not isinstance(falcon.plan(a, b).runner, sampled.SampledRunner)


def test_explain_shows_the_rungs():
    told = falcon.plan((800, 800), (800, 800), error=1e-6).explain()
    assert "promised, 1.0e-06 asked" in told
    assert "arithmetic" in told
    assert "times as accurate as needed" in told
    told = falcon.plan((800, 800), (800, 800), error=1e-9).explain()
    assert "errs by more than 1.0e-09" in told
    # What it would promise, of which a sample is compared: not the worst case.
    assert float(re.search(r"\nfloat32 +([\d.e-]+) +errs", told)[1]) < 1e-6


def test_integers_have_no_error():
    a = np.arange(90_000).reshape(300, 300)
    assert (falcon.gemm(a, a.T.copy(), error=1e-2) == a @ a.T).all()


def test_numpys_products(operands):
    a, b = operands
    want = a @ b
    with falcon.accelerate(error=2e-5, quiet=True):
        assert 1e-9 < off(a @ b, a, b, want) <= 2e-5
        assert off(a @ a.T, a, a.T, np.einsum("ij,kj", a, a)) <= 2e-5
        with falcon.accelerate(quiet=True):
            assert off(a @ b, a, b, want) < 1e-14
        assert off(a @ b, a, b, want) > 1e-9
    np.testing.assert_array_equal(a @ b, want)
    with pytest.raises(ValueError, match="error is 2; expected a number above 0"):
        falcon.accelerate(error=2)
    with pytest.raises(TypeError, match=r"inherit passes on falcon.set_config\(error"):
        falcon.accelerate(error=1e-3, inherit=True)


def test_dask(operands):
    array = pytest.importorskip("dask.array")
    pytest.importorskip("falcon.dask")
    a, b = operands
    x, y = array.from_array(a, chunks=(640, 500)), array.from_array(b, chunks=(500, 400))
    c = falcon.dask.matmul(x, y, error=2e-5).compute(scheduler="synchronous")
    assert 1e-9 < off(c, a, b) <= 2e-5


def test_torch(operands):
    torch = pytest.importorskip("torch")
    pytest.importorskip("falcon.torch")
    a, b = (torch.from_numpy(x) for x in operands)
    assert 1e-9 < off(falcon.matmul(a, b, error=2e-5).numpy(), *operands) <= 2e-5
    model = torch.nn.Linear(500, 400, bias=False, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(b.T)
        layers = torch.nn.Sequential(model)
        how = falcon.torch.LinearConfig(measure=False, rows=640)
        falcon.torch.convert_(layers, how, error=2e-5, progress=False)
        assert 1e-9 < off(layers(a).numpy(), *operands) <= 2e-5
        falcon.torch.revert_(layers)
    with pytest.raises(ValueError, match="error is 3; expected a number above 0"):
        falcon.torch.LinearConfig(error=3)


def test_grades_name_the_rung():
    from falcon._grade.grade import grade

    def as_float32(a, b):
        return falcon.matmul(a, b, arithmetic="float32")

    assert grade(as_float32, "float64", size=320).name == "float32 operands"
