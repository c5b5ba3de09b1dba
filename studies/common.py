"""What the studies share: operands, loops and pairs of timings, processes, tables.

Every study is a script: ``python studies/NAME.py --help`` (or without arguments), in a clone of the
repository in which falcon is installed (``pip install -e .``), on a quiet machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median


def operands(shape, dtype="float32"):
    """A, B and an empty C of sizes M, N, K; the same for the same sizes."""
    import numpy as np

    from falcon.bench.workloads import Shape
    from falcon.bench.workloads import operands as random

    M, N, K = shape
    dtype = np.dtype(dtype)
    return *random(Shape(M, N, K), dtype, M + N + K), np.empty((M, N), dtype)


def same_threads():
    """Let NumPy's BLAS, and torch where it is installed, use falcon's threads; return how many."""
    from falcon._core.options import thread_count
    from falcon._numpy.threads import numpy_blas

    threads, blas = thread_count(), numpy_blas()
    if blas is not None:
        blas.set(threads)
    if find_spec("torch"):
        import torch

        torch.set_num_threads(threads)
    return threads


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
    """Return the time of a call in a tight loop."""
    once = seconds(call, count=3)
    count = max(7, min(2000, int(0.25 / once)))
    seconds(call, count=count // 3 + 1)
    return seconds(call, count=count)


def pairs(ours, theirs, count, calls, before=None):
    """Return the median of `count` ratios, their time over ours, of loops in turn."""
    from falcon._tools.timing import Side, interleave

    sides = [Side(name, lambda _, call=call: seconds(call, before, count=calls))
             for name, call in (("ours", ours), ("theirs", theirs))]  # fmt: skip
    mine, other = interleave(sides, count, most=count, calls=1)
    return mine.over(other).median


# --- processes ------------------------------------------------------------------------------


def process(file, *arguments, **variables):
    """Run a script in a new process, with these variables; return the JSON that it prints."""
    command = [sys.executable, file, *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **variables}, check=True,
                          stdout=subprocess.PIPE, text=True)  # fmt: skip
    return json.loads(done.stdout or "null")


@contextmanager
def fresh_cache():
    """Yield the variables of processes that share a new cache folder and no pinned profile."""
    with tempfile.TemporaryDirectory(prefix="falcon-study-") as folder:
        yield {"FALCON_CACHE_DIR": folder, "FALCON_PROFILE": ""}


@contextmanager
def running(code, count=1):
    """Run Python code in other processes meanwhile."""
    others = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        yield
    finally:
        for x in others:
            x.kill()
            x.wait()


def dispatch(script, shown, inner, first=lambda: None):
    """Run what the first argument names: of `shown`, or in a process of a study, of `inner`.

    A function of `inner` returns what its process prints as JSON; `first` runs before it.
    """
    what, *arguments = sys.argv[1:] or [""]
    if what.startswith("_") and what[1:] in inner:
        first()
        print(json.dumps(inner[what[1:]](*arguments)))
    elif what in shown:
        shown[what]()
    else:
        sys.exit(script)


# --- output ---------------------------------------------------------------------------------


def show(rows, left=1):
    """Print a table; its first row holds the titles."""
    from falcon._tools.text import format_table

    print(format_table([(*map(str, row), "") for row in rows], left), flush=True)


def shapes_of(words, default):
    """Return the shapes of a command line as (M, N, K)."""
    from falcon.bench.workloads import parse_shapes

    return [(x.M, x.N, x.K) for x in parse_shapes(words or default)]


def write(path, content):
    """Replace a JSON file as a whole."""
    part = Path(path).with_suffix(".part")
    part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    part.replace(path)
