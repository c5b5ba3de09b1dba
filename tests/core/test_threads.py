"""`threads` means threads: of falcon, of NumPy's BLAS, by threadpoolctl's limits, and no more."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import falcon
from falcon._core.dtypes import dtype_of
from falcon._core.rates import DisturbedError
from falcon._numpy import original
from falcon._numpy.threads import exceeds, limited, numpy_blas
from falcon._tools import threads
from falcon._tools.cpus import usable_cpus

from .support import python

SHAPES = (600, 600), (600, 600)
A = np.random.default_rng(0).standard_normal((700, 700))
several_cpus = pytest.mark.skipif(usable_cpus() < 2, reason="one CPU: nothing to limit")


# --- no more than CPUs ----------------------------------------------------------------------

PLAN = "import falcon; p = falcon.plan((600, 600), (600, 600){}); print(p.threads)"


@pytest.mark.parametrize(
    "argument, environment, asked",
    [
        (", threads=100", {}, "100"),
        (", threads=2**31", {}, str(2**31)),
        ("", {"FALCON_NUM_THREADS": "99999999999"}, "99999999999"),
    ],
)
def test_more_threads_than_cpus_are_capped_and_logged_once(argument, environment, asked):
    code = PLAN.format(argument) + "; " + PLAN.format(argument)
    out, err = python(code, **{"FALCON_OVERSUBSCRIBE": "0", **environment})
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    count, again = map(int, out.split())
    assert count == again <= cpus
    assert err == f"falcon: {asked} threads were requested; at most {count} are used\n"


def test_they_may_be_allowed_for_tests():
    assert python(PLAN.format(", threads=5"), FALCON_OVERSUBSCRIBE="1") == ("5\n", "")
    assert falcon.plan(*SHAPES, threads=2**31).threads == threads._LARGEST


@pytest.mark.parametrize("text", ["²", "9" * 5000, "1e3"], ids=range(3))
def test_odd_openmp_variables(text):
    code = "import os; os.environ.pop('FALCON_NUM_THREADS', 0); " + PLAN.format("")
    out, err = python(code, FALCON_OVERSUBSCRIBE="0", OMP_NUM_THREADS=text)
    assert int(out) >= 1
    assert "falcon" not in err  # libgomp may print messages of its own


# --- threadpoolctl --------------------------------------------------------------------------


def falcon_in_threadpoolctl():
    return [x for x in threadpool_info() if x["internal_api"] == "falcon"]


def test_threadpoolctl_knows_falcon():
    if falcon.show_config("dict")["backends"]["cpu"] != "available":
        pytest.skip("falcon's own kernels are not built")
    (about,) = falcon_in_threadpoolctl()
    assert about["user_api"] == "blas"
    assert about["version"] == falcon.__version__
    assert about["num_threads"] == usable_cpus()
    assert Path(about["filepath"]).parent.name == "_cpu"


@several_cpus
@pytest.mark.parametrize("api", [None, "blas"])
def test_its_limits_hold(api):
    if not falcon_in_threadpoolctl():
        pytest.skip("falcon's own kernels are not built")
    before = falcon.plan(*SHAPES).threads
    with threadpool_limits(1, user_api=api):
        assert falcon.plan(*SHAPES).threads == 1
        assert falcon.plan(*SHAPES, threads=2).threads == 1
        with ThreadPoolExecutor(1) as pool:  # the main thread's limit is the process's
            assert pool.submit(lambda: falcon.plan(*SHAPES).threads).result() == 1
    assert falcon.plan(*SHAPES).threads == before > 1


@several_cpus
def test_a_limit_of_another_thread_is_its_own():
    if not falcon_in_threadpoolctl():
        pytest.skip("falcon's own kernels are not built")
    inside, done, seen = threading.Event(), threading.Event(), []

    def work():
        with threadpool_limits(1):
            seen.append(falcon.plan(*SHAPES).threads)
            inside.set()
            done.wait()
        seen.append(falcon.plan(*SHAPES).threads)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    here = falcon.plan(*SHAPES).threads
    done.set()
    thread.join()
    assert seen[0] == 1 < here == seen[1]


# --- NumPy's BLAS ---------------------------------------------------------------------------

settable = pytest.mark.skipif(
    numpy_blas() is None or numpy_blas().get() < 2, reason="NumPy's BLAS has one thread"
)


@pytest.fixture
def seen(monkeypatch):
    """Threads of NumPy's BLAS at every np.matmul, which modules hold from import on."""
    counts, matmul, kept = [], np.matmul, original.matmul

    def recorded(*args, **kwargs):
        counts.append(numpy_blas().get())
        return kept(*args, **kwargs)

    for name, module in list(sys.modules.items()):
        held = vars(module).get("matmul")  # a copy, once `falcon.accelerate` was on
        if name.startswith("falcon.") and (held is matmul or held is kept):
            monkeypatch.setattr(module, "matmul", recorded)
    return counts


@settable
@pytest.mark.parametrize("how", ["argument", "config", "set_config"])
@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_numpys_blas_keeps_to_threads(seen, how, scheme):
    before = numpy_blas().get()
    call = {"backend": "numpy", "scheme": scheme}
    for _ in range(2):  # the second call is recalled
        if how == "argument":
            falcon.gemm(A, A, threads=1, **call)
        elif how == "config":
            with falcon.config(threads=1):
                falcon.gemm(A, A, **call)
        else:
            falcon.set_config(threads=1)
            falcon.gemm(A, A, **call)
            falcon.set_config(threads=None)
    assert set(seen) == {1}
    assert numpy_blas().get() == before


@settable
def test_batches_checks_and_measurements_too(seen):
    falcon.matmul(np.ones((4, 90, 90)), np.ones((90, 90)), threads=1)
    falcon.gemm(A, A, threads=1, backend="numpy", check="verify")
    falcon.matmul(np.ones((90, 90)).view(np.matrix), np.ones((90, 90)), threads=1)
    assert seen
    assert set(seen) == {1}
    seen.clear()
    backend = falcon._backends.BACKENDS["numpy"]
    with suppress(DisturbedError):  # where the machine is busy
        backend.measure(dtype_of("float64"), 1)
    assert set(seen) == {1}


@settable
def test_calls_at_once_keep_to_the_least():
    before, blas = numpy_blas().get(), numpy_blas()
    first, second = limited(1), limited(2)
    with first:
        with second:
            assert blas.get() == 1
        assert blas.get() == 1
        assert exceeds(1) and not exceeds(before)
    assert blas.get() == before
    second.__enter__()
    with limited(1):
        assert blas.get() == 1
    second.__exit__()
    assert blas.get() == before

    def work(count):
        for _ in range(20):
            with limited(count):
                assert blas.get() <= count

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, (1, 2, 1, 2)))
    assert blas.get() == before


@settable
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_that_is_forked_during_a_call_has_its_threads_back():
    before = numpy_blas().get()
    with limited(1):
        child = os.fork()
        if child == 0:
            os._exit(0 if numpy_blas().get() == before else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert numpy_blas().get() == before
