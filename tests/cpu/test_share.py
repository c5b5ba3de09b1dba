"""NumPy's and SciPy's OpenBLAS on falcon's threads: the same bits, and nobody waits for ever."""

import os
import sys

import numpy as np
import pytest

import falcon
from falcon._backends import BACKENDS
from falcon._core.options import thread_count
from falcon._cpu import share

from .support import run_script

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or thread_count() < 2,
    reason="falcon has no threads of its own here",
)

HEAD = """
import os, sys, threading, time
import numpy as np, falcon
from falcon._cpu import share
rng = np.random.default_rng(0)
a, b = (rng.standard_normal((400, 400)) for _ in range(2))
before = {x: np.matmul(a[:x, :x], b[:x, :x]) for x in (64, 200, 399)}
solved = np.linalg.solve(a, b)
def on():
    falcon.gemm(a, b, backend="cpu", threads=2)
    share.look()
    assert all(x.is_on for x in share._libraries.values()), share.states()
def same():
    for x, wanted in before.items():
        assert (np.matmul(a[:x, :x], b[:x, :x]) == wanted).all(), x
    assert abs(np.linalg.solve(a, b) - solved).max() < 1e-9
"""


def shared(text, **environment):
    """Run a script that begins as above in a fresh process."""
    run_script(HEAD + text, **environment)


@pytest.fixture
def sharing():
    """Sharing is on inside a test, as it would be; skipped where NumPy's BLAS cannot share."""
    falcon.gemm(np.ones((300, 300)), np.ones((300, 300)), backend="cpu", threads=2)
    share.look()
    if not any(x.is_on for x in share._libraries.values()):
        pytest.skip(f"falcon has no threads of its own here, or cannot share: {share.states()}")
    yield share._libraries
    falcon.set_config(share_threads=True)
    share.look()


def test_results_are_those_without_sharing(sharing):
    rng = np.random.default_rng(1)
    calls = []
    for dtype in ("f4", "f8", "c8", "c16"):
        for M, N, K in ((64, 64, 64), (333, 222, 111), (1, 900, 900), (1024, 1024, 64)):
            a, b = (rng.standard_normal(x).astype(dtype) for x in ((M, K), (K, N)))
            calls.append(lambda a=a, b=b: a @ b)
    square = rng.standard_normal((600, 600))
    for function in (np.linalg.inv, np.linalg.qr, np.linalg.eigh, np.linalg.cholesky):
        x = square @ square.T if function is np.linalg.cholesky else square
        calls.append(lambda function=function, x=x: function(x)[0])
    made = [x() for x in calls]
    assert (BACKENDS["numpy"].rest == 0) == all(x.is_on for x in sharing.values())
    falcon.set_config(share_threads=False)
    share.look()
    assert not any(x.is_on for x in sharing.values())
    assert BACKENDS["numpy"].rest > 0
    for x, found in zip(calls, made, strict=True):
        np.testing.assert_array_equal(x(), found)


def test_what_is_said_of_it(sharing):
    said = [x for x in share.states().values() if "shares falcon's threads" in x]
    assert said and said[0].startswith("OpenBLAS ")
    assert said[0] in falcon.show_config("dict")["cpu kernels"].values()


def test_never_at_import_and_only_with_several_threads():
    shared("""
assert not share._libraries
falcon.gemm(a, b, backend="numpy")
falcon.gemm(a, b, backend="cpu", threads=1)
assert not share._libraries
on()
same()
""")


def test_not_where_it_is_switched_off():
    shared(
        """
falcon.gemm(a, b, backend="cpu", threads=2)
assert share._libraries and not any(x.is_on for x in share._libraries.values())
""",
        FALCON_SHARE_THREADS="0",
    )


def test_openblass_own_workers_are_started_anew_once_and_sleep_soon():
    """They spin for 0.1 ms instead of 100, and the variable is gone from the environment."""
    shared("""
on()
end = time.monotonic() + 3600
while not all(x.is_short for x in share._libraries.values()):
    assert time.monotonic() < end
    time.sleep(0.02)
    share.look()
same()
def running():
    np.linalg.inv(a)
    time.sleep(0.03)
    stats = []
    for x in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{x}/stat") as file:
            stats.append(file.read())
    return sum(x.rpartition(")")[2].split()[0] == "R" for x in stats)
found = [running() for _ in range(10)]
assert min(found) == 1, found
import subprocess
done = subprocess.run(["env"], capture_output=True, text=True, check=True)
assert "OPENBLAS_THREAD_TIMEOUT" not in done.stdout
""")


def test_a_spin_that_the_user_has_chosen_is_kept():
    shared(
        """
on()
assert all(x.is_short for x in share._libraries.values())
same()
""",
        OPENBLAS_THREAD_TIMEOUT="20",
    )


def test_workers_are_not_started_anew_while_another_thread_computes():
    shared("""
big, done = rng.standard_normal((3000, 3000)), threading.Event()
def work():
    np.linalg.inv(big)
    done.set()
thread = threading.Thread(target=work)
begin = time.monotonic()
thread.start()
time.sleep(0.05)
on()
while not done.is_set():
    if any(x.is_short for x in share._libraries.values()):
        begun = time.monotonic() - begin
        assert done.wait(0.3 + begun / 4), "it was still computing"
    time.sleep(0.01)
    share.look()
thread.join()
same()
""")


def test_many_threads_with_both_libraries():
    shared("""
on()
wanted = falcon.gemm(a, b, backend="cpu", threads=2)
wrong = []
def work(number):
    for i in range(40):
        if (i + number) % 3 == 0:
            if (falcon.gemm(a, b, backend="cpu", threads=2) != wanted).any():
                wrong.append("falcon")
        elif (i + number) % 3 == 1:
            for x, y in before.items():
                if (np.matmul(a[:x, :x], b[:x, :x]) != y).any():
                    wrong.append("NumPy")
        elif abs(np.linalg.solve(a, b) - solved).max() > 1e-9:
            wrong.append("LAPACK")
threads = [threading.Thread(target=work, args=(x,)) for x in range(8)]
for x in threads: x.start()
for x in threads: x.join()
assert not wrong, wrong
""")


def test_more_jobs_than_helpers():
    """NumPy has more threads than this process may use CPUs: the others are made for the call."""
    shared("""
from threadpoolctl import threadpool_limits
big = np.ones((1000, 1000))
on()
with threadpool_limits(40, user_api="blas"):
    np.matmul(big, big)
with threadpool_limits(7, user_api="blas"):
    falcon.gemm(a, b, backend="cpu", threads=2)
    for _ in range(2):
        assert abs(np.matmul(a, b) - falcon.gemm(a, b, backend="cpu")).max() < 1e-9
        assert abs(np.linalg.solve(a, b) - solved).max() < 1e-9
same()
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    same()
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_children_start_anew():
    shared("""
on()
same()
for nested in (False, True):
    child = os.fork()
    if child == 0:
        same()
        falcon.gemm(a, b, backend="cpu", threads=2)
        if nested and os.fork() == 0:
            same()
            os._exit(0)
        same()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    same()
""")
