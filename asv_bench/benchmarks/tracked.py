"""Tracked figures other than times: effective GFLOP/s, ratio to NumPy, rounding errors."""

from dataclasses import replace

import numpy as np

import falcon
from falcon._tools.timing import Side, interleave
from falcon.bench.errors import Sample

from .common import DTYPES, SHAPES, operands

_PAIRS = 5
# Seconds after which no pairs beyond these begin.
_SECONDS = 10.0


class BesideNumPy:
    """falcon's choice and np.matmul, in interleaved pairs."""

    params = (list(SHAPES), (*DTYPES, "complex64", "complex128"))
    param_names = ("shape", "dtype")

    def setup(self, shape, dtype):
        a, b, out = operands(shape, dtype)
        self.flops = 2.0 * out.size * a.shape[1]
        self.sides = [Side.of("falcon", lambda: falcon.gemm(a, b, out=out)),
                      Side.of("numpy", lambda: np.matmul(a, b, out=out))]  # fmt: skip

    def track_gflops(self, shape, dtype):
        (falcons,) = interleave(self.sides[:1], _PAIRS)
        return self.flops / falcons.median / 1e9

    track_gflops.unit = "effective GFLOP/s (2MNK / time)"

    def track_ratio(self, shape, dtype):
        falcons, numpys = interleave(self.sides, _PAIRS, seconds=_SECONDS)
        return falcons.over(numpys).median

    track_ratio.unit = "NumPy's time / falcon's"


class Guard:
    """The time of a plan that compares the scales of its operands first, over one that does not.

    Even: nothing needs scaling; uneven: every row of A and every column of B does.
    """

    params = ((1024, 2048, 4096), DTYPES, ("even", "uneven"))
    param_names = ("size", "dtype", "scales")

    def setup(self, size, dtype, scales):
        random = np.random.default_rng(0)
        a, b = random.standard_normal((2, size, size)).astype(dtype)
        if scales == "uneven":
            powers = (2.0 ** random.integers(-20, 20, size)).astype(dtype)
            a, b = a * powers[:, None], b * powers
        out = np.empty((size, size), dtype)
        asked = falcon.plan(a, b, scheme="3x6x4:54", backend="cpu")
        guarded = replace(asked, guarded=True)
        self.sides = [Side.of("with", lambda: guarded(a, b, out)),
                      Side.of("without", lambda: asked(a, b, out))]  # fmt: skip

    def track_ratio(self, size, dtype, scales):
        guarded, asked = interleave(self.sides, _PAIRS, seconds=_SECONDS)
        return asked.over(guarded).median

    track_ratio.unit = "time with the guard / without"


class Errors:
    """RMS error relative to the RMS of C, against higher precision."""

    params = (("classical", "strassen", "winograd", "strassen@strassen", "3x4x5:48"), DTYPES)
    param_names = ("scheme", "dtype")

    def track_rms_error(self, scheme, dtype):
        a, b, out = operands("odd", dtype)
        falcon.gemm(a, b, out=out, scheme=scheme)
        return Sample(a, b).error(out)

    track_rms_error.unit = "relative to the RMS of C"
