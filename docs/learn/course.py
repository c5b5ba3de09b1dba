"""What the notebooks of the course share: the way to reference/, colours, stages of a real call."""

import logging
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import falcon
from falcon._backends import available_backends
from falcon._front.info import rates_used

# In the clone, and in the archive of notebooks.
sys.path += [str(x) for x in Path(__file__).parents[1:3] if (x / "reference").is_dir()]

# The palette of Okabe and Ito, which the colour-blind tell apart.
BLUE, ORANGE, GREEN, RED, SKY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9"
PURPLE, GREY = "#cc79a7", "#999999"
plt.rcParams.update({
    "axes.prop_cycle": plt.cycler(color=[BLUE, ORANGE, GREEN, RED, SKY, PURPLE]),
    "axes.grid": True, "grid.color": "#dddddd", "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False,
    "figure.dpi": 110, "figure.constrained_layout.use": True, "legend.frameon": False,
})  # fmt: skip

logging.getLogger("falcon").setLevel(logging.ERROR)  # that there is no compiler: page 5 says it
COMPILED = any(x.name == "cpu" for x in available_backends())
STAGES = {"combine_a": "Combine A", "combine_b": "Combine B", "gemm": "products",
          "update": "Combine H", "wait": "waiting"}  # fmt: skip


def fastest(call, rounds=5):
    """Return the seconds of the fastest of some calls."""
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def rates(operand="float32"):
    """Return FLOP/s, additions per second, elements to and from memory, that falcon plans with."""
    known = rates_used(in_numbers=True)[f"{'cpu' if COMPILED else 'numpy'} {operand}"]
    return known["multiply"], known["add"], known["bandwidth"]


def stages(a, b, scheme=None, rounds=3):
    """Return seconds per stage of one call on one thread, and whose clock told them.

    With falcon's kernels: the engine's own clock. Without: the four stages in NumPy, in turn.
    `scheme` None is the classical algorithm.
    """
    made = [_engine(a, b, scheme) if COMPILED else _numpy(a, b, scheme) for _ in range(rounds)]
    return min(made, key=lambda x: sum(x.values())), "falcon" if COMPILED else "NumPy"


def _engine(a, b, scheme):
    from falcon._core.dtypes import dtype_of
    from falcon._cpu import _core
    from falcon._cpu.extension import isa
    from falcon._cpu.pool import kept_bytes
    from falcon._cpu.programs import engine_scheme

    (M, K), N = a.shape, b.shape[1]
    how = {"isa": isa(), "scheme": engine_scheme(scheme), "limit": kept_bytes()}
    layout = _core.plan(M, N, K, dtype_of(a.dtype).engine, is_blocked=True, **how)
    workspace = _core.Workspace(layout.nbytes)
    c = np.empty((M, N), a.dtype)
    found = _core.gemm(layout, a, b, c, workspace=workspace, profile=True)
    return {name: found[key] for key, name in STAGES.items()}


def _numpy(a, b, scheme):
    from reference.lcma import combine
    from reference.padding import join, pad, split

    scheme = scheme or falcon.schemes.classical(1, 1, 1)
    m, k, n = scheme.format
    clock = [time.perf_counter()]

    def lap(value):
        clock.append(time.perf_counter())
        return value

    left = [x for row in split(pad(a, m, k), m, k) for x in row]
    right = [x for row in split(pad(b, k, n), k, n) for x in row]
    sums_a = lap([combine(u, left) for u in scheme.U])
    sums_b = lap([combine(v, right) for v in scheme.V])
    products = lap([x @ y for x, y in zip(sums_a, sums_b, strict=True)])
    blocks = [[combine(scheme.W[:, i, j], products) for j in range(n)] for i in range(m)]
    lap(join(blocks, len(a), b.shape[1]))
    return dict(zip([*STAGES.values()][:4], np.diff(clock), strict=True))
