"""Whether a good choice lasts: ``python studies/lasting.py WHAT`` (all times on a quiet machine).

    noise      regret of the third process of a cache whose first one ran beside other programs
    spoiled    rates of one backend off by 0.7 and 1.4: regret after 40 calls, in the next process
    between    the same with np.matmul between the calls
    cost       time spent on contests, and the slowest of 2,000 calls of one shape over their median
    small      products of 0.05 to 0.15 ms over np.matmul
    gram       gram over np.matmul(x.T, x)

Regret: how much longer the choice takes than the fastest of its five best rivals by the model, in
interleaved rounds. Every measurement runs in a process of its own; CACHES=3 per kind of noise.
"""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from statistics import mean, median

from common import after_numpy, dispatch, fresh_cache, operands, pairs, regret_of, running, seconds
from common import process as run

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
BETWEEN = 300


def process(variables, what, *arguments):
    return run(__file__, f"_{what}", *arguments, **variables)


# --- what the processes do ------------------------------------------------------------------


def once():
    import falcon

    falcon.gemm(*operands((1500, 1500, 1500))[:2])


def calls(count, between, *shapes):
    import numpy as np

    import falcon

    s = np.ones((BETWEEN, BETWEEN), np.float32)
    for text in shapes:
        a, b, _ = operands(json.loads(text))
        for _ in range(int(count)):
            if between == "True":
                np.matmul(s, s)
            falcon.gemm(a, b)


def regrets(between, *shapes):
    """Return the choice, what is known of it, and its regret, for each shape."""
    import falcon
    from falcon._front.tune import rivals, side_of

    found = []
    for text in shapes:
        a, b, out = operands(json.loads(text))
        with falcon.config(learn="off"):
            plan = falcon.plan(a, b)
        sides = [side_of(plan, x.option, (a, b, out)) for x in rivals(plan, 6)]
        if between == "True":
            sides = [after_numpy(x, BETWEEN) for x in sides]
        looked, best, lost = regret_of(sides, looks=5, rounds=7, most=15, limit=4)
        speed = 2 * out.size * a.shape[1] / looked[0].median / 1e9
        lost = max(0.0, lost.median - 1)
        found.append((text, sides[0].name, plan.known, sides[best].name, lost, speed))
    return found


def contests(duration):
    """Multiply for some seconds; return the share of contests."""
    import falcon
    from falcon.decision import contest

    a, b, _ = operands((2048, 2048, 2048))
    c, d, _ = operands((900, 1100, 1000))
    end, served = time.perf_counter() + float(duration), 0.0
    while time.perf_counter() < end:
        start = time.perf_counter()
        falcon.gemm(a, b)
        for _ in range(5):
            falcon.gemm(c, d)
        served += time.perf_counter() - start
    return contest._spent / served


def slowest(size):
    import falcon

    a, b, _ = operands((int(size),) * 3)
    falcon.gemm(a, b)
    times = sorted(seconds(lambda: falcon.gemm(a, b), count=1) for _ in range(2000))
    return times[-1] / median(times), times[-4] / median(times), median(times)


def ratios(kind):
    """Return falcon's speed over np.matmul's for some products, median of pairs."""
    import numpy as np

    import falcon

    found = {}
    small = [((200, 200, 100), "f4"), ((160, 160, 160), "f4"), ((100, 512, 128), "f8"),
             ((256, 256, 128), "f4"), ((300, 100, 200), "f8"), ((500, 64, 200), "f4")]  # fmt: skip
    tall = [((1100, 900), "f4"), ((18000, 650), "f4"), ((4096, 4096), "f4"), ((4096, 4096), "f8")]
    for shape, dtype in small if kind == "small" else tall:
        if kind == "small":
            a, b, out = operands(shape, dtype)
        else:
            b = np.random.default_rng(0).standard_normal(shape).astype(dtype)
            a, out = b.T, np.empty((shape[1], shape[1]), dtype)
        ours, theirs = (partial(x.matmul, a, b, out=out) for x in (falcon, np))
        length = max(seconds(theirs, count=3), 1e-6)
        short = length < 0.1
        for _ in range(100 if short else 25):
            ours()
        plan = falcon.plan(a, b)
        name = f"{shape} {dtype} {length * 1e3:.3f} ms {plan.option.label} {plan.backend.name}"
        found[name] = pairs(ours, theirs, 11 if short else 7, max(5, int(0.05 / length)))
    return found


# --- what is shown --------------------------------------------------------------------------


def regret(cache, shapes, between=False, show=True):
    found = process(cache, "regrets", between, *map(json.dumps, shapes))
    if show:
        for shape, choice, known, best, lost, speed in found:
            print(f"    {shape:<22}{choice:<28}{known:<11}best {best:<28}{lost:6.1%} {speed:7.0f}")
    return [x[4] for x in found]


def noise():
    for name, body in NOISE.items():
        for number in range(CACHES):
            with fresh_cache() as cache:
                head = f"import time, numpy as np\nend = time.time() + 8\n{body}"
                with running(head, 2):
                    time.sleep(1.0)
                    process(cache, "once")
                    process(cache, "calls", 60, False, json.dumps(SHAPES[4]))
                time.sleep(0.5)
                process(cache, "once")
                lost = regret(cache, SHAPES, show=number == 0)
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
            with fresh_cache() as cache:
                process(cache, "once")
                for shape in ONE:
                    spoil(cache["FALCON_CACHE_DIR"], backend, factor)
                    process(cache, "calls", 40, between, json.dumps(shape))
                    lost = regret(cache, [shape], between)
                    print(f"{backend} x {factor}, {shape}: {lost[0]:.1%}")


def cost():
    with fresh_cache() as cache:
        for duration in (60, *((540,) if "--long" in sys.argv else ())):
            print(f"contests in {duration} s: {process(cache, 'contests', duration):.2%}")
    for size in (256, 700, 1000):
        with fresh_cache() as cache:
            process(cache, "once")
            worst, fourth, usual = process(cache, "slowest", size)
            print(f"{size}^3, {usual * 1e3:.2f} ms: slowest of 2,000 over the median {worst:.2f}, "
                  f"fourth slowest {fourth:.2f}")  # fmt: skip


def beside_numpy(kind):
    with fresh_cache() as cache:
        for _ in range(3):
            for name, x in process(cache, "ratios", kind).items():
                print(f"{name:<60}{x:.3f}")
            print()


if __name__ == "__main__":
    shown = {"noise": noise, "spoiled": spoiled, "between": lambda: spoiled(between=True),
             "cost": cost, "small": lambda: beside_numpy("small"),
             "gram": lambda: beside_numpy("gram")}  # fmt: skip
    inner = (once, calls, regrets, contests, slowest, ratios)
    dispatch(__doc__, shown, {x.__name__: x for x in inner})
