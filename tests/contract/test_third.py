"""A backend that is an entry of the table, and nothing else: falcon's calls know it by its name."""

import pickle

import numpy as np
import pytest

import falcon
from falcon._backends import BACKENDS, get_backend
from falcon._core.plan import Backend

from ..decision.conftest import folder  # noqa: F401  (fixture)
from .support import THIRD
from .values import whole

A, B = (whole("float32", shape, i) for i, shape in enumerate([(300, 200), (200, 250)]))
NAME = THIRD.name


def test_it_is_no_part_of_falcon():
    assert {x for x in vars(Backend) if not x.startswith("_")} <= {*dir(THIRD)}
    assert NAME not in BACKENDS and NAME not in falcon.show_config("dict")["backends"]
    with pytest.raises(ValueError, match=f"backend is '{NAME}'; expected one of auto, cpu, numpy"):
        falcon.gemm(A, B, backend=NAME)


@pytest.fixture
def first(folder, third):  # noqa: F811
    """Before the first product of a process."""
    return third


def test_options_and_errors_know_its_name(first):
    with falcon.config(backend=NAME):
        assert falcon.plan(A, B).backend is first
        np.testing.assert_array_equal(falcon.gemm(A, B), A @ B)
    with pytest.raises(ValueError, match=f"expected one of auto, cpu, numpy, {NAME}, gpu"):
        falcon.gemm(A, B, backend="scipi")
    with pytest.raises(TypeError, match=r"'strassen' cannot multiply .* knows no schemes"):
        falcon.gemm(A, B, backend=NAME, scheme="strassen")
    with pytest.raises(TypeError, match=f"backend '{NAME}' cannot multiply .* int16"):
        falcon.gemm(A.astype("int16"), B.astype("int16"), backend=NAME)
    with pytest.raises(ValueError, match=r"reproducible=True is for .* backend 'cpu'"):
        falcon.gemm(A, B, backend=NAME, reproducible=True)
    with pytest.raises(TypeError, match=f"backend '{NAME}' needs plain numeric arrays"):
        falcon.matmul(A.astype(object), B.astype(object), backend=NAME)


def test_what_falcon_tells_of_it(first):
    found = falcon.show_config("dict")
    assert found["backends"][NAME] == "available"
    assert found[f"{NAME} kernels"] == first.describe()
    assert found["rates"][f"{NAME} float32"] == "measured here when first needed"


def test_it_is_measured_when_first_needed(first):
    """For a prediction; the profile of the machine keeps what was measured."""
    plan = falcon.plan(A, A.T, backend=NAME)
    assert plan.rates == "measured here" and plan.seconds[0][1] > 0
    assert f"classical on backend {NAME}" in plan.explain() and "predicted" in plan.explain()
    assert [*falcon.machine().rates] == [(NAME, "float32", plan.threads)]
    assert falcon.machine().key[f"{NAME}.scipy"] == first.identity()["scipy"]
    assert falcon.show_config("dict")["rates"][f"{NAME} float32"] == "measured here"
    np.testing.assert_array_equal(plan(A, A.T), A @ A.T)


def test_its_plans_are_pickled(first):
    plan = pickle.loads(pickle.dumps(falcon.plan(A, B, backend=NAME)))
    assert type(plan.backend) is type(first) and f"classical on backend {NAME}" in repr(plan)
    np.testing.assert_array_equal(plan(A, B), A @ B)


def test_it_packs(first):
    b = falcon.pack(B, backend=NAME)
    assert b.backend == NAME and b.scheme is None
    np.testing.assert_array_equal(falcon.gemm(A, b, alpha=2), 2 * (A @ B))
    with pytest.raises(ValueError, match=f"b was packed for '{NAME}'"):
        falcon.gemm(A, b, backend="numpy")


def test_products_modulo_p_and_tune_use_it(first):
    a, b = (whole("int64", shape, i) for i, shape in enumerate([(90, 70), (70, 80)]))
    np.testing.assert_array_equal(falcon.gemm(a, b, modulus=8191, backend=NAME), a @ b % 8191)
    (tuned,) = falcon.tune([(150, 150, 150)], rounds=1, threads=1, candidates=1)
    assert NAME in {x.candidate.method.backend for x in tuned.measured}


def test_others_are_chosen_before_it(first):
    assert get_backend(NAME) is first
    assert falcon.plan((100, 100), (100, 100), "float32").backend is not first
    assert falcon.plan((100, 100), (100, 100), "int16").backend is not first
