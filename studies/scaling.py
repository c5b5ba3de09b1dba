"""Many cores: what is chosen, and what threads of different speed cost: ``studies/scaling.py``.

``python studies/scaling.py --half [MxNxK ...]``: a helper at half speed, measured. A program that
is busy half of the time runs on the CPU of the helper, in slices of 0.1 ms with real-time priority
where the system allows it, else beside it as the system schedules it. Time over the ideal one, for
the share of the CPU that the helper was left; needs two CPUs.

``python studies/scaling.py``: what "auto" would take on machines of many cores, on paper.
Cores multiply and add by themselves; memory has one bandwidth for all. The table takes the rates
that falcon ships for one thread of a Zen 4, lets cores grow with the threads and memory up to what
its maker publishes. Beside it is the ratio of arithmetic to memory that FalconGEMM's equations
compare: the best format of the row gains if 2MNK (1 - R/(mkn)) over the elements that its combines
move exceeds F* over beta. ``--stream``: on this machine, what is chosen by rates that `tune` finds
while another program streams memory, and without it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from statistics import median

import numpy as np
from common import operands, running, shapes_of, show

import falcon
from falcon._backends import available_backends
from falcon._core.dtypes import FLOAT32, FLOAT64, dtype_of
from falcon._core.options import Options
from falcon._core.problem import Problem
from falcon._cpu import _core
from falcon._cpu.extension import isa
from falcon._cpu.pool import kept_bytes
from falcon._cpu.programs import engine_scheme
from falcon.decision.methods import Way
from falcon.decision.rates import nearest, on_threads, shipped
from falcon.decision.search import Search
from falcon.schemes import get

# Threads, and the bandwidth of the memory in GB/s: this machine's kind, a desktop with two channels
# of DDR5-5200, a workstation with four, servers with eight and twelve channels of DDR5-4800.
MACHINES = {2: 40, 8: 83, 16: 166, 64: 307, 128: 460}
SIZES = 2048, 4096, 8192, 16384
STREAM = "import numpy as np\na, b = np.ones((2, 2**26))\nwhile True: np.copyto(b, a)"
# Busy for 0.1 ms, then asleep for as long; the arguments of the process: its CPU.
HALF = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    rest = 85e-6
except OSError:
    rest = 0
while True:
    end = time.perf_counter() + 1e-4
    while time.perf_counter() < end:
        pass
    time.sleep(rest) if rest else None
"""


# --- what is chosen, on paper ---------------------------------------------------------------


def paper_rates(operand, threads):
    known = nearest(
        [x for x in shipped() if x.machine == "AMD Zen 4"], "cpu", "avx512_bf16", operand
    )
    table = {x.threads: x.rates for x in known}
    return on_threads(table, threads, MACHINES[threads] * 1e9 / operand.itemsize)


def plan(shape, operand, threads, rates):
    problem, backends = Problem(*shape, operand, threads=threads), available_backends()
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


def choice():
    rows = [("threads", "GB/s", "type", *SIZES)]
    for threads in (x for x in MACHINES if x > 2):
        for operand in (FLOAT32, FLOAT64):
            rates = paper_rates(operand, threads)
            made = [plan((n, n, n), operand, threads, rates) for n in SIZES]
            cells = [
                "classical" if x.scheme is None
                else f"{x.label} {float(x.why.split()[1]):.2f} ({gain(x, rates):.1f})"
                for x in made
            ]  # fmt: skip
            rows.append((threads, MACHINES[threads], operand.name, *cells))
    show(rows)


def streamed():
    backend = available_backends()[0]
    threads = falcon.plan((9, 9), (9, 9)).threads
    rows = [("beside", "type", "rates", *SIZES[:3])]
    for name, count in (("nothing", 0), ("a program that streams memory", 1)):
        with running(STREAM, count):
            for operand in (FLOAT32, FLOAT64):
                rates = backend.measure(operand, threads, 5.0)
                made = [plan((n, n, n), operand, threads, rates) for n in SIZES[:3]]
                rows.append((name, operand.name, rates, *(x.label for x in made)))
    show(rows)


# --- a product on its own ------------------------------------------------------------------


class Product:
    """A product laid out for a number of threads, of which `threads` pay."""

    def __init__(self, shape, dtype, scheme, threads):
        M, N, K = shape
        how = {"threads": threads, "isa": isa(), "scheme": engine_scheme(scheme)}
        how |= {"limit": kept_bytes(), "is_blocked": True}
        self.layout = _core.plan(M, N, K, dtype_of(np.dtype(dtype)).engine, **how)
        self.operands = operands(shape, dtype)
        self.workspace = _core.Workspace(self.layout.nbytes)
        self.run()

    def run(self, **how):
        return _core.gemm(self.layout, *self.operands, workspace=self.workspace, **how)

    def seconds(self, calls):
        """Return the mean time of some calls in a row."""
        start = time.perf_counter()
        for _ in range(calls):
            self.run()
        return (time.perf_counter() - start) / calls


# --- a helper at half speed, measured -------------------------------------------------------


def cpu_seconds(pid):
    """CPU time of a process, in seconds."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        ticks = file.read().rsplit(")", 1)[1].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def slowed(words, dtype, rounds):
    cpu = max(os.sched_getaffinity(0))
    rows = [("shape", "scheme", "2 threads, ms", "CPU left to the helper", "ms", "over ideal")]
    for shape in shapes_of(words, ("1000x1000x1000", "2048x2048x2048", "4096x4096x4096")):
        for name in ("classical", "strassen"):
            made = Product(shape, dtype, None if name == "classical" else get(name), 2)
            calls = 1 + int(0.25 / made.seconds(1))
            free = min(made.seconds(calls) for _ in range(rounds))
            busy = subprocess.Popen([sys.executable, "-c", HALF, str(cpu)])
            try:
                time.sleep(0.3)
                start, used = time.perf_counter(), cpu_seconds(busy.pid)
                took = median(made.seconds(calls) for _ in range(rounds))
                left = 1 - (cpu_seconds(busy.pid) - used) / (time.perf_counter() - start)
            finally:
                busy.kill()
                busy.wait()
            ideal = 2 * free / (1 + left)
            rows.append(("x".join(map(str, shape)), name, f"{free * 1e3:.2f}", f"{left:.2f}",
                         f"{took * 1e3:.2f}", f"{took / ideal:.2f}"))  # fmt: skip
    show(rows, left=2)


def main():
    what = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=what)
    parser.add_argument("shapes", nargs="*", help="M,N,K or MxNxK")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--rounds", type=int, default=5, help="with --half")
    for name in ("half", "stream"):
        parser.add_argument(f"--{name}", action="store_true")
    options = parser.parse_args()
    if options.half:
        slowed(options.shapes, options.dtype, options.rounds)
    elif options.stream:
        streamed()
    else:
        choice()


if __name__ == "__main__":
    main()
