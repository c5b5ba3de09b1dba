"""Peers: every adapter multiplies right, workers report errors as text, kernels are identified."""

import numpy as np
import pytest

from falcon._core.dtypes import of
from falcon.bench import adapters, peers, tables
from falcon.bench.errors import product_dtype, relative_error
from falcon.bench.operands import shared
from falcon.bench.peers import FALCON, TABLE, AbsentError, Worker, falcon_peer
from falcon.bench.workloads import Shape, operands

NUMPY = TABLE[0]
SHAPE = Shape(64, 48, 80)


def available(adapter):
    try:
        adapters.load(adapter)
    except ImportError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("peer", [FALCON, *TABLE], ids=lambda peer: peer.name)
def test_adapters(peer):
    available(peer.adapter)
    for name in peer.dtypes:
        multiplies_right(peer, of(name))


def multiplies_right(peer, row):
    a, b = operands(SHAPE, row.numpy, seed=1)
    out = np.full((SHAPE.M, SHAPE.N), 99, product_dtype(row.numpy))
    a.flags.writeable = b.flags.writeable = False  # as shared operands are
    job = adapters.ADAPTERS[peer.adapter](a, b, out)
    job.run()
    job.fetch()
    wide = np.int64 if row.is_exact else np.complex128 if row.is_complex else np.float64
    limit = 40 * row.unit_roundoff
    assert relative_error(out, a.astype(wide) @ b.astype(wide)) <= limit


def test_worker():
    with (
        shared(SHAPE, np.dtype("float32"), seed=1) as path,
        Worker(falcon_peer("mine", scheme="strassen", threads=None), 1) as mine,
        Worker(NUMPY, 1) as other,
    ):
        for worker in (mine, other):
            reply = worker.ask("prepare", path=path)
            assert 0 < reply["error"] < 1e-5
            assert reply["extra_bytes"] is None or reply["extra_bytes"] >= 0
            assert ("plan" in reply) == (worker is mine)
            assert 0 < worker.seconds(2) < 10
        assert mine.ask("prepare", path=path)["plan"]["scheme"] == "strassen"
        with pytest.raises(RuntimeError, match=r"numpy: .*FileNotFoundError"):
            other.ask("prepare", path="/no/such/folder")
        with pytest.raises(RuntimeError, match="numpy: AttributeError"):
            other.ask("dance")


def test_a_worker_that_dies():
    worker = Worker(NUMPY, 1)
    worker._process.kill()
    worker._process.wait()
    with pytest.raises(RuntimeError, match="numpy: its process ended unexpectedly"):
        worker.ask("time", repeats=1)
    worker.close()


def test_absent():
    try:
        for peer in TABLE:
            adapters.load(peer.adapter)
        pytest.skip("mkl and torch are installed")
    except ImportError:
        pass
    with pytest.raises(AbsentError, match=rf"not installed|No module.*: {peer.install}"):
        Worker(peer, 1)
    found = peers.identify(peer, ["float32"], 1)
    assert found["absent"].endswith(f": {peer.install}")
    assert f"absent: {peer.name} (" in tables.format_peers([found])


def test_settings_reach_the_process(monkeypatch):
    monkeypatch.setenv("KEPT", "1")
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    peer = falcon_peer("x", scheme="winograd", workspace_limit=2**20, max_growth=None)
    peer.environment["OPENBLAS_CORETYPE"] = peers.BEST
    found = peers.environment_of(peer, 3)
    assert found["FALCON_SCHEME"] == "winograd"
    assert found["FALCON_WORKSPACE_LIMIT"] == "1048576"
    assert found["OMP_NUM_THREADS"] == found["MKL_NUM_THREADS"] == "3"
    assert found["KEPT"] == "1"
    assert "FALCON_MAX_GROWTH" not in found
    assert "OPENBLAS_CORETYPE" not in found


def test_the_best_kernels(monkeypatch):
    rates = {"A": 3.0, "B": 4.0}
    monkeypatch.setattr(peers, "coretype_rates", lambda threads, dtype: rates)
    assert peers.best_environment(TABLE[0], 2, "float32") == (TABLE[0], {})
    best, tried = peers.best_environment(TABLE[1], 2, "float32")
    assert (best.environment, tried) == ({"OPENBLAS_CORETYPE": "B"}, rates)
    rates.clear()
    assert peers.best_environment(TABLE[1], 2, "float32")[0].environment == {}


def test_libraries_describe_themselves():
    found = [peers.identify(x, ["float32", "complex64"], 1) for x in (NUMPY, FALCON)]
    theirs, mine = found
    assert (theirs["library"], theirs["absent"]) == ("NumPy", "")
    assert theirs["version"].startswith(np.__version__)
    assert theirs["kernels"]["float32"]
    assert mine["threads"] == theirs["threads"] == 1
    assert mine["kernels"]["complex64"] == mine["kernels"]["float32"]  # of its parts
    assert len(tables.format_peers(found).splitlines()) == 3


@pytest.mark.parametrize("name", ["mkl", "torch", "onednn"])
def test_other_libraries_describe_themselves(name):
    available(name)
    found = peers.identify(next(x for x in TABLE if x.name == name), ["float32"], 1)
    assert found["absent"] == "" and found["version"] != "?"
    assert found["kernels"]["float32"] != "?"
