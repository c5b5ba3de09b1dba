"""Operands for the GPU tests: whole numbers, in every order, with room around them."""

from dataclasses import replace

import numpy as np

import falcon
from falcon._core.dtypes import CUDA, dtype_of
from falcon._gpu import sources
from falcon._gpu.arrays import library_of

DTYPES = tuple(row.name for row in CUDA)
# The options of the compiler that CuPy adds, besides C++17.
CUPYS = ("-ftz=true", "--device-as-default-execution-space")


def kind(name):
    return dtype_of(name).numpy


def kernels_of(scheme, dtypes):
    """The combine kernels of a scheme for these element types."""
    return [unit for unit, *_ in typed_kernels_of(scheme, dtypes)]


def typed_kernels_of(scheme, dtypes):
    """The same with the types of what each reads, and of what it writes."""
    found = [(sources.combine_in(scheme, dtype), dtype, dtype) for dtype in dtypes]
    for dtype in dtypes:
        sums = dtype.accumulator
        found.append((sources.combine_out(scheme, sums, dtype), sums, dtype))
    return found


def whole(shape, seed, most=1):
    """Whole numbers so small that no sum is rounded, in 16 bits neither."""
    return np.random.default_rng(seed).integers(-most, most + 1, shape)


def on_device(cupy, values, dtype, order="C", gap=0, offset=0):
    """Copy to the device, by rows ("C"), by columns ("F") or with no unit stride ("S").

    `gap` elements lie between the rows (or columns), and the first element `offset` elements
    behind an aligned address.
    """
    host = np.asarray(values).astype(kind(dtype))
    rows, columns = host.shape
    if order == "F":
        return on_device(cupy, host.T, dtype, "C", gap, offset).T
    step = 2 if order == "S" else 1
    memory = cupy.empty((offset + rows * (columns * step + gap),), kind(dtype))
    body = memory[offset:].reshape(rows, columns * step + gap)
    view = body[:, : columns * step : step]
    view[...] = cupy.asarray(host)
    return view


def matrix(x):
    return library_of(x).matrix(x)


def execute(plan, a, b, c, out, **factors):
    """Run a plan that falcon.gemm does not make; `b` may be packed."""
    plan.runner(a, b, c, out, **factors)


def packed_by(plan, b, **options):
    """Pack as for a plan of "auto": columns are scaled."""
    made, backend = falcon.pack(b, scheme=plan.scheme, **options), plan.backend
    payload, norms = backend.pack(matrix(b), plan), backend.column_norms(None, plan)
    return replace(made, payload=payload, column_norms=norms)


def norms_of(a, b):
    """The product of the norms of every entry's row and column."""
    a, b = a.astype(float), b.astype(float)
    return np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=0)
