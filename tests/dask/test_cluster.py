"""`falcon.dask` on clusters of processes: queuing, faults, versions, kernels, memory, the bench."""

import os
import re
import signal
import tempfile
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

import falcon

from ..support import HANG

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
place = pytest.importorskip("falcon.dask.place")

pytestmark = [
    pytest.mark.slow,
    # Closing clusters leaves sockets and event loops to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
NAP = 0.05


def local(**how):
    how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", **how}
    return distributed.LocalCluster(silence_logs=50, **how)


@contextmanager
def mixed(*options):
    """A cluster of workers that differ."""
    spec = {
        i: {"cls": distributed.Nanny, "options": {"nthreads": 1, **x}}
        for i, x in enumerate(options)
    }
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard_address": ":0"}}
    with (
        distributed.SpecCluster(workers=spec, scheduler=scheduler, silence_logs=50) as made,
        distributed.Client(made) as client,
    ):
        client.wait_for_workers(len(options))
        yield client


@pytest.fixture(scope="module", params=["1.1", "inf"], ids=["queued", "not queued"])
def client(request):
    with (
        dask.config.set({"distributed.scheduler.worker-saturation": float(request.param)}),
        local() as made,
        distributed.Client(made) as client,
    ):
        yield client


def integers(shape, chunks, seed=0):
    """Whole numbers that tasks make, and that are made again where they were lost."""
    x = da.random.default_rng(seed).integers(-4, 5, shape, chunks=chunks).astype(float)
    with dask.config.set(scheduler="threads"):
        return x.compute(), x


def test_products(client):
    (a, x), (b, y) = integers((400, 300), (100, 75)), integers((300, 200), (75, 50), 1)
    made = falcon.dask.matmul(x, y)
    np.testing.assert_array_equal(made.compute(), a @ b)
    np.testing.assert_array_equal(falcon.dask.matmul(x.T, x).compute(), a.T @ a)
    assert falcon.dask.verify(x, y, made)


def test_verify_makes_each_chunk_once(client, tmp_path):
    (a, x), (b, y) = integers((60, 80), 20), integers((80, 40), (40, 20), 1)
    names = [(x, "x"), (y, "y"), (da.from_array(a @ b, 30), "c")]
    made = [
        v.map_blocks(noted, folder=tmp_path, start=name, dtype=float, meta=v._meta)
        for v, name in names
    ]
    assert falcon.dask.verify(*made)
    found = [path.name.rpartition("-")[0] for path in tmp_path.iterdir()]
    assert len(found) == len({*found}) == sum(x.npartitions for x in made)


def noted(x, folder, start, block_id=None):
    """Leave a file of another name each time."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=f"{start}{block_id}-", delete=False):
        return x


def test_persisted_chunks_are_not_read_again(client):
    x = da.ones((60, 60), chunks=20)
    assert (falcon.dask.matmul(x, x + 1, reread=True) == 120).all().compute()
    held = x.persist()
    with pytest.raises(ValueError, match=r"chunks of y lie on workers already \(persist\)"):
        falcon.dask.matmul(x, held, reread=True)
    assert (falcon.dask.matmul(x, held) == 60).all().compute()


def test_what_is_known_of_the_workers(client):
    _, x = integers((64, 64), 32)
    plan = falcon.dask.plan(x, x, threads=2)
    assert (plan.cluster.workers, plan.cluster.slots, len(plan.cluster.kernels)) == (2, 2, 1)
    assert "workers    2, 2 tasks at once" in plan.explain()
    assert plan.cluster.threads == plan.chunk.threads == 2
    assert falcon.dask.plan(x, x).cluster is falcon.dask.plan(x, x).cluster
    # The nanny sets OMP_NUM_THREADS=1, which products obey that are planned on a worker.
    assert set(client.run(threads_of_gemm).values()) == {1}


def threads_of_gemm():
    return falcon.plan((64, 64), (64, 64)).threads


def restrictions(dask_scheduler, keys):
    tasks = dask_scheduler.tasks
    return [list(tasks[key].worker_restrictions or ()) for key in keys]


def test_placed(client):
    (a, x), (b, y) = integers((240, 120), 60), integers((120, 180), 60, 1)
    on = falcon.dask.plan(x, y).cluster
    assert place.holders(x, on) is None
    x, y = client.persist([x, y])
    distributed.wait([x, y])
    held, told = (place.holders(x, on), place.holders(y, on)), client.who_has(x)
    for at in np.ndindex(held[0].shape):
        assert list(told[x.name, *at]) == [on.addresses[held[0][at]]]
    np.testing.assert_array_equal(place.holders(x.T, on), held[0].T)
    assert place.holders(x + x[::-1], on) is None
    goes, moved = place.places((4, 3, 2), (60 * 60 * 8, 60 * 60 * 8), 2, held)
    made = falcon.dask.matmul(x, y)
    with falcon.dask.placed(x, y, made) as told:
        assert told == moved
        made = made.persist()
    distributed.wait(made)
    keys = [(made.name, *at) for at in np.ndindex(4, 3)]
    found = client.run_on_scheduler(restrictions, keys=keys)
    assert found == [[on.addresses[worker]] for worker in goes.reshape(-1)]
    np.testing.assert_array_equal(made.compute(), a @ b)


def test_a_worker_that_placed_tasks_were_sent_to_is_gone():
    (a, x), (b, y) = integers((240, 120), 60), integers((120, 180), 60, 1)
    with local() as made, distributed.Client(made) as client:
        product = falcon.dask.matmul(x, y)
        with falcon.dask.placed(x, y, product):
            made.scale(1)
            while len(client.scheduler_info()["workers"]) > 1:
                time.sleep(NAP)
            np.testing.assert_array_equal(product.compute(), a @ b)


def slow(x):
    time.sleep(NAP)
    return x


@pytest.mark.parametrize("fault", ["killed", "stopped"])
def test_a_worker_fails_in_mid_run(client, fault):
    """kill -9: the nanny starts another one; lost chunks are made again, and counted once."""
    a, x = integers((320, 320), 40, seed=3)
    x = x.map_blocks(slow, dtype=float)
    made = falcon.dask.matmul(x, x).map_blocks(slow, dtype=float)
    workers = client.run(os.getpid)
    future = client.compute(made)
    pid = next(iter(workers.values()))
    timer = threading.Timer(1.0, harm, (pid, fault))
    timer.start()
    np.testing.assert_array_equal(future.result(timeout=HANG), a @ a)
    timer.join()
    client.wait_for_workers(2, timeout=HANG)
    assert (pid in client.run(os.getpid).values()) == (fault == "stopped")


def harm(pid, fault):
    if fault == "killed":
        os.kill(pid, signal.SIGKILL)
        return
    os.kill(pid, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(pid, signal.SIGCONT)


# --- workers that differ --------------------------------------------------------------------


def test_a_worker_without_falcon():
    """It is named where the product is planned; one that joins later leaves, and others go on."""
    x = da.ones((640, 640), chunks=64)
    with dask.config.set(scheduler="threads"):
        early = falcon.dask.matmul(x, x)
    without = {"preload": ["import sys; sys.modules['falcon'] = None"]}
    with mixed(without, {}) as client:
        with pytest.raises(RuntimeError, match=r"worker tcp.* cannot import falcon\.dask.*falcon"):
            falcon.dask.matmul(x, x)
        assert client.compute(early).result(timeout=HANG).sum() == 640**3


def change_version():
    falcon.__version__ = "0.0.0"


def test_a_worker_of_another_version():
    """It is named where the product is planned; of one that joins later, tasks raise."""
    x = da.ones((64, 64), chunks=32)
    here = re.escape(falcon.__version__)
    with local(n_workers=1) as made, distributed.Client(made) as client:
        late = falcon.dask.matmul(x, x)
        client.run(change_version)
        with pytest.raises(RuntimeError, match=f"planned by falcon {here}, but this worker has"):
            client.compute(late).result(timeout=HANG)
        with (
            distributed.Client(made),
            pytest.raises(RuntimeError, match=r"worker tcp.* has falcon 0\.0\.0, this process"),
        ):
            falcon.dask.matmul(x, x)


def test_mixed_instruction_sets():
    """All kernels that any worker lacks are avoided: the results agree, save for last bits."""
    known = falcon.show_config("dict")["cpu kernels"]
    if "in use" not in known or "generic" not in known["instruction sets"]:
        pytest.skip("no kernels of falcon")
    a, x = integers((1200, 1200), 600)
    b = np.random.default_rng(0).standard_normal((1200, 1200)).astype(np.float32)
    y = da.from_array(b, 600)
    with mixed({"env": {"FALCON_ISA": "generic"}}, {}):
        plan = falcon.dask.plan(y, y, backend="cpu")
        assert len(plan.cluster.kernels) == 2
        assert plan.chunk.problem.operand.arithmetic is None
        found = falcon.dask.matmul(x, x, backend="cpu")
        np.testing.assert_array_equal(found.compute(), a @ a)
        assert falcon.dask.verify(y, y, falcon.dask.matmul(y, y, backend="cpu"))
