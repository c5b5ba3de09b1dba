"""Which batches falcon's engine multiplies, in one call, and that they are right."""

import numpy as np
import pytest

import falcon
from falcon._core.options import settings, threads_of
from falcon._cpu import extension


@pytest.fixture
def batches(doors):
    """Numbers of products that the engine multiplied at once."""
    if extension.why_unavailable() is not None or extension.isa() == "generic":
        pytest.skip("no kernels that beat a BLAS")
    return doors.multiplied(lambda plan, count: count if plan.backend.name == "cpu" else 0)


several = pytest.mark.skipif(threads_of(settings()) < 2, reason="one thread only")
N = 300


def operands(dtype, how="rows"):
    random = np.random.default_rng(0)
    a, b = (random.integers(-9, 10, (N, *x)).astype(dtype) for x in ((31, 33), (33, 34)))
    if how == "columns":
        return tuple(x.swapaxes(1, 2).copy().swapaxes(1, 2) for x in (a, b))
    if how == "strided":
        return np.repeat(a, 2, axis=2)[..., ::2], np.repeat(b, 2, axis=1)[:, ::-2][:, ::-1]
    return (a, b[:1]) if how == "broadcast" else (a, b)


@several
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "f2"])
@pytest.mark.parametrize("how", ["rows", "columns", "strided", "broadcast"])
def test_the_engine_multiplies_long_batches(batches, dtype, how):
    a, b = operands(dtype, how)
    wanted = np.matmul(a.astype("f8"), b.astype("f8"))
    out = np.zeros_like(wanted, dtype)
    for given in (None, out, out):  # the last one is recalled
        out[...] = 0
        np.testing.assert_array_equal(falcon.matmul(a, b, given), wanted.astype(dtype))
    assert batches == [N] * 3


@several
@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("how", ["rows", "columns", "strided", "broadcast"])
def test_the_engine_multiplies_complex_batches_with_a_by_rows(batches, dtype, how):
    (a, _), (_, b) = operands(dtype), operands(dtype, how)
    a, b = a * (2 - 1j) + a[::-1] * 1j, b * (1 + 3j) + b[:, ::-1] * 1j
    wanted = np.matmul(a, b)
    for z in (b, np.asfortranarray(b) if how == "columns" else b):
        out = np.zeros_like(wanted)
        for given in (None, out, out):
            out[...] = 0
            np.testing.assert_array_equal(falcon.matmul(a, z, given), wanted)
    assert batches == [N] * 6
    by_columns = a.swapaxes(1, 2).copy().swapaxes(1, 2)
    np.testing.assert_array_equal(falcon.matmul(by_columns, b), wanted)  # NumPy's
    np.testing.assert_array_equal(falcon.matmul(a[..., ::-1], b[:, ::-1]), wanted)
    assert len(batches) == 6


@several
def test_complex_batches_round_as_classical_products_and_keep_infinities_in_their_rows(batches):
    random = np.random.default_rng(2)
    a, b = (random.standard_normal((N, 30, 2 * 30)).view("c16") for _ in "ab")
    exact = np.matmul(a.astype("c32"), b.astype("c32"))
    bound = 2 * 30 * 2.0**-53 * np.matmul(abs(a), abs(b)) * 2
    assert (abs(falcon.matmul(a, b) - exact) <= bound).all()
    a[7, 3, 4] = np.inf
    made = falcon.matmul(a, b)
    assert not np.isfinite(made[7, 3]).any()
    made[7, 3] = 0
    assert np.isfinite(made).all() and len(batches) == 2


@several
def test_operands_of_two_types_are_converted_once(batches):
    a, b = operands("f4")
    np.testing.assert_array_equal(falcon.matmul(a, b.astype("f8")), np.matmul(a, b))
    assert batches == [N]


@several
def test_einsum(batches):
    a, b = operands("f4")
    np.testing.assert_array_equal(falcon.einsum("bij,bjk->bik", a, b), np.matmul(a, b))
    q, k = a.reshape(30, 10, 31, 33), b.swapaxes(1, 2).reshape(30, 10, 34, 33)
    found = falcon.einsum("bhqd,bhkd->bhqk", q, k)
    np.testing.assert_array_equal(found, np.matmul(q, k.swapaxes(2, 3)))
    assert batches == [N, N]


@several
def test_profile_counts_the_products_of_a_batch(batches):
    a, b = operands("f4")
    with falcon.profile() as p:
        falcon.matmul(a, b)
    assert [(x.calls, x.backend) for x in p.rows()] == [(N, "cpu")]


@several
def test_accelerated_numpy(batches):
    a, b = operands("f4")
    wanted = np.matmul(a, b)
    with falcon.accelerate(quiet=True):
        found = a @ b, np.matmul(a, b[0], out=np.empty_like(wanted)), a[:3] @ b[:3]
    np.testing.assert_array_equal(found[0], wanted)
    np.testing.assert_array_equal(found[1], np.matmul(a, b[0]))
    np.testing.assert_array_equal(found[2], wanted[:3])
    assert batches[:1] == [N] and 3 not in batches


@pytest.mark.parametrize(
    "options", [{"threads": 1}, {"backend": "numpy"}, {"scheme": "classical", "threads": 1}]
)
def test_numpy_multiplies_others(batches, options):
    a, b = operands("f4")
    np.testing.assert_array_equal(falcon.matmul(a, b, **options), np.matmul(a, b))
    for few in (1, 3):
        np.testing.assert_array_equal(falcon.matmul(a[:few], b[:few]), np.matmul(a[:few], b[:few]))
    z = a * (1 + 2j), b * (2 - 1j)
    np.testing.assert_array_equal(falcon.matmul(*z, **options), np.matmul(*z))
    assert not batches


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8"])
@pytest.mark.parametrize("shapes", [((1, 4), (4, 1)), ((9, 8), (8,)), ((1, 8), (8, 9)),
                                    ((3, 3), (3, 3))])  # fmt: skip
def test_tiny_integer_products_stay_in_numpys_loops(batches, dtype, shapes):
    random = np.random.default_rng(0)
    a, b = (random.integers(0, 200, (5000, *x)).astype(dtype) for x in shapes)
    b = b if b.ndim > 2 else b[0]
    np.testing.assert_array_equal(falcon.matmul(a, b), np.matmul(a, b))
    in_place = a.itemsize > 2 and shapes[0] == (3, 3)
    assert len(batches) == in_place
    np.testing.assert_array_equal(falcon.matmul(a, b, backend="cpu"), np.matmul(a, b))
    assert len(batches) == 1 + in_place


def test_the_engine_by_name_takes_all(batches):
    a, b = operands("f8")
    for options in ({"backend": "cpu"}, {"reproducible": True}):
        for x, y in ((a, b), (a[:3], b[:3]), (a[:, :1], b), (a, b[..., :1])):
            batches.clear()
            np.testing.assert_array_equal(falcon.matmul(x, y, **options), np.matmul(x, y))
            assert len(batches) == 1


def test_bits_do_not_depend_on_threads(batches):
    random = np.random.default_rng(1)
    for shape in ((200, 31, 33), (5, 130, 140), (3, 200, 300)):
        a = random.standard_normal(shape)
        b = random.standard_normal((shape[0], shape[2], 70))
        one, two, more = (falcon.matmul(a, b, reproducible=True, threads=x) for x in (1, 2, None))
        assert np.array_equal(one, two) and np.array_equal(one, more)
        single = falcon.matmul(a[1], b[1], reproducible=True)
        np.testing.assert_allclose(one[1], single, rtol=0, atol=1e-12 * shape[2])


def test_the_limit_of_the_workspace_holds(batches):
    a, b = operands("f4")
    np.testing.assert_array_equal(falcon.matmul(a, b, workspace_limit=0), np.matmul(a, b))
