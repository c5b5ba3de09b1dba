"""Peers: every adapter multiplies right, workers report errors as text, kernels are identified."""

from contextlib import ExitStack

import numpy as np
import pytest

import falcon
from falcon._core.dtypes import dtype_of
from falcon._tools.cpus import usable_cpus
from falcon.bench import adapters, peers, tables
from falcon.bench.errors import product_dtype, relative_error
from falcon.bench.operands import shared
from falcon.bench.peers import FALCON, TABLE, Worker, falcon_peer
from falcon.bench.workloads import Case, Shape, operands
from falcon.schemes import catalogue

NUMPY = TABLE[0]
SHAPE = Shape(64, 48, 80)
BATCH = Shape.of_batch(8, 6, 7, 5, "ab")


@pytest.mark.parametrize("peer", [FALCON, *TABLE], ids=lambda peer: peer.name)
def test_adapters(peer):
    for name in peer.dtypes:
        for shape in (SHAPE, BATCH):
            if shape is BATCH and (
                dtype_of(name).is_exact or not peer.takes(Case("", shape, name))
            ):
                continue
            try:
                multiplies_right(peer, dtype_of(name), shape)
            except ImportError as error:
                pytest.skip(str(error))


def multiplies_right(peer, row, shape):
    a, b = operands(shape, row.numpy, seed=1)
    out = np.full((*a.shape[:-1], shape.N), 99, product_dtype(row.numpy))
    a.flags.writeable = b.flags.writeable = False  # as shared operands are
    job = adapters.LIBRARIES[peer.library].job(a, b, out)
    job.run()
    job.fetch()
    wide = np.int64 if row.is_exact else np.complex128 if row.is_complex else np.float64
    limit = 40 * row.unit_roundoff
    assert relative_error(out, a.astype(wide) @ b.astype(wide)) <= limit


@pytest.mark.parametrize("scheme", ["strassen", "mine.json"])
def test_worker(scheme, monkeypatch):
    """The scheme of a file, which is known by its name in this process alone, is told."""
    own = falcon.schemes.get("3x3x3:23").renamed("mine.json", "a test")
    monkeypatch.setitem(catalogue._registered, "mine.json", own)
    with (
        shared(SHAPE, np.dtype("float32"), seed=1) as path,
        Worker(falcon_peer("mine", scheme=scheme, threads=None), 1) as mine,
        Worker(NUMPY, 1) as other,
    ):
        for worker in (mine, other):
            reply = worker.ask("prepare", path=path)
            assert 0 < reply["error"] < 1e-5
            assert reply["extra_bytes"] is None or reply["extra_bytes"] >= 0
            assert ("plan" in reply) == (worker is mine)
            assert 0 < worker.seconds(2) < 10
            used, took = worker.spent()
            assert used > 0 and took > 0
        assert mine.ask("prepare", path=path)["plan"]["scheme"] == scheme
        with pytest.raises(RuntimeError, match=r"numpy: .*FileNotFoundError"):
            other.ask("prepare", path="/no/such/folder")
        with pytest.raises(RuntimeError, match="numpy: AttributeError"):
            other.ask("dance")


def test_a_worker_has_the_threads_of_the_comparison(monkeypatch):
    """Whatever the environment says."""
    monkeypatch.setenv("FALCON_NUM_THREADS", str(usable_cpus()))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    for peer in (FALCON, NUMPY):
        with Worker(peer, 1) as worker:
            assert worker.ask("describe", dtypes=["float32"])["float32"]["threads"] == 1


def test_a_worker_that_dies():
    worker = Worker(NUMPY, 1)
    worker._process.kill()
    worker._process.wait()
    with pytest.raises(RuntimeError, match="numpy: its process ended unexpectedly"):
        worker.ask("time", repeats=1)
    worker.close()


def test_absent(monkeypatch):
    monkeypatch.setitem(adapters.LIBRARIES, "nobody", adapters.LIBRARIES["numpy"])
    peer = peers.Peer("nobody", "nobody")
    ((found, worker),) = peers.identify([peer], ["float32"], 1)
    assert worker is None
    assert found["absent"] == "nobody: KeyError: 'nobody': pip install numpy"
    assert "absent: nobody: " in tables.format_peers([found])


def identified(some, dtypes):
    """Return the entries of peers, whose processes are ended."""
    with ExitStack() as running:
        found = peers.identify(some, dtypes, 1)
        for _, worker in found:
            if worker is not None:
                running.enter_context(worker)
    return [entry for entry, _ in found]


def test_libraries_describe_themselves():
    found = identified([NUMPY, FALCON], ["float32", "complex64"])
    theirs, mine = found
    assert (theirs["library"], theirs["absent"]) == ("NumPy", "")
    assert theirs["version"].startswith(np.__version__)
    assert theirs["kernels"]["float32"]
    assert mine["threads"] == theirs["threads"] == 1
    assert mine["kernels"]["complex64"] == mine["kernels"]["float32"]  # of its parts
    assert len(tables.format_peers(found).splitlines()) == 3


@pytest.mark.parametrize("name", ["mkl", "torch", "onednn"])
def test_other_libraries_describe_themselves(name):
    (found,) = identified([x for x in TABLE if x.name == name], ["float32"])
    if "ImportError" in found["absent"] or "ModuleNotFoundError" in found["absent"]:
        pytest.skip(found["absent"])
    assert found["absent"] == ""
    assert found["kernels"]["float32"] != "?"
