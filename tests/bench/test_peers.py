"""Peers: every adapter multiplies right, workers report errors as text, kernels are identified."""

import json

import numpy as np
import pytest

from falcon._core.dtypes import of
from falcon.bench import adapters, identify, peers
from falcon.bench.errors import product_dtype, relative_error
from falcon.bench.operands import SharedOperands
from falcon.bench.peers import FALCON, TABLE, AbsentError, Peer, Worker, falcon_peer
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


def test_the_table():
    names = [peer.name for peer in (FALCON, *TABLE)]
    assert len(set(names)) == len(names)
    for peer in TABLE:
        assert peer.adapter in adapters.ADAPTERS
        assert peer.install.startswith("pip install ")


def test_worker():
    with (
        SharedOperands(SHAPE, np.dtype("float32"), seed=1) as shared,
        Worker(falcon_peer("mine", scheme="strassen", threads=None), 1) as mine,
        Worker(NUMPY, 1) as other,
    ):
        for worker in (mine, other):
            reply = worker.prepare(shared)
            assert 0 < reply["error"] < 1e-5
            assert reply["seconds"] > 0
            assert reply["extra_bytes"] is None or reply["extra_bytes"] >= 0
            assert ("plan" in reply) == (worker is mine)
            assert 0 < worker.seconds(2) < 10
        assert mine.prepare(shared)["plan"]["scheme"] == "strassen"
        with pytest.raises(RuntimeError, match=r"peer numpy: .*FileNotFoundError"):
            other.ask("prepare", path="/no/such/folder")
        with pytest.raises(RuntimeError, match="peer numpy: AttributeError"):
            other.ask("dance")


def test_a_worker_that_dies():
    worker = Worker(NUMPY, 1)
    worker._process.kill()
    worker._process.wait()
    with pytest.raises(RuntimeError, match="the worker of peer numpy ended unexpectedly"):
        worker.ask("time", repeats=1)
    worker.close()


def test_absent():
    peer = Peer("cuda", "torch cuda", "f", "pip install torch", device="gpu")
    try:
        adapters.load("torch cuda")
    except ImportError:
        with pytest.raises(AbsentError, match=r"cuda: .*; pip install torch"):
            Worker(peer, 1)
        found = identify.identify(peer, ["float32"], 1)
        assert found.absent.endswith("pip install torch")
        assert "pip install torch" in identify.format_identities([found])


def test_settings_reach_the_process(monkeypatch):
    monkeypatch.setenv("KEPT", "1")
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    peer = falcon_peer("x", scheme="winograd", workspace_limit=2**20, max_growth=None)
    found = peers.environment_of(peer, 3, {"OPENBLAS_CORETYPE": "?"})
    assert found["FALCON_SCHEME"] == "winograd"
    assert found["FALCON_WORKSPACE_LIMIT"] == "1048576"
    assert found["OMP_NUM_THREADS"] == found["MKL_NUM_THREADS"] == "3"
    assert found["KEPT"] == "1"
    assert "FALCON_MAX_GROWTH" not in found
    assert "OPENBLAS_CORETYPE" not in found


def test_best_coretype(monkeypatch):
    rates = {"A": 3.0, "B": 4.0}
    monkeypatch.setattr(peers, "coretype_rates", lambda threads, dtype: rates)
    assert peers.best_coretype(2) == "B"
    rates.clear()
    assert peers.best_coretype(2) is None


# --- which kernels -----------------------------------------------------------------------------

MKL = """\
MKL_VERBOSE oneMKL 2026 Update 2 Product build 1 for Intel(R) 64 architecture {}, Lnx 2.60GHz
MKL_VERBOSE SGEMM(N,N,512,512,512,0x1,0x2,512,0x3,512,0x4,0x5,512) 7.66ms CNR:OFF NThr:2
"""
ONEDNN = """\
onednn_verbose,v1,info,oneDNN v3.12.0 (commit 80afa)
onednn_verbose,v1,primitive,exec,cpu,inner_product,brg_matmul:avx512_core,forward,src:f32,,,1.47
onednn_verbose,v1,primitive,exec,cpu,reorder,jit_direct_copy:uni,undef,src:f32,,,0.2
"""


def test_kernels_from_logs():
    assert identify.kernel_from_log(ONEDNN.splitlines(), "") == "oneDNN brg_matmul:avx512_core"
    assert identify.kernel_from_log(MKL.splitlines(), "AVX2 (libmkl_avx2)") == (
        "MKL AVX2 (libmkl_avx2)"
    )
    assert identify.kernel_from_log([], "AVX2") == "?"  # nothing was logged: no guess


def probe(monkeypatch, text, **described):
    described = {"numpy": "2", "falcon": "0", "pools": [], "loaded": [], **described}

    class Done:
        returncode = 0
        stdout = f"{text}probe described {json.dumps(described)}\n"

    monkeypatch.setattr(identify.subprocess, "run", lambda *a, **k: Done)
    monkeypatch.setattr(identify, "find_spec", lambda name: True)


def test_mkl_is_known_by_the_library_that_it_loads(monkeypatch):
    text = f"probe begin float32\n{MKL.format('AVX-512')}probe end float32\n"
    pools = [{"internal_api": "mkl", "num_threads": 2, "filepath": "x"}]
    probe(monkeypatch, text, pools=pools, loaded=["libmkl_core.so.3", "libmkl_def.so.3"])
    found = identify.identify(TABLE[2], ["float32"], 2)
    assert (found.library, found.version, found.threads) == ("oneMKL", "2026.2", 2)
    assert found.kernels == {"float32": "MKL generic (libmkl_def)"}
    assert found.evidence == "MKL_VERBOSE, libraries loaded"


def test_mkl_inside_torch_is_known_by_its_words(monkeypatch):
    text = (
        f"probe begin float32\n{MKL.format('AVX-512 processors')}probe end float32\n"
        "probe begin float64\nMKL_VERBOSE DGEMM(N,N,512) 5ms\nprobe end float64\n"
        f"probe begin float16\n{ONEDNN}probe end float16\n"
    )
    probe(monkeypatch, text, torch="2.13", threads=2)
    found = identify.identify(TABLE[3], ["float32", "float64", "float16"], 2)
    assert found.kernels["float32"] == 'MKL for "AVX-512 processors"'
    assert found.kernels["float64"] == 'MKL for "AVX-512 processors"'
    assert found.kernels["float16"] == "oneDNN brg_matmul:avx512_core"
    probe(monkeypatch, f"probe begin float32\n{ONEDNN}probe end float32\n", torch="2.13")
    found = identify.identify(TABLE[4], ["float32"], 2)
    assert (found.library, found.version) == ("oneDNN", "3.12.0 (PyTorch 2.13)")


def test_numpy_and_falcon_describe_themselves():
    found = identify.identify(NUMPY, ["float32"], 1)
    assert found.library == "NumPy"
    assert found.version.startswith(np.__version__)
    assert found.kernels["float32"]
    mine = identify.identify(FALCON, ["float32", "complex64"], 1)
    assert mine.threads == 1
    assert mine.kernels["complex64"] == "NumPy's BLAS"
    table = identify.format_identities([found, mine])
    assert len(table.splitlines()) == 3


def test_a_process_that_fails_is_no_silent_gap(monkeypatch):
    class Done:
        returncode = 132
        stdout = ""

    monkeypatch.setattr(identify.subprocess, "run", lambda *a, **k: Done)
    assert identify.identify(NUMPY, ["float32"], 1).absent == "its process ended with status 132"
