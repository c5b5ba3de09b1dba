"""falcon.gemm by dtype, shape class, scheme, backend and threads; memory; packed operands."""

import numpy as np

import falcon
from falcon._core.dtypes import dtype_of
from falcon.bench.workloads import Shape
from falcon.bench.workloads import operands as workload_operands

from .common import DTYPES, SHAPES, operands, require, thread_counts


class Gemm:
    """Time of one call."""

    params = (list(SHAPES), DTYPES, ("auto", "classical", "strassen"))
    param_names = ("shape", "dtype", "scheme")

    def setup(self, shape, dtype, scheme):
        self.a, self.b, self.out = operands(shape, dtype)
        falcon.gemm(self.a, self.b, out=self.out, scheme=scheme)

    def time_gemm(self, shape, dtype, scheme):
        falcon.gemm(self.a, self.b, out=self.out, scheme=scheme)


class Batches:
    """Products of one size, 40 million multiplications in all."""

    params = ((8, 16, 32, 64, 128, 256), ("float32", "float64"), ("rows", "columns"))
    param_names = ("size", "dtype", "operands by")

    def setup(self, size, dtype, order):
        count = max(8, 40_000_000 // size**3)
        shape = Shape.of_batch(size, size, size, count, "ab" if order == "columns" else "")
        self.a, self.b = workload_operands(shape, np.dtype(dtype), seed=0)
        self.out = np.empty((count, size, size), dtype)
        self.time_matmul(size, dtype, order)

    def time_matmul(self, size, dtype, order):
        falcon.matmul(self.a, self.b, out=self.out)


class Types:
    """Types of 8 and 16 bits and int64, with results of the same type and of accumulators."""

    params = (
        (64, 1024),
        (("float16", "float16"), ("float16", "float32"), ("bfloat16", "bfloat16"),
         ("bfloat16", "float32"), ("int8", "int8"), ("int8", "int32"), ("int64", "int64")),
    )  # fmt: skip
    param_names = ("size", "types")

    def setup(self, size, types):
        require("cpu")
        self.a = (
            np.random.default_rng(0).integers(-4, 5, (size, size)).astype(dtype_of(types[0]).numpy)
        )
        self.b = self.a.copy()
        self.time_gemm(size, types)

    def time_gemm(self, size, types):
        falcon.gemm(self.a, self.b, dtype=types[1])


class Modular:
    """Exact products modulo p."""

    params = ((64, 1024), (251, 1009, 2**20 + 7, 2**31 - 1))
    param_names = ("size", "modulus")

    def setup(self, size, modulus):
        random = np.random.default_rng(0)
        self.a, self.b = (random.integers(0, modulus, (size, size)) for _ in "ab")
        self.time_gemm(size, modulus)

    def time_gemm(self, size, modulus):
        falcon.gemm(self.a, self.b, modulus=modulus)


class Backends:
    """The same product on every backend."""

    params = (("cpu", "numpy"), ("classical", "strassen"))
    param_names = ("backend", "scheme")

    def setup(self, backend, scheme):
        require(backend)
        self.a, self.b, self.out = operands("square 1024", "float32")
        falcon.gemm(self.a, self.b, out=self.out, backend=backend, scheme=scheme)

    def time_gemm(self, backend, scheme):
        falcon.gemm(self.a, self.b, out=self.out, backend=backend, scheme=scheme)


class Threads:
    """The same product on one thread, and on all."""

    params = (thread_counts(), ("classical", "strassen"))
    param_names = ("threads", "scheme")

    def setup(self, threads, scheme):
        require("cpu")
        self.a, self.b, self.out = operands("square 1024", "float32")
        self.time_gemm(threads, scheme)

    def time_gemm(self, threads, scheme):
        falcon.gemm(self.a, self.b, out=self.out, backend="cpu", scheme=scheme, threads=threads)


class Gram:
    """x.T @ x, which takes half of the work of a general product."""

    params = (((1000, 1000), (5000, 1500)), ("auto", "classical"))
    param_names = ("x", "scheme")

    def setup(self, shape, scheme):
        self.x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        self.time_gram(shape, scheme)

    def time_gram(self, shape, scheme):
        falcon.gram(self.x, scheme=scheme)


class Packed:
    """Packing B once, and multiplying by it."""

    params = ("classical", "strassen")
    param_names = ("scheme",)

    def setup(self, scheme):
        self.a, self.b, self.out = operands("square 1024", "float32")
        self.packed = falcon.pack(self.b, rows=self.a.shape[0], scheme=scheme)
        falcon.gemm(self.a, self.packed, out=self.out)

    def time_pack(self, scheme):
        falcon.pack(self.b, rows=self.a.shape[0], scheme=scheme)

    def time_gemm_packed(self, scheme):
        falcon.gemm(self.a, self.packed, out=self.out)


class Memory:
    """Memory of a call: the peak of the process, and the planned workspace."""

    params = ("classical", "strassen", "strassen@strassen")
    param_names = ("scheme",)

    def setup(self, scheme):
        self.a, self.b, self.out = operands("square 1024", "float32")

    def peakmem_gemm(self, scheme):
        falcon.gemm(self.a, self.b, out=self.out, scheme=scheme)

    def track_workspace(self, scheme):
        return falcon.plan(self.a, self.b, scheme=scheme).workspace

    track_workspace.unit = "bytes"
