"""`falcon.dask` on chunks in GPU memory: multiplied there, by the options of the call."""

import numpy as np
import pytest

import falcon

da = pytest.importorskip("dask.array")


def test_chunks_in_gpu_memory(cupy):
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-4, 5, (96, 96)).astype(np.float32) for _ in range(3))
    x, y, z = (da.from_array(cupy.asarray(v), 32, asarray=False) for v in (a, b, c))
    made = falcon.dask.gemm(x, y, z, alpha=2, beta=-1)
    assert type(made._meta) is cupy.ndarray
    expected = 2 * (a @ b) - c
    for (i, j), block in np.ndenumerate(made.to_delayed()):
        found = block.compute(scheduler="synchronous")
        assert type(found) is cupy.ndarray
        at = slice(32 * i, 32 * i + 32), slice(32 * j, 32 * j + 32)
        np.testing.assert_array_equal(cupy.asnumpy(found), expected[at])
