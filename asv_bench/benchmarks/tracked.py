"""Figures that are no times: effective GFLOP/s, ratio to NumPy, rounding errors."""

from dataclasses import replace

import numpy as np

import falcon
from falcon.bench.measure import interleave, sampled_error

from .common import DTYPES, SHAPES, operands, require_own_process

_PAIRS = 5


class BesideNumPy:
    """falcon's choice and np.matmul, in interleaved pairs."""

    params = (list(SHAPES), DTYPES)
    param_names = ("shape", "dtype")
    timeout = 120

    def setup(self, shape, dtype):
        require_own_process()
        a, b, out = operands(shape, dtype)
        self.flops = 2.0 * out.size * a.shape[1]
        self.sides = [lambda: falcon.gemm(a, b, out=out), lambda: np.matmul(a, b, out=out)]

    def track_gflops(self, shape, dtype):
        return self.flops / interleave(self.sides[:1], _PAIRS).median_seconds(0) / 1e9

    track_gflops.unit = "effective GFLOP/s (2MNK / time)"

    def track_ratio(self, shape, dtype):
        return interleave(self.sides, _PAIRS).ratio(0, 1)

    track_ratio.unit = "NumPy's time / falcon's"


class Guard:
    """A plan that compares the scales of its operands first, over one that does not."""

    params = ((1024, 2048, 4096), DTYPES)
    param_names = ("size", "dtype")
    timeout = 300

    def setup(self, size, dtype):
        require_own_process()
        random = np.random.default_rng(0)
        a, b = random.standard_normal((2, size, size)).astype(dtype)
        out = np.empty((size, size), dtype)
        asked = falcon.plan(a, b, scheme="3x6x4:54", backend="cpu")
        guarded = replace(asked, guarded=True)
        self.sides = [lambda: guarded(a, b, out), lambda: asked(a, b, out)]

    def track_ratio(self, size, dtype):
        return 1 / interleave(self.sides, _PAIRS).ratio(0, 1)

    track_ratio.unit = "time with the guard / without"


class Errors:
    """RMS error relative to the RMS of C, against higher precision."""

    params = (("classical", "strassen", "winograd", "strassen@strassen", "3x4x5:48"), DTYPES)
    param_names = ("scheme", "dtype")

    def track_rms_error(self, scheme, dtype):
        a, b, out = operands("odd", dtype)
        falcon.gemm(a, b, out=out, scheme=scheme)
        return sampled_error(a, b, out)

    track_rms_error.unit = "relative to the RMS of C"
