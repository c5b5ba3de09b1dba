"""`falcon.profile`: what is counted, what gains are made of, and the verdict."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import falcon
from falcon._accelerate.profile import Profile, Row
from falcon._core import observe
from falcon._front.plan import by_numpy
from falcon._front.subscripts import has_product

A = np.random.default_rng(1).standard_normal((300, 300))
B = np.random.default_rng(2).standard_normal((300, 300))


@pytest.mark.usefixtures("engine")
def test_profile():
    with falcon.profile() as p, falcon.accelerate(quiet=True):
        for _ in range(4):
            A @ B
        falcon.gemm(A, B)
        falcon.matmul(A, B)
        falcon.gram(A)
    A @ B
    rows = p.rows()
    assert [x.calls for x in sorted(rows, key=lambda x: x.place)] == [4, 1, 1, 1]
    assert all(x.place.startswith(__file__) and x.seconds > 0 for x in rows)
    assert all(x.numpy_seconds > 0 for x in rows)
    assert str(falcon.profile()) == "falcon saw no product"


def test_profiles_of_eight_threads():
    """Each counts what runs while it is there, and none goes on counting."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def profiles(_):
        seen = []
        for _ in range(200):
            with falcon.profile() as p:
                seen.append(any(x.__self__ is p for x in observe.observers))
        return seen

    try:
        with ThreadPoolExecutor(8) as pool:
            assert all(x for seen in pool.map(profiles, range(8)) for x in seen)
    finally:
        sys.setswitchinterval(before)
    assert observe.observers == observe.of_misses == ()


def test_a_signal_while_a_block_begins_or_ends():
    """Its handler may raise where a function begins or has called C: nothing goes on counting."""

    def profiler(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename == sys.modules[Profile.__module__].__file__ and event in (
            "call",
            "c_return",
        ):
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

    for count in range(1, 1000):
        left, block = count, falcon.profile()
        sys.setprofile(profiler)
        try:
            with block:
                pass
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        assert not observe.observers and not observe.of_misses
        if left > 0:
            break
    assert 5 < count < 1000


@pytest.mark.usefixtures("engine")
def test_what_is_not_reached():
    with falcon.profile() as p, falcon.accelerate(quiet=True):
        for _ in range(3):
            np.einsum("ij, jk", A, B)
        np.einsum("ij,ij->j", np.tile(A, 20), np.tile(A, 20))  # no product of matrices
        np.einsum("ij,jk->ik", A[:2, :2], B[:2, :2])  # takes no millisecond
        assert isinstance(np.einsum(A, [0, 1], B, [1, 2]), np.ndarray)
    np.einsum("ij,jk", A, B)
    (row,) = p.missed()
    assert row.place.startswith(__file__) and (row.call, row.calls) == ("np.einsum('ij, jk')", 3)
    assert 0.003 <= row.seconds <= p.seconds and not p.rows()
    text = f"3 calls of np.einsum('ij, jk') in NumPy's loops, {row.seconds:.3g} s: write @"
    assert text in str(p)
    with p, falcon.accelerate(quiet=True):
        A.dot(B)
    assert text in str(p) and len(p.rows()) == 1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ij,jk->ik", True),
        ("bij,bjk", True),
        ("bij,bjk->bik", True),
        ("...ij,...jk", True),
        ("ia,ib,ja->jb", True),
        ("ij,j->i", False),
        ("ij,ij", False),
        ("i,j->ij", False),
        ("ij->ji", False),
    ],
)
def test_products_in_subscripts(text, wanted):
    assert has_product(text) is wanted


def test_a_program_beside_the_clone_is_no_part_of_falcon():
    """Though its name begins with falcon's folder."""
    folder = str(Path(falcon.__file__).parent)
    calls = {"A": A, "falcon": falcon}
    program = "with falcon.profile() as p: falcon.matmul(A, A)"
    exec(compile(program, f"{folder}_x.py", "exec"), calls)
    assert [x.place for x in calls["p"].rows()] == [f"{folder}_x.py:1"]


def test_a_line_of_a_package_stands_with_that_of_the_program(tmp_path, monkeypatch):
    package = tmp_path / "lib" / "site-packages" / "package.py"
    package.parent.mkdir(parents=True)
    package.write_text("import falcon\n\n\ndef twice(a):\n    return falcon.matmul(a, a)\n")
    monkeypatch.syspath_prepend(package.parent)
    import package as imported

    with falcon.profile() as p:
        imported.twice(A)
        list(map(imported.twice, [A]))
    (row, other) = sorted(p.rows(), key=lambda x: x.place)
    assert row.place.startswith(__file__) and other.place.startswith(__file__)
    assert row.within == other.within == f"{package}:5"
    assert ", in package.py:5\n" in str(p)
    assert max(map(len, str(p).splitlines())) <= 100


def test_profiles_end_in_any_order():
    first, second = falcon.profile(), falcon.profile()
    first.start()
    second.start()
    first.stop()
    falcon.matmul(A, B)
    second.stop()
    falcon.matmul(A, B)
    assert [sum(x.calls for x in p.rows()) for p in (first, second)] == [0, 1]


def test_gains_are_of_predictions_on_both_sides():
    """However long the calls have taken here."""
    with falcon.profile() as p:
        falcon.gemm(A, B, scheme="strassen", backend="numpy")
        falcon.gemm(A, B, backend="numpy")
        falcon.gemm(A.astype(int), B.astype(int))
    scheme, plain, exact = sorted(p.rows(), key=lambda x: x.place)
    assert scheme.gain == scheme.numpy_seconds / scheme.predicted != 1
    assert (plain.gain, exact.gain) == (1, None)
    assert plain.numpy_seconds == pytest.approx(scheme.numpy_seconds)
    assert "falcon's, predicted" in str(p) and "with and without falcon" in p.verdict()


@pytest.mark.usefixtures("engine")
def test_the_time_of_numpy_is_that_of_the_search():
    """Of equal products the same, whatever falcon does instead."""
    plan = falcon.plan((1500, 1500), (1500, 1500), "float32")  # whose reason names the same ratio
    compared = [x for x in plan.candidates if x.method.label == "classical"]
    compared = [x for x in compared if x.method.backend == "numpy"]
    assert {by_numpy(plan).total} >= {x.total for x in compared}
    x, packed = np.ones((900, 900), "f4"), falcon.pack(np.ones((900, 900), "f4"), rows=900)
    every = ({}, {"arithmetic": "int8"}, {"centre": True}, {"error": 1e-6}, {"scheme": "strassen"})
    plans = [falcon.plan(x, packed), *(falcon.plan(x, x, **how) for how in every)]
    assert len({by_numpy(y).total for y in plans}) == 1


def rowed(place, seconds, predicted, numpy, why="why"):
    return Row(place, "", "p", 1, seconds, "s", "cpu", predicted, numpy, why)


def verdict(rows, seconds):
    p = Profile()
    p._past, p.rows = seconds, lambda: rows
    return p.verdict()


def test_the_verdict_of_predictions():
    rows = [rowed("x.py:1", 4.0, 4.0, 6.0), rowed("x.py:2", 1.0, 1.0, 1.0, why="too small")]
    text = verdict(rows, 10.0)
    assert text.startswith("this program gains about 1.20 x, by the cost model")
    assert "most of it in x.py:1 (1.50 x); no gain in x.py:2 (too small)" in text
    assert text.endswith("products take 50% of its time")
    slow = [rowed("x.py:1", 16.0, 4.0, 6.0), rowed("x.py:3", 8.0, 4.0, 6.0)]
    warning, text = verdict(slow, 100.0).splitlines()
    assert warning.startswith("warning: x.py:1: 16 s measured, 4 s predicted, and 1 more like it")
    assert "about 1.12 x" in text  # of the seconds that passed
    assert verdict([rowed("x.py:1", 4.0, None, None)], 10.0).startswith(
        "no product can be compared"
    )
