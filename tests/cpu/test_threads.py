"""Threads and processes: calls from many at once, after fork and spawn, beside other libraries."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
import pytest

import falcon
from falcon import release_workspace
from falcon._cpu import _core
from falcon._cpu.pool import Pool, kept_bytes, largest_bytes

from ..modes import DIRECTED, flushing, rounding
from ..support import HANG, python
from .support import run_script, same_bits


def product(seed, shape=(211, 223, 227), dtype="f8", scheme="strassen", threads=2):
    M, N, K = shape
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((M, K)).astype(dtype), rng.standard_normal((K, N)).astype(dtype)
    return falcon.gemm(a, b, scheme=scheme, backend="cpu", threads=threads)


def test_many_threads_with_different_shapes_schemes_and_dtypes():
    cases = [
        (seed, shape, dtype, scheme)
        for seed, shape in enumerate([(7, 300, 200), (200, 9, 100), (150, 160, 170), (33, 31, 900)])
        for dtype in ("f4", "f8")
        for scheme in ("classical", "strassen", "3x3x3:23", "2x3x4:20")
    ]
    cases += [(seed,) for seed in range(8)] * 4  # of one shape
    expected = [product(*case, threads=1) for case in cases]
    with ThreadPoolExecutor(12) as workers:
        for threads in (1, 2, 5):
            got = list(workers.map(lambda case, n=threads: product(*case, threads=n), cases))
            assert all(same_bits(x, y) for x, y in zip(got, expected, strict=True))


@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_more_threads_than_cores_do_not_deadlock(scheme):
    expected = product(1, (401, 403, 409), scheme=scheme, threads=1)
    for threads in (3, 8, 33, 64):
        for _ in range(3):
            assert same_bits(product(1, (401, 403, 409), scheme=scheme, threads=threads), expected)
    with ThreadPoolExecutor(6) as workers:
        runs = [
            workers.submit(product, 1, (401, 403, 409), "f8", scheme, threads)
            for threads in (2, 8, 16) * 4
        ]
        assert all(same_bits(run.result(timeout=HANG), expected) for run in runs)


def test_threads_have_the_modes_of_the_caller():
    """Those that it has at the call: threads that exist take them over, and keep none."""
    a, b = np.random.default_rng(1).standard_normal((2, 600, 600)).astype("f4")
    tiny = np.full((1200, 64), 2.0**-70, "f4")
    how = [{"threads": x, "reproducible": True} for x in (1, 2, 5)]

    def products():
        return [falcon.matmul(a, b, **x) for x in how for _ in range(3)]

    nearest = products()
    for name in DIRECTED:
        with rounding(name):
            found = products()
        assert all(np.array_equal(x, found[0]) for x in found), name
        assert not np.array_equal(found[0], nearest[0])
        assert all(np.array_equal(x, nearest[0]) for x in products()), name
    with flushing():
        flushed = [falcon.matmul(tiny, tiny.T, **x) for x in how]
    assert not any(x.any() for x in flushed)
    assert all(falcon.matmul(tiny, tiny.T, **x).all() for x in how)


@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_beside_busy_programs_many_threads_end_with_the_same_bits(scheme):
    expected = product(4, (600, 610, 620), scheme=scheme, threads=1)
    code = "import os\nos.nice(1)\nprint(flush=True)\nwhile True: pass"
    command = [sys.executable, "-c", code]
    busy = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(os.cpu_count() + 1)]
    try:
        for x in busy:
            x.stdout.readline()
        with ThreadPoolExecutor(2) as pool:
            runs = [
                pool.submit(product, 4, (600, 610, 620), "f8", scheme, threads)
                for threads in (2, 16, 64) * 3
            ]
            assert all(same_bits(run.result(timeout=HANG), expected) for run in runs)
    finally:
        for x in busy:
            x.kill()
            x.communicate()


@pytest.mark.parametrize("packed", [False, True])
def test_the_gil_is_released(packed):
    """Another thread counts on while one long call runs, which the interpreter can't interrupt."""
    a = np.ones((1100, 1100))
    w = falcon.pack(a, scheme="strassen", backend="cpu") if packed else a
    falcon.gemm(a, w, scheme="strassen", backend="cpu", threads=1)
    running, stamps = threading.Event(), []
    stop = threading.Event()

    def tick():
        running.set()
        while not stop.is_set():
            stamps.append(time.perf_counter())
            time.sleep(0.001)

    other = threading.Thread(target=tick)
    other.start()
    running.wait()
    start = time.perf_counter()
    falcon.gemm(a, w, scheme="strassen", backend="cpu", threads=1)
    end = time.perf_counter()
    stop.set()
    other.join()
    inside = [x for x in stamps if start < x < end]
    # If the GIL were held, no time stamp would be between the first and the last tenth of the call.
    middle = [x for x in inside if start + 0.1 * (end - start) < x < end - 0.1 * (end - start)]
    assert middle, (end - start, len(inside))


FORK = """
import os, sys, threading, warnings
import numpy as np
import falcon
warnings.simplefilter("ignore")  # Python 3.12 warns of fork() beside threads: the point here
rng = np.random.default_rng(1)
a, b = rng.standard_normal((2, 300, 300))
def calls():
    w = falcon.pack(b, scheme="strassen", backend="cpu", threads=2)
    return [
        falcon.gemm(a, b, scheme=scheme, backend="cpu", threads=2).tobytes()
        for scheme in ("classical", "strassen", "3x3x3:23")
    ] + [falcon.gemm(a, w, threads=2).tobytes()]
expected = calls() if {used} else None
def child(depth):
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status)
    try:
        from falcon._cpu import _core
        assert _core.in_forked_child() is (_core.threading() == "openmp")
        got = calls()
        assert expected is None or got == expected
        if depth:
            assert child(depth - 1) == 0
        got = calls()
        assert expected is None or got == expected
    except BaseException as error:
        print(type(error).__name__, error, file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)
assert child(2) == 0  # and its child, and that one's
assert child(0) == 0
again = calls()
assert expected is None or again == expected
print("right")
"""


has_openmp = _core.threading("openmp") == "openmp"  # not in wheels
_core.threading("own")
TEAMS = pytest.mark.parametrize("team", ["own", "openmp"] if has_openmp else ["own"])


@TEAMS
@pytest.mark.parametrize("used", [True, False], ids=["after use", "before use"])
def test_fork_and_nested_fork(used, team):
    assert run_script(FORK.format(used=used), FALCON_THREADING=team) == "right"


def test_a_team_that_does_not_exist_is_refused():
    script = "import falcon, numpy as np; falcon.gemm(*np.ones((2, 9, 9)), backend='cpu')"
    with pytest.raises(AssertionError, match="FALCON_THREADING is 'mine'; expected 'own' or"):
        run_script(script, FALCON_THREADING="mine")


def test_where_the_system_refuses_a_thread_calls_run_without_it():
    """No room for a stack, as in a container that has reached its limits."""
    script = """
import os, resource
import numpy as np
from falcon._cpu import _core
a = np.ones((600, 600))
c = np.empty_like(a)
layout = _core.plan(600, 600, 600, "f64", threads=2)
workspace = _core.Workspace(layout.nbytes)
threads = len(os.listdir("/proc/self/task"))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + 2**16, limits[1]))
_core.gemm(layout, a, a, c, workspace=workspace)
resource.setrlimit(resource.RLIMIT_AS, limits)
assert len(os.listdir("/proc/self/task")) == threads
assert (c == 600).all()
_core.gemm(layout, a, a, c, workspace=workspace)
assert len(os.listdir("/proc/self/task")) == threads + 1  # now there is room
print("right")
"""
    assert run_script(script) == "right"


def test_helpers_stay_on_the_cpus_of_the_caller_and_leave_its_affinity_alone():
    script = """
import os
import time
import numpy as np
from falcon._cpu import _core
before = {int(x) for x in os.listdir("/proc/self/task")}
cpus = os.sched_getaffinity(0)
a = np.ones((600, 600))
_core.gemm(_core.plan(600, 600, 600, "f64", threads=150), a, a, np.empty_like(a))
assert os.sched_getaffinity(0) == cpus
helpers = {int(x) for x in os.listdir("/proc/self/task")} - before
assert 0 < len(helpers) <= len(cpus), helpers
for x in helpers:
    end = time.monotonic() + 3600
    while len(os.sched_getaffinity(x)) > 1 and time.monotonic() < end:
        time.sleep(0.01)  # a helper that has not begun yet
    assert len(os.sched_getaffinity(x)) == 1 and os.sched_getaffinity(x) <= cpus
one = {min(cpus)}
os.sched_setaffinity(0, one)
_core.gemm(_core.plan(600, 600, 600, "f64", threads=2), a, a, np.empty_like(a))
assert os.sched_getaffinity(0) == one
print("right")
"""
    assert run_script(script) == "right"


def test_fork_while_other_threads_multiply():
    script = """
import os, threading, warnings
import numpy as np, falcon
warnings.simplefilter("ignore")
a = np.ones((200, 200))
falcon.gemm(a, a, scheme="strassen", backend="cpu")  # imports: their locks are CPython's affair
stop = threading.Event()
def work():
    while not stop.is_set():
        assert falcon.gemm(a, a, scheme="strassen", backend="cpu", threads=2)[0, 0] == 200
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
for _ in range(100):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if falcon.gemm(a, a, scheme="strassen", backend="cpu")[9, 9] == 200 else 1)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for t in threads: t.join()
print("right")
"""
    assert run_script(script) == "right"


PROCESSES = """
import multiprocessing, warnings
from concurrent.futures import ProcessPoolExecutor
import numpy as np, falcon

def work(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, 200, 200))
    return falcon.gemm(a, b, scheme="strassen", backend="cpu", threads=2).tobytes()

def packed(w):
    return falcon.gemm(np.ones((50, 200)), w).tobytes()

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    expected = [work(seed) for seed in range(4)]
    w = falcon.pack(np.ones((200, 200)), scheme="strassen", backend="cpu")
    context = multiprocessing.get_context({method!r})
    with context.Pool(2) as pool:
        assert pool.map(work, range(4)) == expected
        assert pool.apply(packed, (w,)) == packed(w)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(work, range(4))) == expected
    print("right")
"""


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_pools_of_processes(method, tmp_path):
    path = tmp_path / "pools.py"
    path.write_text(PROCESSES.format(method=method), encoding="utf-8")
    # By its path, which spawned processes import as the main module.
    assert python("-W", "error", path).stdout == "right\n"


@pytest.mark.parametrize("first", ["torch", "falcon"])
def test_beside_torch(first):
    if find_spec("torch") is None:
        pytest.skip("torch is not installed")
    script = f"""
import {first}
import falcon, numpy as np, torch
x = torch.ones((300, 300), dtype=torch.float64)
for _ in range(3):
    y = x @ x
    c = falcon.gemm(x.numpy(), y.numpy(), scheme="strassen", backend="cpu", threads=2)
    assert (c == 300.0 * 300).all() and (torch.from_numpy(c) @ x == 300.0**3).all()
print("right")
"""
    assert run_script(script) == "right"


def test_other_blas_and_its_threads_are_left_alone():
    from threadpoolctl import threadpool_info, threadpool_limits

    a = np.ones((300, 300))
    blas = [x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"]
    expected = falcon.gemm(a, a, scheme="strassen", backend="cpu", threads=2)
    assert [x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"] == blas
    with threadpool_limits(1):
        assert same_bits(falcon.gemm(a, a, scheme="strassen", backend="cpu", threads=2), expected)
    script = (
        "import os; os.environ.pop('FALCON_NUM_THREADS', 0); "
        "import falcon, numpy as np; a = np.ones((300, 300)); print(falcon.plan(a, a).threads, "
        "(falcon.gemm(a, a, scheme='strassen', backend='cpu') == 300).all())"
    )
    assert run_script(script, OMP_NUM_THREADS="1") == "1 True"
    assert run_script(script, OMP_NUM_THREADS="3", OMP_THREAD_LIMIT="1") == "3 True"


def test_the_pool_keeps_the_largest_that_together_keep_its_limit():
    pool = Pool(1000, _core.Workspace)
    assert pool.nbytes == 0
    small, large, beyond = pool.take(100), pool.take(1000), pool.take(1001)
    assert small.nbytes >= 100 and large.nbytes >= 1000 and beyond.nbytes >= 1001
    pool.give(small)
    assert pool.nbytes == small.nbytes
    pool.give(beyond)
    assert pool.nbytes == small.nbytes
    pool.give(large)
    assert pool.nbytes == large.nbytes
    pool.give(small)
    assert pool.nbytes == large.nbytes
    assert pool.take(500) is large and pool.nbytes == 0
    pool.give(large)
    assert pool.take(1001) is not large and pool.nbytes == 0
    pool.give(large)
    pool.clear()
    assert pool.nbytes == 0
    three = [pool.take(x) for x in (400, 300, 500)]  # calls at once
    for x in three:
        pool.give(x)
    kept = three[0].nbytes + three[2].nbytes
    assert pool.nbytes == kept and kept + three[1].nbytes > 1000
    assert pool.take(350) is three[0] and pool.take(350) is three[2] and pool.nbytes == 0
    assert 0 < kept_bytes() <= 512 << 20
    assert largest_bytes() >= kept_bytes()


def test_the_kept_workspace_is_reported_and_can_be_released():
    release_workspace()
    assert falcon.show_config("dict")["cpu kernels"]["kept workspace"].startswith("0 of at most")
    product(1, (900, 900, 900))
    kept = falcon.show_config("dict")["cpu kernels"]["kept workspace"]
    assert not kept.startswith("0 of")
    release_workspace()
    assert falcon.show_config("dict")["cpu kernels"]["kept workspace"].startswith("0 of at most")


def test_a_failed_allocation_is_a_memory_error_and_harms_nothing():
    with pytest.raises(MemoryError, match="bytes"):
        _core.Workspace(1 << 60)
    expected = product(3, threads=1)
    assert same_bits(product(3), expected)


def test_a_call_that_fails_gives_its_workspace_back(monkeypatch):
    """And releases the pool's lock."""
    release_workspace()
    a = np.ones((300, 300))

    def fail(*_, **__):
        raise RuntimeError("on purpose")

    with monkeypatch.context() as patch:
        patch.setattr(_core, "gemm", fail)
        with pytest.raises(RuntimeError, match="on purpose"):
            falcon.gemm(a, a, scheme="strassen", backend="cpu")
    assert (falcon.gemm(a, a, scheme="strassen", backend="cpu") == 300).all()


# --- small stacks ---------------------------------------------------------------------------

SMALL_STACK = """
import sys, threading
import numpy as np, falcon
big = np.random.default_rng(0).integers(-4, 4, (700, 700))
def matrix(rows, columns, dtype):
    return big[:rows, :columns].astype(dtype)
def cases():
    for dtype in ("f4", "f8", "i4", "i1", "f2"):
        wide = np.tile(matrix(400, 400, dtype), (1, 2))
        s = wide[::2, ::2][:200, :200]
        for a, b in (
            (s, s[:, :1]), (s[:1], s), (matrix(60, 60, dtype), matrix(60, 60, dtype)),
            (s[:60, :60], s[:60, :60]), (matrix(600, 500, dtype), matrix(500, 600, dtype)),
            (wide[::2, ::2], wide[::2, ::2].T),
        ):
            yield a, b, (a.astype("f8") @ b.astype("f8")).astype(dtype)
def work():
    for a, b, exact in known:
        for scheme in ("classical", "strassen")[: min(a.shape + b.shape)]:
            assert (falcon.gemm(a, b, backend="cpu", scheme=scheme) == exact).all(), a.dtype
    x = matrix(700, 700, "f8")[::2, ::2]
    falcon.gemm(x, x, backend=BACKEND)
    falcon.gram(x, backend=BACKEND)
    done.append(True)
known, done = [*cases()], []
work()  # whatever is imported at first
threading.stack_size(STACK)
thread = threading.Thread(target=work)
thread.start(); thread.join()
assert len(done) == 2
print("ok")
"""


@pytest.mark.parametrize(("kilobytes", "backend"), [(64, "cpu"), (128, "auto")])
def test_threads_with_small_stacks(kilobytes, backend):
    """falcon lives with half of 64 KiB; OpenBLAS needs up to 72 where it shares a product among
    threads, on a Zen 3. Threads of musl have 128.
    """
    code = SMALL_STACK.replace("STACK)", f"{kilobytes * 1024})").replace("BACKEND", repr(backend))
    assert run_script(code) == "ok"


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_what_is_redone_classically_has_the_same_bits_on_any_number_of_threads(dtype):
    rng = np.random.default_rng(8)
    for shape in ((33, 1025, 200), (333, 2025, 300), (100, 700, 700)):
        M, K, N = shape
        a, b = (rng.standard_normal(x).astype(dtype) for x in ((M, K), (K, N)))
        a[3, 7] = np.nan
        how = {"backend": "cpu", "scheme": "strassen", "reproducible": True}
        for limit in (None, 250_000, 600_000, 1_500_000):
            if limit is None:
                packed = falcon.pack(b, **how)
                found = [falcon.gemm(a, packed, reproducible=True, threads=x) for x in (1, 2, 5)]
            else:
                limited = {**how, "workspace_limit": limit}
                try:
                    found = [falcon.gemm(a, b, threads=x, **limited) for x in (1, 2, 5)]
                except ValueError as refused:  # by kernels with large tiles
                    assert "workspace_limit" in str(refused)
                    continue
            assert np.isnan(found[0]).any(axis=1).sum() == 1
            assert all(same_bits(found[0], x) for x in found[1:]), (shape, limit)


def test_a_limit_centres_whatever_the_number_of_threads():
    rng = np.random.default_rng(9)
    a, b = rng.random((2, 600, 600), np.float32)
    how = {"backend": "cpu", "scheme": "strassen", "centre": True, "reproducible": True}
    coarse = [{"workspace_limit": x, **how} for x in (4_500_000, 7_700_000, 8_200_000, 20_000_000)]
    asked = [(x, limited) for x in (1, 2, 5) for limited in coarse]
    # Barely more than the workspace of some number of threads: means do not fit beside that.
    for limit in {falcon.plan(a, b, threads=x, **some).workspace + 4000 for x, some in asked}:
        products = []
        for threads in (1, 2, 5):
            try:
                products.append(falcon.gemm(a, b, threads=threads, workspace_limit=limit, **how))
            except ValueError as refused:
                assert "workspace_limit" in str(refused)
        assert all(same_bits(products[0], x) for x in products[1:]), limit
