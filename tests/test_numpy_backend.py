"""Backend "numpy": block sizes, chunks within a limit, ragged edges, strips."""

from itertools import product

import numpy as np
import pytest

import falcon
from falcon._backends import BACKENDS
from falcon._core.dtypes import dtype_of
from falcon._numpy.lcma import Stages
from falcon._tools.cpus import kept_bytes

from .doors import Plan, Problem

BACKEND = BACKENDS["numpy"]
F8 = dtype_of("float64")


def whole(rng, shape, dtype="f8"):
    return rng.integers(-9, 10, shape).astype(dtype)


def plan_for(problem, scheme, limit=None):
    (option,) = BACKEND.candidates(problem, (scheme,), limit)
    return Plan(problem, BACKEND, option, 1, "test")


@pytest.mark.parametrize("dtype", ["f8", "i4", "g"])
def test_measure(doors, dtype):
    doors.numbers(disturbed=np.inf, least_cpu=0.0)  # other tests compute beside it
    rates = BACKEND.measure(dtype_of(np.dtype(dtype)), 1)
    assert rates.multiply > 0
    assert rates.add > 0
    assert rates.bandwidth > 0


def test_candidates_are_what_keeps_the_limit():
    problem = Problem(100, 90, 80, F8, buffered=True, a_direct=False, b_direct=True)
    s = falcon.schemes.get("strassen")
    options = BACKEND.candidates(problem, [None, s, falcon.schemes.get("laderman")], None)
    assert [x.label for x in options] == ["classical", "strassen", "laderman"]
    assert options[0].workspace >= 8 * (100 * 90 + 100 * 80)
    assert options[1].chunks == (100, 90, 80)
    # Too little for a scheme; the classical product does without copies.
    (only,) = BACKEND.candidates(problem, [None, s], 8 * 100 * 90 + 8 * 9000)
    assert only.workspace == 8 * 2 * 100 * 90


@pytest.mark.parametrize("scheme", ["strassen", "2x3x4:20", "5x5x5"])
def test_every_raggedness(scheme):
    """Sizes around the format, each with chunks that divide them and chunks that don't."""
    s = falcon.schemes.get(scheme)
    rng = np.random.default_rng(1)
    m, k, n = s.format
    sizes = [sorted({1, d - 1, d, d + 1, 2 * d, 2 * d + 1} - {0}) for d in (m, k, n)]
    for M, K, N in product(*sizes):
        a, b = whole(rng, (M, K), "i8"), whole(rng, (K, N), "i8")
        problem = Problem(M, N, K, dtype_of("int64"))
        whole_plan = plan_for(problem, s)
        option = whole_plan.method
        for chunks in ((M, N, K), (m, n, k), (2 * m, n, K)):
            stages = Stages.of(problem, s, chunks)
            cut = type(option)("numpy", s, chunks, stages.workspace, layout=stages)
            out = np.full((M, N), 77)
            Plan(problem, BACKEND, cut, 1, "").runner(a, b, None, out)
            np.testing.assert_array_equal(out, a @ b, err_msg=f"{M, K, N, chunks}")


@pytest.mark.parametrize("limit", [None, 30_000])
def test_workspace_is_filled_before_it_is_read(limit, monkeypatch):
    """Fresh memory may hold anything: poison it with NaN."""
    empty = np.empty

    def poisoned(*arguments, **options):
        x = empty(*arguments, **options)
        if x.dtype.kind == "f":
            x.fill(np.nan)
        return x

    rng = np.random.default_rng(2)
    a, b, c = whole(rng, (37, 41)), whole(rng, (41, 29)), whole(rng, (37, 29))
    monkeypatch.setattr(np, "empty", poisoned)
    for name in ("strassen", "3x3x3:23", "4x2x3:20"):
        options = {"scheme": name, "workspace_limit": limit, "check": "none", "backend": "numpy"}
        found = falcon.gemm(a, b, c, alpha=2, beta=3, **options)
        np.testing.assert_array_equal(found, 2 * (a @ b) + 3 * c)
        np.testing.assert_array_equal(falcon.gemm(a, b, **options), a @ b)


@pytest.mark.parametrize("limit", [1_000, 100_000])
def test_a_limit_that_would_take_minutes_is_refused(limit):
    shapes = (2000, 2000), (2000, 2000)
    options = {"scheme": "strassen", "backend": "numpy"}
    said = f"workspace_limit is {limit} bytes; .* cannot keep it .*; without a limit it takes "
    with pytest.raises(ValueError, match=said) as error:
        falcon.plan(*shapes, workspace_limit=limit, **options)
    usual = int(str(error.value).split()[-2])
    falcon.plan(*shapes, workspace_limit=usual, **options)
    assert falcon.plan(*shapes, workspace_limit="4MiB", **options).workspace <= 2**22


@pytest.mark.parametrize("dtype", ["complex128", "int64", "float32"])
def test_the_default_workspace_is_bounded(dtype):
    backend, scheme = BACKEND, falcon.schemes.get("strassen@strassen")
    problem = Problem(16384, 16384, 16384, dtype_of(dtype))
    (option,) = backend.candidates(problem, (scheme,), None)
    assert 0 < option.workspace <= kept_bytes()
    assert option.chunks != (16384,) * 3
    (more,) = backend.candidates(problem, (scheme,), 2**40)
    assert more.chunks == (16384,) * 3


@pytest.mark.parametrize(
    "asked, kernels, said",
    [
        ("Haswell", "Haswell", "NumPy is held to Haswell kernels by OPENBLAS_CORETYPE"),
        ("SKYLAKEX", "SkylakeX", ""),
        (None, "Haswell", ""),
    ],
)
def test_kernels_that_the_environment_asks_for_are_said(monkeypatch, asked, kernels, said):
    from falcon._numpy import rates, threads

    about = {"internal_api": "openblas", "version": "0", "architecture": kernels}
    monkeypatch.setattr(rates, "numpy_blas", lambda: threads.Blas(None, None, about))
    if asked is None:
        monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    else:
        monkeypatch.setenv("OPENBLAS_CORETYPE", asked)
    assert rates.held().startswith(said) and bool(rates.held()) == bool(said)
    assert falcon.show_config("dict")["numpy kernels"].get("note", "") == rates.held()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("door", ["plain", "batch", "packed", "overlap", "symmetric", "strided"])
def test_halves_are_rounded_once(dtype, door):
    """``alpha a b + beta c`` too, within the workspace of a product that is added to c."""
    rng, dtype = np.random.default_rng(3), dtype_of(dtype).numpy
    a, b, c = (rng.standard_normal(x).astype(dtype) for x in ((150, 300), (300, 150), (150, 150)))
    how = {"backend": "numpy", "alpha": 0.7, "beta": 1.3}
    alpha, beta = (float(dtype.type(how[x])) for x in ("alpha", "beta"))
    if door == "symmetric":
        b, c = a.T, c + c.T
    if door == "strided":
        a, b = (np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2] for x in (a, b))
        how["workspace_limit"] = 2 * 150 * 150 * 2
    wanted = (alpha * (a.astype(float) @ b.astype(float)) + beta * c.astype(float)).astype(dtype)
    if door == "batch":
        found = falcon.gram(np.stack([a, a]), c=np.stack([c, c]), transpose=True, **how)[1]
        wanted = alpha * (a.astype(float) @ a.T.astype(float)) + beta * c.astype(float)
        found, wanted = np.tril(found), np.tril(wanted).astype(dtype)
    elif door == "packed":
        found = falcon.gemm(a, falcon.pack(b, backend="numpy"), c, **how)
    elif door == "overlap":
        found = falcon.gemm(a, b, c, out=c, **how)
    else:
        found = falcon.gemm(a, b, c, **how)
    assert (found == wanted).mean() > 0.99  # of sums in float32
    how |= {"beta": 0}
    found = falcon.gemm(a, b, **how)
    wanted = (alpha * (a.astype(float) @ b.astype(float))).astype(dtype)
    assert (found == wanted).mean() > 0.99
