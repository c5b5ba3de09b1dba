"""What is chosen on many cores, on paper: ``python studies/cores.py``.

Cores multiply and add by themselves; memory has one bandwidth for all. The table takes the rates
that falcon ships for one thread of a Zen 4, lets cores grow with the threads and memory up to what
its maker publishes, and shows what "auto" would take. Beside it is the ratio of arithmetic to
memory that FalconGEMM's equations compare: the best format of the row gains if 2MNK (1 - R/(mkn))
over the elements that its combines move exceeds F* over beta.

``python studies/cores.py --stream``: on this machine, what is chosen by rates that `tune` finds
while another program streams memory, and without it.
"""

from __future__ import annotations

import sys

from common import running, show

import falcon
from falcon._backends import available_backends
from falcon._core.dtypes import FLOAT32, FLOAT64
from falcon._core.options import Options
from falcon._core.problem import Problem
from falcon.decision.rates import nearest, on_threads, shipped
from falcon.decision.search import Search
from falcon.decision.ways import Way

# Threads, and the bandwidth of the memory in GB/s: a desktop with two channels of DDR5-5200, a
# workstation with four, servers with eight and twelve channels of DDR5-4800.
MACHINES = {8: 83, 16: 166, 64: 307, 128: 460}
SIZES = 2048, 4096, 8192, 16384
STREAM = "import numpy as np\na, b = np.ones((2, 2**26))\nwhile True: np.copyto(b, a)"


def plan(size, operand, threads, rates):
    problem, backends = Problem(size, size, size, operand, threads=threads), available_backends()
    search = Search(problem, Options(), [Way(backends[0])], backends)
    search.rates, search.source = (lambda _: rates), (lambda _: "")
    return search.plan()


def gain(made, rates):
    """Return flop that the scheme saves per element that its combines move, over F* / beta."""
    x, n = made.scheme, made.problem.M
    m, k, N = x.format
    saved = 2.0 * n**3 * (1 - x.rank / (m * k * N))
    moved = n * n * (3 + x.rank / (m * k) + x.rank / (k * N))
    return saved / moved / (rates.multiply / rates.bandwidth)


def paper():
    rows = [("threads", "GB/s", "type", *SIZES)]
    for threads, gigabytes in MACHINES.items():
        for operand in (FLOAT32, FLOAT64):
            known = nearest(shipped(), "cpu", "avx512_bf16", operand, "AuthenticAMD 25")
            table = {x.threads: x.rates for x in known}
            rates = on_threads(table, threads, gigabytes * 1e9 / operand.itemsize)
            made = [plan(n, operand, threads, rates) for n in SIZES]
            cells = [
                "classical" if x.scheme is None
                else f"{x.label} {float(x.why.split()[1]):.2f} ({gain(x, rates):.1f})"
                for x in made
            ]  # fmt: skip
            rows.append((threads, gigabytes, operand.name, *cells))
    show(rows)


def here():
    backend = available_backends()[0]
    threads = falcon.plan((9, 9), (9, 9)).threads
    rows = [("beside", "type", "rates", *SIZES[:3])]
    for name, count in (("nothing", 0), ("a program that streams memory", 1)):
        with running(STREAM, count):
            for operand in (FLOAT32, FLOAT64):
                rates = backend.measure(operand, threads, 5.0)
                made = [plan(n, operand, threads, rates) for n in SIZES[:3]]
                rows.append((name, operand.name, rates, *(x.label for x in made)))
    show(rows)


if __name__ == "__main__":
    here() if sys.argv[1:] == ["--stream"] else paper()
