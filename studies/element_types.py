"""Speed by element type: falcon's "classical" and "auto" beside float32, PyTorch and NumPy.

``python studies/element_types.py [S]`` prints the table, for S x S x S (default 2048), of products
in the operands' type, and of int8 by uint8 in int32; and the instruction sets whose kernels do not
run here. FALCON_ISA forces an older one. NumPy multiplies the integers that PyTorch lacks.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from functools import partial

import numpy as np
from common import seconds, show

import falcon
from falcon._core.dtypes import ENGINE, FLOAT32, PAIRS
from falcon._core.options import thread_count
from falcon._cpu.extension import missing
from falcon._tools.timing import Side, interleave
from falcon.bench.tables import INTERVAL

# A library that takes longer for one product is left out: it has only plain loops for the type.
MOST_SECONDS = 15.0


def operands(dtype, size, most):
    """Return two random matrices: normal numbers; integers below `most`, or of all sizes."""
    rng = np.random.default_rng(0)
    shape = 2, size, size
    if dtype.is_exact and most is not None:
        x = rng.integers(0 if dtype.is_unsigned else 1 - most, most, shape)
        return x[0].astype(dtype.left.numpy), x[1].astype(dtype.right.numpy)
    if dtype.is_exact:
        a, b = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
        return a.view(dtype.left.numpy)[..., 0], b.view(dtype.right.numpy)[..., 0]
    x = rng.standard_normal(shape, np.float32).astype(dtype.numpy)
    if dtype.is_complex:
        x.imag = rng.standard_normal(shape, np.float32)
    return tuple(x)


def sides(size, threads, names, most):
    """Yield the calls to compare; types whose package is missing are left out."""
    for dtype in (x for x in (*ENGINE, *PAIRS) if x is FLOAT32 or not names or x.name in names):
        with suppress(TypeError):
            a, b = operands(dtype, size, most)
            out = np.empty((size, size), dtype.result.numpy)
            how = {} if dtype.pair is None else {"dtype": out.dtype}
            for scheme in ("classical", "auto"):
                yield dtype, scheme, partial(falcon.gemm, a, b, out=out, backend="cpu",
                                             scheme=scheme, threads=threads, **how)  # fmt: skip
            if dtype.itemsize >= 4 and dtype.is_exact:
                if seconds(partial(np.matmul, a[:16], b), count=1) * size / 16 < MOST_SECONDS:
                    yield dtype, "numpy", partial(np.matmul, a, b)
                continue
            with suppress(ImportError):
                yield from ((dtype, "torch", call) for call in torchs(dtype, a, b, threads))


def torchs(dtype, a, b, threads):
    """Return PyTorch's product (oneDNN; int8 with sums in int32), unless it is a plain loop."""
    import torch

    torch.set_num_threads(threads)
    if dtype.is_exact and dtype.name != "int8":
        return []
    x, y = (torch.from_numpy(z.astype(np.float32) if dtype.module != "numpy" else z)
            .to(getattr(torch, dtype.name)) for z in (a, b))  # fmt: skip
    multiply = torch._int_mm if dtype.is_exact else torch.mm
    if seconds(lambda: multiply(x[:256], y), count=1) * len(a) / 256 > MOST_SECONDS:
        return []
    return [lambda: multiply(x, y)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size", nargs="?", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", help="types beside float32, by commas (default: all)")
    parser.add_argument("--most", type=int, help="integers below it (default: of all bits)")
    options = parser.parse_args()
    calls = list(
        sides(
            options.size,
            thread_count(),
            options.dtype.split(",") if options.dtype else (),
            options.most,
        )
    )
    turns = [Side.of(f"{dtype} {side}", call) for dtype, side, call in calls]
    records = interleave(turns, options.rounds, most=options.rounds)
    measured = {call[:2]: record for call, record in zip(calls, records, strict=True)}
    rows = [("dtype", "side", "Gop/s", "over falcon's classical float32", "over the library")]
    for (dtype, side), record in measured.items():
        library = measured.get((dtype, "torch"), measured.get((dtype, "numpy")))
        bases = measured[FLOAT32, "classical"], library
        ratios = ["" if x is None or x is record else record.over(x) for x in bases]
        rows.append((dtype.name, side, f"{2e-9 * options.size**3 / record.median:.0f}", *ratios))
    show(rows, left=2)
    print(f"\nover X: median of X's time over the side's, round by round, {INTERVAL}")
    for name, why in missing().items():
        print(f"left out: kernels of {name} ({why})")


if __name__ == "__main__":
    main()
