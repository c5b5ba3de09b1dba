"""Products that are computed as others: one more way, by one module and one row of the table."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import falcon
from falcon._cpu.backend import CpuBackend
from falcon.decision import rewrites

from . import halves

RANDOM = np.random.default_rng(5)
A, B = RANDOM.standard_normal((halves.ROWS, 120)), RANDOM.standard_normal((120, 90))
EXACT = A.astype(np.longdouble) @ B


@pytest.fixture(autouse=True)
def row(monkeypatch):
    rule = rewrites.Rule(halves.fits, halves.__name__)
    monkeypatch.setattr(rewrites, "RULES", (*rewrites.RULES, rule))


@pytest.mark.parametrize("scheme", ["auto", "classical", "strassen"])
def test_a_product_by_it(scheme):
    plan = falcon.plan(A, B, scheme=scheme)
    assert type(plan.rewrite) is halves.Halves
    assert [x.plan.problem.M for x in plan.parts] == [37, 37]
    assert f"  rows 37 to 74: {plan.parts[1].plan.label}" in str(plan).splitlines()
    bound, proved = plan.error_bound(A, B), plan.error_bound(A, B, proved=True)
    assert (bound <= proved).all()
    for product in (plan(A, B), falcon.gemm(A, B, scheme=scheme), falcon.matmul(A, B)):
        assert (np.abs(product - EXACT) <= bound).all()
    c = RANDOM.standard_normal(EXACT.shape)
    added = falcon.gemm(A, B, c=c, alpha=2.0, beta=-1.0, scheme=scheme)
    np.testing.assert_allclose(added, 2 * EXACT - c, rtol=0, atol=1e-11)


def test_operands_that_lie_otherwise():
    plan = falcon.plan(A, B, scheme="strassen")
    a, b, out = np.asfortranarray(A), B[::-1][::-1].T.copy().T, np.empty(EXACT.shape, order="F")
    fitted = plan.fitted(falcon.plan(a, b).problem)
    assert fitted.problem.layout != plan.problem.layout
    assert all(x.plan.problem.layout == fitted.problem.layout for x in fitted.parts)
    assert plan(a, b, out) is out
    np.testing.assert_allclose(out, EXACT, rtol=0, atol=1e-12)
    batch = np.stack([A, -A]), np.stack([B, B])
    product = falcon.matmul(*batch, scheme="strassen", backend="numpy")
    np.testing.assert_allclose(product, [EXACT, -EXACT], rtol=0, atol=1e-12)


def test_a_pickled_plan():
    plan = falcon.plan(A, B)
    text = pickle.dumps(plan)
    loaded = pickle.loads(text)
    assert loaded.rewrite == plan.rewrite
    assert loaded.label == plan.label
    assert pickle.dumps(loaded) == text
    assert (loaded(A, B) == plan(A, B)).all()


def test_a_product_that_is_verified(doors, monkeypatch):
    falcon.gemm(A, B, check="verify")
    plan = falcon.plan(A, B, backend="numpy")
    assert plan.rewrite == halves.Halves()

    def change(out):
        out[0, 0] += 1

    doors.wrong(change)
    monkeypatch.setattr(CpuBackend, "again", lambda *_: None)  # which makes it right
    with pytest.raises(falcon.VerificationError, match=f"by {plan.label} failed"):
        falcon.gemm(A, B, check="verify", backend="numpy")


def test_a_packed_operand():
    packed = falcon.pack(B, scheme="strassen")
    plan = falcon.plan(A.shape, packed)
    assert plan.rewrite == halves.Halves()
    np.testing.assert_allclose(A @ packed, EXACT, rtol=0, atol=1e-12)
    alone = falcon.plan(B.T.shape, packed)
    assert alone.rewrite is None
    with pytest.raises(TypeError, match="no b is packed for halves"):
        halves.Halves().pack(plan, B)


def test_rules_read_fields_alone():
    """They see no plan, no machine: what fits is known before anything is imported."""
    problem, options = falcon.plan(A, B).problem, falcon.plan(A, B).options
    assert rewrites.home_of(problem, options) is halves
    assert rewrites.home_of(replace(problem, M=75), options) is None
    assert rewrites.home_of(problem, replace(options, modulus=7)).__name__.endswith("residues")
