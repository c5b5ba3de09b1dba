"""``check="verify"``: flipped bits are found and made right, right products are not suspected."""

import logging
import os

import numpy as np
import pytest

import falcon
from falcon._backends import BACKENDS
from falcon._core.dtypes import dtype_of
from falcon._cpu.backend import CpuBackend
from falcon._front import execute
from falcon._front.adapters.host import NUMPY
from falcon._front.checksums import suspects
from falcon._front.planner import resolve_options
from falcon._front.verified import verified

pytestmark = pytest.mark.skipif(
    BACKENDS["cpu"].why_unavailable() is not None, reason="needs the compiled extension"
)


def soak(*given):
    return pytest.param(*given, marks=pytest.mark.soak)


def signs(random, shape):
    return random.choice([-1, 1], shape)


KINDS = {
    "normal": lambda r, shape, axis: r.standard_normal(shape),
    "uniform": lambda r, shape, axis: r.uniform(-1, 1, shape),
    "positive": lambda r, shape, axis: r.uniform(0, 1, shape),
    "whole": lambda r, shape, axis: r.integers(-9, 10, shape),
    "tiny": lambda r, shape, axis: 1e-14 * r.standard_normal(shape),
    "huge": lambda r, shape, axis: 1e15 * r.standard_normal(shape),
    "sparse": lambda r, shape, axis: r.standard_normal(shape) * (r.random(shape) < 0.05),
    "heavy": lambda r, shape, axis: np.exp(2 * r.standard_normal(shape)) * signs(r, shape),
    "low rank": lambda r, shape, axis: (
        r.standard_normal((shape[0], 3)) @ r.standard_normal((3, shape[1]))
    ),
    "lines": lambda r, shape, axis: (
        r.standard_normal(shape)
        * 10.0 ** r.uniform(-3, 3, shape[axis]).reshape((-1, 1) if axis == 0 else (1, -1))
    ),
    "a mean": lambda r, shape, axis: 5 + r.standard_normal(shape),
    "halves": lambda r, shape, axis: (
        abs(r.standard_normal(shape)) * np.where(np.arange(shape[1]) * 2 < shape[1], 1, -1)
    ),
}


def drawn(random, kind, least, most):
    """Return a product of `execute` that is made, and its plan."""
    M, K, N = (int(x) for x in np.exp(random.uniform(np.log(least), np.log(most), 3)))
    dtype = str(random.choice(["f4", "f8"]))
    a, b = (KINDS[kind](random, *x).astype(dtype) for x in (((M, K), 0), ((K, N), 1)))
    scheme = str(random.choice(["classical", "strassen"]))
    return made(a, b, scheme=scheme)


def made(a, b, **options):
    chosen = resolve_options("gemm", ("scheme", "threads"), {"threads": 1, **options})
    out = np.empty((len(a), b.shape[1]), a.dtype)
    x = execute.Product(NUMPY, a, b, None, out, dtype_of(a.dtype), dtype_of(a.dtype), chosen)
    plan = x.plan
    execute._run(x, plan)
    return x, plan


def flipped(random, x):
    """Return a copy of a matrix with one bit flipped."""
    bits = x.copy().view(f"u{x.itemsize}")
    one = bits.dtype.type(1) << bits.dtype.type(random.integers(8 * x.itemsize))
    bits[tuple(random.integers(x.shape))] ^= one
    return bits.view(x.dtype)


@pytest.fixture
def seeded(monkeypatch):
    monkeypatch.setattr(os, "urandom", np.random.default_rng(11).bytes)


@pytest.mark.parametrize("times", [600, soak(10_000)])
def test_flipped_bits_are_found(times, caplog, seeded):
    """In C, or in the panels of A or B: of those above 8 sqrt(N) bounds of an entry, 99.9 %."""
    caplog.set_level(logging.WARNING, "falcon")
    random, large, found = np.random.default_rng(3), 0, 0
    for at in range(times):
        kind = [*KINDS][at % len(KINDS)]
        x, plan = drawn(random, kind, 30, 300)
        right, bound = x.out.copy(), plan.error_bound(x.a, x.b)
        if at % 3 == 0:
            wrong = flipped(random, x.out)
        else:
            a, b = (flipped(random, x.a), x.b) if at % 3 == 1 else (x.a, flipped(random, x.b))
            wrong = made(a, b, scheme=x.options.scheme)[0].out
        with np.errstate(all="ignore"):
            error = abs(wrong.astype("f8") - right)[bound > 0]
        least = 8 * right.shape[1] ** 0.5 * bound[bound > 0] + 1e3 * np.finfo(x.a.dtype).tiny
        if (error <= least).all():
            continue
        large += 1
        caplog.clear()
        x.out[...] = 7

        def run(x, plan, wrong=wrong):
            x.out[...] = wrong

        try:
            verified(x, run)
        except falcon.VerificationError:
            found += 1
            continue
        found += "a wrong product" in caplog.text
        if caplog.text:
            allowed = 10 * right.shape[1] ** 0.5 * bound + 1e3 * np.finfo(x.a.dtype).tiny
            assert (abs(x.out.astype("f8") - right) <= np.maximum(allowed, allowed.max())).all()
    assert large > times / 4 and found >= (0.999 if times >= 10_000 else 0.99) * large


@pytest.mark.parametrize("times", [480, soak(100_000)])
def test_right_products_raise_no_alarm(times, caplog, seeded):
    random, looked = np.random.default_rng(4), 0
    for at in range(times):
        x, plan = drawn(random, [*KINDS][at % len(KINDS)], 20, 200)
        rows = suspects(x, plan.growth)
        looked += rows is None or len(rows) > 0
        if rows is None or len(rows):
            verified(x, lambda x, plan: None)  # raises
    assert "wrong" not in caplog.text and looked < times / 5


def test_a_wrong_kernel_is_named(caplog, monkeypatch):
    a = np.random.default_rng(1).standard_normal((200, 200))
    right, run, again = falcon.gemm(a, a), execute._run, CpuBackend.again
    for is_kernel in (True, False):

        def wrong(x, plan):
            done = run(x, plan)
            x.out[3, 5] += 1
            return done

        def of_kernels(self, a, b, isa="generic", is_kernel=is_kernel):
            c = again(self, a, b, isa)
            c[-1, 5] += is_kernel and isa != "generic"
            return c

        monkeypatch.setattr(execute, "_run", wrong)
        monkeypatch.setattr(CpuBackend, "again", of_kernels)
        if is_kernel and BACKENDS["cpu"].kernels() == "generic":
            continue
        caplog.clear()
        assert abs(falcon.gemm(a, a, check="verify") - right).max() < 1e-10
        assert "a wrong product of 200 x 200 @ 200 x 200 float64" in caplog.text
        assert "1 entries, the first c[3, 5], are made again by generic" in caplog.text
        assert ("kernels of" in caplog.text) == is_kernel
        assert ("grade --cores" in caplog.text) != is_kernel


def test_rows_that_checksums_tell_are_enough(monkeypatch):
    """Freivalds' check, which takes as long as some products, is not asked."""
    a = np.random.default_rng(2).standard_normal((200, 200))
    right, run = falcon.gemm(a, a), execute._run

    def wrong(x, plan):
        done = run(x, plan)
        x.out[3, 5] += 1e-6
        x.out[170:, 7] = np.nan
        return done

    monkeypatch.setattr(execute, "_run", wrong)
    monkeypatch.setattr("falcon._front.verified.Freivalds", None)
    found = falcon.gemm(a, a, check="verify")
    assert (abs(found - right) <= 2 * falcon.plan(a, a).error_bound(a, a)).all()


def test_nothing_is_said_of_what_it_cannot_tell():
    a = np.ones((4, 4))
    for b in (np.zeros((4, 4)), np.full((4, 4), np.nan), np.full((4, 4), 1e300) * a):
        x, plan = made(a * (1e300 if b[0, 0] == 1e300 else 1), b)
        assert suspects(x, plan.growth) is None
    x, plan = made(a.astype("f2"), a.astype("f2"))
    assert suspects(x, plan.growth) is None


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8"])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_lines(dtype, axis):
    """By rows and by columns of matrices that lie in any way, with and without weights."""
    random = np.random.default_rng(2)
    whole = random.integers(-50, 50, (80, 3000)).astype(dtype)
    engine = BACKENDS["cpu"]
    for x in (whole, whole[::2, ::3], np.asfortranarray(whole), whole.T):
        steps = x.shape[1 - axis]
        units = random.choice([-2.0, 1.0], steps).astype("f8" if dtype in ("f8", "i8") else "f4")
        for given in (None, units):
            squares, sums = engine.measured(x, axis, 2, given)
            y = x.astype("f8") if axis == 0 else x.T.astype("f8")
            y = y if given is None else y * given
            assert (sums == y.sum(axis=1)).all()
            assert np.allclose(squares, (y**2).sum(axis=1), rtol=1e-4)
    for other in (whole.astype("c8"), whole.astype("i4"), whole.astype(f">{dtype}")):
        assert engine.measured(other, axis, 1) is None
    product = whole[:, :80].astype("f8")
    for isa in ("generic", engine.kernels()):
        assert (engine.again(product, product, isa) == product @ product).all()
    assert engine.again(np.ones((2, 2), object), np.ones((2, 2), object)) is None
