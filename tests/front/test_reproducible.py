"""``reproducible=True``: the same bits and plans whatever the threads, the memory and the rates."""

import numpy as np
import pytest

import falcon
from falcon._core.rates import Rates

from ..support import python

pytest.importorskip("falcon._cpu._core", reason="needs the compiled extension")

SIZES = [(1, 700, 300), (40, 50, 60), (300, 200, 100), (700, 701, 702), (1400, 1300, 1200),
         (1024, 1024, 4096)]  # fmt: skip


def operands(sizes, dtype, seed=0):
    M, N, K = sizes
    random = np.random.default_rng(seed)
    return random.standard_normal((M, K)).astype(dtype), random.standard_normal((K, N)).astype(
        dtype
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_bits_do_not_depend_on_threads(sizes, dtype):
    a, b = operands(sizes, dtype)
    first = falcon.matmul(a, b, threads=1, reproducible=True)
    for threads in (2, 3, 16):
        again = falcon.matmul(a, b, threads=threads, reproducible=True)
        np.testing.assert_array_equal(first, again)
    norms = np.abs(a).astype(float) @ np.abs(b).astype(float)
    assert (np.abs(first - a.astype(complex) @ b) <= 1e-4 * norms).all()


def test_batches_vectors_sums_and_gram_do_not_depend_on_threads():
    a, b = operands((300, 280, 260), "float32")
    batch = np.stack([a, 2 * a, a - 1])
    calls = (
        lambda: falcon.matmul(batch, b),
        lambda: falcon.matmul(a[0], b),
        lambda: falcon.gram(a),
        lambda: falcon.gemm(a, b, np.ones((300, 280), "f4"), alpha=0.3, beta=0.7),
        lambda: falcon.einsum("bij,jk->bik", batch, b),
        lambda: falcon.gemm(a, falcon.pack(b)),
    )
    for call in calls:
        found = []
        for threads in (1, 2, 7):
            with falcon.config(reproducible=True, threads=threads):
                found.append(call())
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], found[2])


def test_plans_do_not_depend_on_rates_memory_and_caches(doors):
    def found():
        falcon.decision.machine.replaced()
        return [
            (x.method.label, x.method.chunks)
            for n in (1100, 2048, 4096, 9000)
            for threads in (1, 16)
            for dtype in ("float32", "float64")
            for x in [falcon.plan((n, n), (n, n), dtype, threads=threads, reproducible=True)]
        ]

    before = found()
    assert len({x for x, _ in before}) > 2
    doors.machine_rates(Rates(1.0, 1.0, 1e30))
    doors.memory(kept=2**20, large=2**33)
    assert found() == before


def test_what_it_cannot_be_combined_with():
    a, b = operands((300, 200, 100), "float32")
    with pytest.raises(ValueError, match="falcon's own kernels on the host, backend 'cpu'"):
        falcon.gemm(a, b, backend="numpy", reproducible=True)
    with pytest.raises(TypeError, match="reproducible is 'yes'; expected True, False or"):
        falcon.gemm(a, b, reproducible="yes")


CODE = """
import hashlib, os, sys, numpy as np, falcon
found = hashlib.sha256()
for n in (90, 700, 1500):
    for dtype in ("float32", "float64"):
        a, b = np.random.default_rng(n).standard_normal((2, n, n)).astype(dtype)
        found.update(falcon.matmul(a, b).tobytes())
print(found.hexdigest())
"""


def test_processes_agree_with_one_instruction_set(tmp_path):
    """Other BLAS kernels, threads, caches of files: the bits are those of FALCON_ISA's kernels."""
    found = set()
    for about in (
        {},
        {"FALCON_NUM_THREADS": "1"},
        {"OPENBLAS_CORETYPE": "Haswell", "FALCON_NUM_THREADS": "5"},
        {"FALCON_CACHE_DIR": str(tmp_path), "FALCON_SHARE_THREADS": "0"},
    ):
        known = {"FALCON_REPRODUCIBLE": "1", "FALCON_ISA": "generic"}
        found.add(python("-c", CODE, **known, **about).stdout)
    assert len(found) == 1 and found != {""}


# Numbers by integer arithmetic, which no version of NumPy changes.
ACROSS = """
import hashlib, numpy as np, falcon
def made(rows, columns, seed):
    x = np.arange(rows * columns, dtype=np.uint64) + np.uint64(seed)
    x *= np.uint64(6364136223846793005)
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xFF51AFD7ED558CCD)
    x ^= x >> np.uint64(33)
    return ((x >> np.uint64(11)).astype(float) * 2.0**-52 - 1).reshape(rows, columns)
for kind in ("float32", "float64"):
    found = hashlib.sha256()
    for M, N, K in ((1, 700, 300), (3, 700, 300), (90, 90, 90), (701, 703, 699)):
        a, b = made(M, K, 1).astype(kind), made(K, N, 2).astype(kind)
        found.update(falcon.matmul(a, b, scheme="classical").tobytes())
    for scheme in ("strassen", "3x4x4:38", "strassen@winograd"):
        found.update(falcon.gemm(a, b, scheme=scheme).tobytes())
    print(kind, found.hexdigest()[:20])
"""
# Of kernels for AVX2. They change with the order of sums: say so in the changelog.
DIGESTS = """\
float32 f5ad1728483e8ed0700b
float64 14bb201b5d0accb6ef64
"""


def test_bits_are_those_of_every_processor_with_avx2():
    """As docs/reliability.md promises: whatever the caches, the memory, the BLAS and the CPUs."""
    from falcon._cpu import _core

    if "avx2" not in _core.supported_isas():
        pytest.skip("this machine or build has no AVX2")
    done = python("-c", ACROSS, FALCON_ISA="avx2", FALCON_REPRODUCIBLE="1")
    assert done.stdout == DIGESTS
