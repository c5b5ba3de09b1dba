"""Products of a complex and a real matrix: real products of half of the work."""

import numpy as np
import pytest

import falcon
from falcon._backends import host_engine
from falcon._core import observe


@pytest.fixture(autouse=True)
def small(doors):
    doors.numbers(least_parts=0.0, shortest_part=2)
    doors.forget()


def parts_run():
    """Whether falcon's kernels multiply real and imaginary parts."""
    engine = host_engine()
    return not engine.is_library and engine.kernels() != "generic"


@pytest.fixture
def plans(monkeypatch):
    """The plans that run."""
    found = []
    monkeypatch.setattr(observe, "observers", (lambda plan, *_: found.append(plan),))
    return found


def complex_of(random, shape, dtype="complex64"):
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)


def wanted(a, b):
    """Each part is what a real product gives, up to rounding."""
    return np.real(a).astype("f8") @ np.real(b) + 1j * (
        np.imag(a).astype("f8") @ np.real(b) + np.real(a).astype("f8") @ np.imag(b)
    )


SHAPES = [((40, 50), (50, 60)), ((300, 257), (257, 310)), ((1, 50), (50, 60)), ((40, 50), (50, 1)),
          ((3, 20, 30), (30, 40)), ((20, 30), (3, 30, 40)), ((2, 1, 20, 30), (5, 30, 40)),
          ((50,), (50, 60)), ((40, 50), (50,)), ((7, 0), (0, 5))]  # fmt: skip


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize(("kind", "other"), [("complex64", "f4"), ("complex128", "f8"),
                                             ("complex64", "f8"), ("complex128", "i4"),
                                             (">c8", ">f4"), ("complex64", "f2")])  # fmt: skip
def test_values(shapes, order, left, kind, other):
    random = np.random.default_rng(0)
    x, y = shapes if left else shapes[::-1]
    one, two = complex_of(random, x, kind), (9 * random.standard_normal(y)).astype(other)
    a, b = (np.asarray(z, order=order) for z in ((one, two) if left else (two, one)))
    for _ in range(2):  # the second call is recalled
        found = falcon.matmul(a, b)
        exact = np.matmul(a, b)
        assert found.dtype == exact.dtype and found.shape == exact.shape
        assert np.allclose(found, exact, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("order", "CF")
def test_work_and_bits_are_those_of_real_products(plans, order):
    if not parts_run():
        pytest.skip("needs falcon's fast kernels")
    random = np.random.default_rng(1)
    a, b = complex_of(random, (300, 200)), random.standard_normal((200, 250)).astype("f4")
    a, b = np.asarray(a, order=order), np.asarray(b, order=order)
    found = falcon.matmul(a, b)
    assert [str(x.problem) for x in plans] == ["2 times 300 x 200 @ 200 x 250 float32"]
    for part in ("real", "imag"):
        x = np.ascontiguousarray(getattr(a, part))
        assert np.allclose(getattr(found, part), x @ b, rtol=0, atol=1e-4)
    plans.clear()
    falcon.matmul(np.ascontiguousarray(b.T), np.ascontiguousarray(a.T))
    assert [str(x.problem) for x in plans] == ["250 x 200 @ 200 x 600 float32"]


def test_infinities_stay_in_their_part():
    a, b = np.full((64, 64), np.inf + 1j, "c8"), np.ones((64, 64), "f4")
    if parts_run():
        found = falcon.matmul(a, b)
        assert (found.real == np.inf).all() and (found.imag == 64).all()
    found = falcon.matmul(b, a)
    assert (found.real == np.inf).all() and (found.imag == 64).all()


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize(("alpha", "beta", "is_real"), [(2.0, 0, True), (1, 3.0, True),
                                                        (2 + 0j, 1, True), (1j, 0, False),
                                                        (1, 1 + 1j, False)])  # fmt: skip
@pytest.mark.parametrize("where", ["new", "strided", "c", "a", "overlapping"])
def test_scalars_and_out(plans, left, alpha, beta, is_real, where):
    random, n = np.random.default_rng(2), 130
    one, two = complex_of(random, (n, n)), random.standard_normal((n, n)).astype("f4")
    a, b = (one, two) if left else (two, one)
    c = complex_of(random, (n + 1, n)) if beta else None
    added = 0 if c is None else beta * c[:n]
    exact = alpha * wanted(a, b) + added
    out = {
        "new": None,
        "strided": np.empty((2 * n, 3 * n), "c8")[::2, ::3],
        "a": one,
        "c": None if c is None else c[:n],
        "overlapping": None if c is None else c[1:],
    }[where]
    found = falcon.gemm(a, b, None if c is None else c[:n], alpha=alpha, beta=beta, out=out)
    assert np.allclose(found, exact, rtol=1e-4, atol=1e-3)
    overlaps = {"a": left, "overlapping": left and beta}.get(where, False)
    parts = left or where == "strided"  # not rows of b as they are
    one_by_one = not is_real or bool(overlaps) or (parts and not parts_run())
    assert plans[0].problem.operand.is_complex == one_by_one


def test_verified_and_by_einsum(plans):
    random = np.random.default_rng(3)
    a, b = complex_of(random, (200, 150)), random.standard_normal((150, 170)).astype("f4")
    assert np.allclose(falcon.matmul(a, b, check="verify"), a @ b, atol=1e-3)
    assert np.allclose(falcon.einsum("ij,jk->ik", a, b), a @ b, atol=1e-3)
    assert any(x.problem.operand.is_complex for x in plans) != parts_run()


def test_small_parts_and_vectors_are_complex_products(plans, doors):
    doors.numbers(least_parts=2e8, shortest_part=128)
    random = np.random.default_rng(4)
    a = complex_of(random, (600, 600))
    for b in (np.ones(600, "f4"), np.ones((600, 4), "f4"), np.ones((600, 127), "f4")):
        falcon.matmul(a, b)
    doors.numbers(least_parts=0.0, shortest_part=2)
    falcon.matmul(a, np.ones((600, 600), "f4"), backend="numpy")  # it would copy the parts
    assert all(x.problem.operand.is_complex for x in plans)
