"""falcon.gemm by dtype, shape class and scheme, against NumPy; planning; error; memory."""

import numpy as np

import falcon

SHAPES = {
    "square 512": (512, 512, 512),
    "square 1024": (1024, 1024, 1024),
    "odd": (777, 555, 999),
    "rank-k update": (1024, 1024, 128),
    "tall": (4096, 64, 512),
}
DTYPES = ("float32", "float64")
SCHEMES = ("auto", "classical", "strassen")


def operands(shape, dtype):
    M, N, K = SHAPES[shape]
    random = np.random.default_rng(0)
    return (
        random.standard_normal((M, K)).astype(dtype),
        random.standard_normal((K, N)).astype(dtype),
        np.empty((M, N), dtype),
    )


class Gemm:
    """Time and effective GFLOP/s of one call."""

    params = (list(SHAPES), DTYPES, SCHEMES)
    param_names = ("shape", "dtype", "scheme")

    def setup(self, shape, dtype, scheme):
        self.a, self.b, self.out = operands(shape, dtype)
        falcon.gemm(self.a, self.b, out=self.out, scheme=scheme)

    def time_gemm(self, shape, dtype, scheme):
        falcon.gemm(self.a, self.b, out=self.out, scheme=scheme)

    def peakmem_gemm(self, shape, dtype, scheme):
        falcon.gemm(self.a, self.b, out=self.out, scheme=scheme)

    def track_rms_error(self, shape, dtype, scheme):
        from falcon.bench.measure import sampled_error

        falcon.gemm(self.a, self.b, out=self.out, scheme=scheme)
        return sampled_error(self.a, self.b, self.out)

    track_rms_error.unit = "relative to the RMS of C"


class RatioToNumPy:
    """np.matmul's time over falcon's, median of interleaved pairs."""

    params = (list(SHAPES), DTYPES)
    param_names = ("shape", "dtype")
    timeout = 120

    def track_ratio(self, shape, dtype):
        from falcon.bench.measure import interleave

        a, b, out = operands(shape, dtype)
        sides = [lambda: falcon.gemm(a, b, out=out), lambda: np.matmul(a, b, out=out)]
        return interleave(sides, rounds=5).ratio(0, 1)

    track_ratio.unit = "x"


class Planning:
    """Overhead of deciding, without multiplying."""

    def setup(self):
        self.a = np.ones((8, 8))
        falcon.plan((2048, 2048), (2048, 2048), "float32")
        self.size = 1000

    def time_cached_plan(self):
        falcon.plan((2048, 2048), (2048, 2048), "float32")

    def time_fresh_plan(self):
        self.size += 1
        falcon.plan((self.size, 1000), (1000, 1000), "float32")

    def time_smallest_call(self):
        falcon.gemm(self.a, self.a)
