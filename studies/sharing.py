"""What threads shared with OpenBLAS change: ``python studies/sharing.py WHAT``, when it is quiet.

    turn      falcon in turn with np.matmul, and after a pause, over its own tight loop; and NumPy
    numpy     np.matmul and LAPACK with sharing over without, in tight loops; np.matmul after a rest
    auto      "auto" over np.matmul, with and without a small np.matmul before each product
    lapack    LAPACK, and a product of falcon's, each in turn with the other
    busy      LAPACK as in `numpy`, beside as many busy processes as CPUs
    crowded   LAPACK in turn with falcon's products, beside as many busy processes
    torch     a pass of linear layers by torch, over falcon's on torch's threads and on its own
    pause     slowest of 200 single calls after a pause over one thread's time

Every row is measured in a process with sharing and one without (FALCON_SHARE_THREADS=0).
"""

from __future__ import annotations

import time
from copy import deepcopy
from functools import partial
from statistics import median

from common import awake, dispatch, operands, pairs, running, seconds
from common import process as run

from falcon._tools.cpus import usable_cpus

SHAPES = [(640, 640, 640), (1000, 1000, 1000), (2048, 2048, 2048), (4500, 600, 4800)]
SIZES = 64, 128, 256, 512, 1000, 2048, 4096
TYPES = "f4", "f8"


def shared():
    """Have falcon's kernels run, and wait until OpenBLAS's own workers sleep."""
    import numpy as np

    import falcon

    a = np.ones((500, 500))
    for _ in range(8):
        falcon.gemm(a, a, backend="cpu")
        time.sleep(0.25)


def turn():
    import numpy as np

    import falcon

    found = {}
    for dtype in TYPES:
        for shape in (*SHAPES, "gram"):
            if shape == "gram":
                x = np.random.default_rng(0).standard_normal((18000, 650)).astype(dtype)
                out, other = np.empty((2, 650, 650), dtype)
                own = partial(falcon.gram, x, backend="cpu", out=out)
                numpys = partial(np.matmul, x.T, x, out=other)
            else:
                a, b, out = operands(shape, dtype)
                other = out.copy()
                own = partial(falcon.gemm, a, b, backend="cpu", scheme="classical", out=out)
                numpys = partial(np.matmul, a, b, out=other)
            time.sleep(0.2)
            rows = []
            for _ in range(3):
                time.sleep(0.15)
                tight = awake(own)
                soon, later = seconds(own, numpys), seconds(own, numpys, 0.06, 9)
                time.sleep(0.15)
                rows.append((tight / soon, tight / later, awake(numpys) / seconds(numpys, own)))
            found[f"{dtype} {shape}"] = [median(x) for x in zip(*rows, strict=True)]
    return found


def numpy_alone():
    import numpy as np

    found = {}
    for dtype in TYPES:
        for size in SIZES:
            a, b, out = operands((size,) * 3, dtype)
            call = partial(np.matmul, a, b, out=out)
            found[f"matmul {dtype} {size}"] = awake(call)
            if size in (256, 1000):
                for rest in (0.06, 0.3):
                    found[f"matmul {dtype} {size} after {rest} s"] = seconds(call, None, rest, 9)
    return found | lapack()


def factorizations(sizes):
    """Yield LAPACK's functions by name."""
    import numpy as np

    for size in sizes:
        x = np.random.default_rng(0).standard_normal((size, size))
        s = x @ x.T + size * np.eye(size)
        calls = {
            "solve": lambda x=x: np.linalg.solve(x, x[:, :1]), "inv": lambda x=x: np.linalg.inv(x),
            "qr": lambda x=x: np.linalg.qr(x), "svd": lambda x=x: np.linalg.svd(x[:500, :500]),
            "eigh": lambda s=s: np.linalg.eigh(s[:600, :600]),
            "cholesky": lambda s=s: np.linalg.cholesky(s),
        }  # fmt: skip
        yield from ((f"{name} {size}", call) for name, call in calls.items())


def lapack():
    return {name: awake(call) for name, call in factorizations((600, 1200))}


def in_turn():
    import falcon

    a, b, out = operands((1000,) * 3, "f8")
    product = partial(falcon.gemm, a, b, out=out, backend="cpu")
    found = {}
    for name, call in factorizations((600,)):
        for _ in range(3):
            product(), call()
        found[name] = seconds(call, product)
        found[f"product after {name}"] = seconds(product, call)
    return found


def auto():
    import numpy as np

    import falcon

    small = np.ones((300, 300), np.float32)
    found = {}
    for dtype in TYPES:
        for size in (1024, 2048):
            a, b, out = operands((size,) * 3, dtype)
            for name, before in (("", None), (" after s @ s", lambda: small @ small)):
                found[f"{dtype} {size}{name}"] = pairs(
                    partial(falcon.gemm, a, b, out=out), partial(np.matmul, a, b, out=out),
                    7, 7, before,
                )  # fmt: skip
    return found


def pause():
    import falcon

    a, b, out = operands((350, 1300, 260), "f4")
    own = partial(falcon.gemm, a, b, backend="cpu", out=out)
    one = awake(partial(own, threads=1))
    slowest = []
    for _ in range(3):
        slowest.append(max(seconds(own, rest=0.03, count=1) for _ in range(200)))
    return {"one thread over the slowest of 200": one / median(slowest)}


def both(what):
    """Return what a process without sharing and one with it measure."""
    return [run(__file__, f"_{what}", FALCON_SHARE_THREADS=x) for x in "01"]


def torch_layers():
    """Print torch's time of a pass of four blocks over falcon's, by tokens."""
    import torch

    import falcon.torch
    from falcon._tools.timing import Side, interleave

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.query = torch.nn.LayerNorm(1024), torch.nn.Linear(1024, 1024)
            self.up, self.down = torch.nn.Linear(1024, 4096), torch.nn.Linear(4096, 1024)

        def forward(self, x):
            x = x + self.query(self.norm(x))
            return x + self.down(torch.nn.functional.gelu(self.up(x)))

    stock = torch.nn.Sequential(*(Block() for _ in range(4))).eval()
    made = deepcopy(stock)
    config = falcon.torch.LinearConfig(measure=False, min_m=64)
    falcon.torch.convert_(made, config)

    def passed(model, x, shares):
        falcon.set_config(share_threads=shares)
        with torch.inference_mode():
            for _ in range(2):
                model(x)

    for tokens in (64, 128, 512, 1500):
        x = torch.randn(tokens, 1024)
        sides = [Side(name, lambda _, how=how: seconds(partial(passed, *how), count=1))
                 for name, how in {"torch": (stock, x, True), "shared": (made, x, True),
                                   "own": (made, x, False)}.items()]  # fmt: skip
        theirs, *ours = interleave(sides, 25, most=25, calls=1)
        shared, own = (x.over(theirs) for x in ours)
        print(f"{tokens:>5} tokens, float32: shared {shared}, own {own}", flush=True)


def overhead(what):
    runs = [both(what) for _ in range(3)]
    for name in runs[0][0]:
        without, with_it = (median(x[i][name] for x in runs) for i in (0, 1))
        ratio = median(x[0][name] / x[1][name] for x in runs)
        print(f"{name:<32}{without * 1e3:10.3f} ms without, {with_it * 1e3:10.3f} with{ratio:8.3f}")


def beside(what):
    with running("while True: pass", usable_cpus()):
        overhead(what)


def compared(what):
    without, with_it = both(what)
    for name, x in without.items():
        rows = (x, with_it[name]) if isinstance(x, list) else ([x], [with_it[name]])
        texts = ("  ".join(f"{value:.3f}" for value in row) for row in rows)
        print(f"{name:<36}without {next(texts)}   with {next(texts)}")


if __name__ == "__main__":
    names = {"turn": turn, "numpy": numpy_alone, "auto": auto, "pause": pause, "lapack": lapack,
             "in_turn": in_turn}  # fmt: skip
    shown = {x: lambda x=x: compared(x) for x in ("turn", "auto", "pause")}
    shown["torch"] = torch_layers
    shown |= {"numpy": partial(overhead, "numpy"), "lapack": partial(overhead, "in_turn"),
              "busy": partial(beside, "lapack"), "crowded": partial(beside, "in_turn")}  # fmt: skip
    dispatch(__doc__, shown, names, first=shared)
