"""Whether a good choice lasts: ``python studies/lasting.py WHAT`` (all times on a quiet machine).

    noise      regret of the third process of a cache whose first one ran beside other programs
    spoiled    rates of one backend off by 0.7 and 1.4: regret after 40 calls, in the next process
    between    the same with np.matmul between the calls
    cost       time spent on contests, and the slowest of 2,000 calls of one shape over their median
    small      products of 0.05 to 0.15 ms over np.matmul
    gram       gram over np.matmul(x.T, x)

Regret: how much longer the choice takes than the fastest of its five best rivals by the model, in
interleaved rounds. Every measurement runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median

NOISE = {
    "busy loops": "while time.time() < end: sum(range(1000))",
    "np.matmul and sleep": "a = np.ones((1500, 1500), 'f4')\nwhile time.time() < end: a @ a; "
    "time.sleep(0.02)",
    "streams": "a = np.ones(40_000_000)\nwhile time.time() < end: a + a",
}
CACHES = int(os.environ.get("CACHES", 3))
SHAPES = [
    *((2048, 6144, 4096), (2048, 9216, 3072), (1024, 14336, 4096), (3001, 2999, 3003)),
    *((1000, 1000, 1000), (1536, 1536, 1536), (2048, 2048, 2048), (4096, 4096, 4096)),
    *((1100, 8000, 1200), (14000, 1000, 1500), (5000, 5000, 1000), (1700, 1300, 9000)),
]
ONE = [(2048, 2048, 2048), (1000, 1000, 1000)]
FACTORS = 0.7, 1.4


def process(folder, what, *arguments, **variables):
    """Run this file in a new process with a cache folder; return what it prints."""
    environment = {**os.environ, "FALCON_CACHE_DIR": str(folder), **variables}
    command = [sys.executable, __file__, f"_{what}", *map(str, arguments)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout or "null")


# --- what the processes do ------------------------------------------------------------------


def operands(shape, dtype="float32"):
    import numpy as np

    M, N, K = shape
    rng = np.random.default_rng(M + N + K)
    return (rng.standard_normal(x, np.float32).astype(dtype) for x in ((M, K), (K, N)))


def _once():
    import falcon

    a, b = operands((1500, 1500, 1500))
    falcon.gemm(a, b)


def _calls(count, between, *shapes):
    import numpy as np

    import falcon

    s = np.ones((300, 300), np.float32)
    for text in shapes:
        a, b = operands(json.loads(text))
        for _ in range(int(count)):
            if between == "True":
                np.matmul(s, s)
            falcon.gemm(a, b)


def _regret(between, *shapes):
    """Print the choice, what is known of it, and its regret, for each shape."""
    import numpy as np

    import falcon
    from falcon._core.timing import Side, interleave
    from falcon._front.tune import rivals, side_of

    found, s = [], np.ones((300, 300), np.float32)
    for text in shapes:
        a, b = operands(json.loads(text))
        with falcon.config(learn="off"):
            plan = falcon.plan(a, b)
        out = np.empty((a.shape[0], b.shape[1]), a.dtype)
        sides = [side_of(plan, x.option, (a, b, out)) for x in rivals(plan, 6)]
        if between == "True":

            def after(side):
                def run(calls):
                    times = []
                    for _ in range(calls):
                        np.matmul(s, s)
                        times.append(side.time(1))
                    return min(times)

                return Side(side.name, run, side.rest)

            sides = [after(x) for x in sides]
        looked = interleave(sides, 5, most=5)
        best = min(range(len(sides)), key=lambda i: looked[i].median)
        lost = 0.0
        if best:
            choice, rival = interleave([sides[0], sides[best]], 7, most=15, seconds=4)
            lost = max(0.0, rival.over(choice).median - 1)
        flop = 2 * a.shape[0] * a.shape[1] * b.shape[1]
        found.append((text, sides[0].name, plan.known, sides[best].name, lost,
                      flop / looked[0].median / 1e9))  # fmt: skip
    print(json.dumps(found))


def _cost(seconds):
    """Multiply for some seconds; print the share of contests, slowest over median."""
    import falcon
    from falcon.decision import contest

    a, b = operands((2048, 2048, 2048))
    c, d = operands((900, 1100, 1000))
    end, served = time.perf_counter() + float(seconds), 0.0
    while time.perf_counter() < end:
        start = time.perf_counter()
        falcon.gemm(a, b)
        for _ in range(5):
            falcon.gemm(c, d)
        served += time.perf_counter() - start
    print(json.dumps(contest._spent / served))


def _slowest(size):
    import falcon

    a, b = operands((int(size),) * 3)
    falcon.gemm(a, b)
    times = []
    for _ in range(2000):
        start = time.perf_counter()
        falcon.gemm(a, b)
        times.append(time.perf_counter() - start)
    ordered = sorted(times)
    print(json.dumps((ordered[-1] / median(times), ordered[-4] / median(times), median(times))))


def _ratios(kind):
    """Print falcon's speed over np.matmul's for some products, median of pairs."""
    import numpy as np

    import falcon

    found = {}
    small = [((200, 200, 100), "float32"), ((160, 160, 160), "float32"), ((100, 512, 128), "f8"),
             ((256, 256, 128), "f4"), ((300, 100, 200), "f8"), ((500, 64, 200), "f4")]  # fmt: skip
    tall = [((1100, 900), "f4"), ((18000, 650), "f4"), ((4096, 4096), "f4"), ((4096, 4096), "f8")]
    for shape, dtype in small if kind == "small" else tall:
        if kind == "small":
            a, b = operands(shape, dtype)
        else:
            a, b = None, np.random.default_rng(0).standard_normal(shape).astype(dtype)
            a = b.T
        out = np.empty((a.shape[0], b.shape[1]), a.dtype)

        def ours(a=a, b=b, out=out):
            falcon.matmul(a, b, out=out)

        def theirs(a=a, b=b, out=out):
            np.matmul(a, b, out=out)

        def seconds(call, runs):
            times = []
            for _ in range(runs):
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
            return median(times)

        once = max(seconds(theirs, 3), 1e-6)
        runs = max(5, int(0.05 / once))
        for _ in range(100 if once < 0.1 else 25):
            ours()
        pairs = []
        for _ in range(11 if once < 0.1 else 7):
            first = seconds(ours, runs)
            time.sleep(0.12)
            second = seconds(theirs, runs)
            time.sleep(0.12)
            pairs.append(second / first)
        plan = falcon.plan(a, b)
        name = f"{plan.option.label} {plan.backend.name}"
        found[f"{shape} {dtype} {once * 1e3:.3f} ms {name}"] = median(pairs)
    print(json.dumps(found, indent=1))


# --- what is shown --------------------------------------------------------------------------


def regret(folder, shapes, between=False, show=True):
    found = process(folder, "regret", between, *map(json.dumps, shapes))
    if show:
        for shape, choice, known, best, lost, speed in found:
            print(f"    {shape:<22}{choice:<28}{known:<11}best {best:<28}{lost:6.1%} {speed:7.0f}")
    return [x[4] for x in found]


def noise():
    for name, body in NOISE.items():
        for number in range(CACHES):
            with tempfile.TemporaryDirectory() as folder:
                head = f"import time, numpy as np\nend = time.time() + 8\n{body}"
                others = [subprocess.Popen([sys.executable, "-c", head]) for _ in range(2)]
                time.sleep(1.0)
                process(folder, "once")
                process(folder, "calls", 60, False, json.dumps(SHAPES[4]))
                for x in others:
                    x.kill()
                    x.wait()
                time.sleep(0.5)
                process(folder, "once")
                lost = regret(folder, SHAPES, show=number == 0)
                print(f"{name}, cache {number + 1}: mean {mean(lost):.1%}, worst {max(lost):.1%}")


def spoil(folder, backend, factor):
    """Multiply what is known of a backend's slowness by a factor."""
    (path,) = Path(folder).glob("learned-*.json")
    content = json.loads(path.read_text())
    for x in content["speeds"].values():
        x["processes"] = 3
        x["slower"][backend] *= factor
    path.write_text(json.dumps(content))


def spoiled(between=False):
    for backend in ("cpu", "numpy"):
        for factor in FACTORS:
            with tempfile.TemporaryDirectory() as folder:
                process(folder, "once")
                for shape in ONE:
                    spoil(folder, backend, factor)
                    process(folder, "calls", 40, between, json.dumps(shape))
                    lost = regret(folder, [shape], between)
                    print(f"{backend} x {factor}, {shape}: {lost[0]:.1%}")


def cost():
    with tempfile.TemporaryDirectory() as folder:
        for seconds in (60, *((540,) if "--long" in sys.argv else ())):
            print(f"contests in {seconds} s: {process(folder, 'cost', seconds):.2%}")
    for size in (256, 700, 1000):
        with tempfile.TemporaryDirectory() as folder:
            process(folder, "once")
            worst, fourth, usual = process(folder, "slowest", size)
            print(f"{size}^3, {usual * 1e3:.2f} ms: slowest of 2,000 over the median {worst:.2f}, "
                  f"fourth slowest {fourth:.2f}")  # fmt: skip


def ratios(kind):
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            found = process(folder, "ratios", kind)
            for name, x in found.items():
                print(f"{name:<60}{x:.3f}")
            print()


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what.startswith("_"):
        globals()[what](*sys.argv[2:])
    elif what == "between":
        spoiled(between=True)
    elif what in ("small", "gram"):
        ratios(what)
    elif what in ("noise", "spoiled", "cost"):
        globals()[what]()
    else:
        sys.exit(__doc__)
