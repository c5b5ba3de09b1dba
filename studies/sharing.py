"""What threads shared with OpenBLAS change: ``python studies/sharing.py WHAT``, when it is quiet.

    turn      falcon in turn with np.matmul, and after a pause, over its own tight loop; and NumPy
    numpy     np.matmul and LAPACK with sharing over without, in tight loops; np.matmul after a rest
    auto      "auto" over np.matmul, with and without a small np.matmul before each product
    pause     slowest of 200 single calls after a pause over one thread's time

Every row is measured in a process with sharing and one without (FALCON_SHARE_THREADS=0).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from statistics import median

SHAPES = [(640, 640, 640), (1000, 1000, 1000), (2048, 2048, 2048), (4500, 600, 4800)]
SIZES = 64, 128, 256, 512, 1000, 2048, 4096


def seconds(call, before=None, rest=0.0, count=15):
    """Return the median time of a call, each after another one and a rest."""
    times = []
    for _ in range(count):
        if before is not None:
            before()
        if rest:
            time.sleep(rest)
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times)


def awake(call):
    """Return the time in a tight loop."""
    once = seconds(call, count=3)
    count = max(7, min(2000, int(0.25 / once)))
    seconds(call, count=count // 3 + 1)
    return seconds(call, count=count)


def operands(shape, dtype):
    import numpy as np

    M, N, K = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(x).astype(dtype) for x in ((M, K), (K, N)))
    return a, b, np.empty((M, N), dtype), np.empty((M, N), dtype)


def shared():
    """Have falcon's kernels run, and wait until OpenBLAS's own workers sleep."""
    import numpy as np

    import falcon

    a = np.ones((500, 500))
    for _ in range(8):
        falcon.gemm(a, a, backend="cpu")
        time.sleep(0.25)


def _turn():
    import numpy as np

    import falcon

    found = {}
    for dtype in ("f4", "f8"):
        for shape in (*SHAPES, "gram"):
            if shape == "gram":
                x = np.random.default_rng(0).standard_normal((18000, 650)).astype(dtype)
                out, other = np.empty((650, 650), dtype), np.empty((650, 650), dtype)
                calls = (lambda x=x, out=out: falcon.gram(x, backend="cpu", out=out),
                         lambda x=x, other=other: np.matmul(x.T, x, out=other))  # fmt: skip
            else:
                a, b, out, other = operands(shape, dtype)
                calls = (lambda a=a, b=b, out=out: falcon.gemm(a, b, backend="cpu",
                                                              scheme="classical", out=out),
                         lambda a=a, b=b, other=other: np.matmul(a, b, out=other))  # fmt: skip
            own, numpys = calls
            time.sleep(0.2)
            rows = []
            for _ in range(3):
                time.sleep(0.15)
                tight = awake(own)
                turn, later = seconds(own, numpys), seconds(own, numpys, 0.06, 9)
                time.sleep(0.15)
                rows.append((tight / turn, tight / later, awake(numpys) / seconds(numpys, own)))
            found[f"{dtype} {shape}"] = [median(x) for x in zip(*rows, strict=True)]
    return found


def _numpy():
    import numpy as np

    found = {}
    for dtype in ("f4", "f8"):
        for size in SIZES:
            a, b, out, _ = operands((size,) * 3, dtype)
            call = lambda a=a, b=b, out=out: np.matmul(a, b, out=out)  # noqa: E731
            found[f"matmul {dtype} {size}"] = awake(call)
            if size in (256, 1000):
                for rest in (0.06, 0.3):
                    found[f"matmul {dtype} {size} after {rest} s"] = seconds(call, None, rest, 9)
    for size in (600, 1200):
        x = np.random.default_rng(0).standard_normal((size, size))
        s = x @ x.T + size * np.eye(size)
        for name, call in {
            "solve": lambda x=x: np.linalg.solve(x, x[:, :1]), "inv": lambda x=x: np.linalg.inv(x),
            "qr": lambda x=x: np.linalg.qr(x), "svd": lambda x=x: np.linalg.svd(x[:500, :500]),
            "eigh": lambda s=s: np.linalg.eigh(s[:600, :600]),
            "cholesky": lambda s=s: np.linalg.cholesky(s),
        }.items():  # fmt: skip
            found[f"{name} {size}"] = awake(call)
    return found


def _auto():
    import numpy as np

    import falcon

    small = np.ones((300, 300), np.float32)
    found = {}
    for dtype in ("f4", "f8"):
        for size in (1024, 2048):
            a, b, out, other = operands((size,) * 3, dtype)
            for name, before in (("", None), (" after s @ s", lambda: small @ small)):
                pairs = []
                for _ in range(7):
                    time.sleep(0.12)
                    ours = seconds(lambda: falcon.gemm(a, b, out=out), before, 0, 7)  # noqa: B023
                    time.sleep(0.12)
                    theirs = seconds(lambda: np.matmul(a, b, out=other), before, 0, 7)  # noqa: B023
                    pairs.append(theirs / ours)
                found[f"{dtype} {size}{name}"] = median(pairs)
    return found


def _pause():
    import falcon

    a, b, out, _ = operands((350, 1300, 260), "f4")
    one = awake(lambda: falcon.gemm(a, b, backend="cpu", threads=1, out=out))
    slowest = []
    for _ in range(3):
        times = []
        for _ in range(200):
            time.sleep(0.03)
            start = time.perf_counter()
            falcon.gemm(a, b, backend="cpu", out=out)
            times.append(time.perf_counter() - start)
        slowest.append(sorted(times)[-1])
    return {"one thread over the slowest of 200": one / median(slowest)}


def process(what, share):
    environment = {**os.environ, "FALCON_SHARE_THREADS": str(share)}
    command = [sys.executable, __file__, f"_{what}"]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what.startswith("_"):
        shared()
        print(json.dumps(globals()[what]()))
    elif what == "numpy":
        runs = [(process(what, 0), process(what, 1)) for _ in range(3)]
        for name in runs[0][0]:
            without, with_it = (median(x[i][name] for x in runs) for i in (0, 1))
            ratio = median(x[0][name] / x[1][name] for x in runs)
            print(f"{name:<32}{without * 1e3:10.3f} ms without, {with_it * 1e3:10.3f} with"
                  f"{ratio:8.3f}")  # fmt: skip
    elif what in ("turn", "auto", "pause"):
        without, with_it = process(what, 0), process(what, 1)
        for name, x in without.items():
            rows = (x, with_it[name]) if isinstance(x, list) else ([x], [with_it[name]])
            texts = ("  ".join(f"{value:.3f}" for value in row) for row in rows)
            print(f"{name:<36}without {next(texts)}   with {next(texts)}")
    else:
        sys.exit(__doc__)
