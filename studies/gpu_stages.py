"""The time of each stage of a product on a GPU: ``python studies/gpu_stages.py [MxNxK ...]``.

The combines are compared with a copy on the device, by bytes moved; the products with cuBLAS's own
rate for the whole shape. Every stage runs by itself, many times in a row. Each case is printed and
written (``-o FILE``) when it is done; the same command resumes a run that was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from common import shapes_of, show, write

import falcon
from falcon._backends import DEVICE, get_backend
from falcon._core.dtypes import CUDA, dtype_of
from falcon._gpu import device, driver, workspaces
from falcon._gpu.arrays import library_of
from falcon._gpu.rates import seconds_per_call
from falcon._gpu.steps import run
from falcon.bench.run import INCOMPLETE
from falcon.bench.workloads import Case, Shape, operands
from falcon.codegen.cuda_plan import products
from falcon.decision.rates import rates

SIZES = ("4096x4096x4096", "8192x8192x8192")
# The scheme whose stages are measured if "auto" chooses the classical product.
LEAST_SCHEME = "strassen"
# The first half of uneven A's rows, and of B's columns, is so many times as large as the other one.
FACTOR = 4
# What a stage is compared with: key of "bounds", unit, name of the unit.
MOVES = ("copy", 1e9, "GB/s")
MULTIPLIES = ("cuBLAS", 1e12, "TFLOP/s")


def measure(case, a, b, out, options):
    """Measure the stages of a product in the current stream; return an entry of "stages".

    Where the classical product is chosen, the stages are those of Strassen's scheme. Norms are
    looked at, as for a scheme that "auto" has chosen.
    """
    backend, plan = get_backend(DEVICE), falcon.plan(a, b, **options)
    if plan.scheme is None:
        plan = falcon.plan(a, b, **{**options, "scheme": LEAST_SCHEME})
    plan = replace(plan, guarded=True)
    classical = falcon.plan(a, b, **{**options, "scheme": "classical"})
    library = library_of(a)
    matrices = library.matrix(a), library.matrix(b), None, library.matrix(out)

    def steps(x):
        memory = workspaces.allocate(library, x.method.layout.nbytes)
        held.append(memory)
        return driver.steps_of(x, matrices, None, memory.pointer, alpha=1.0, beta=0.0)

    held = []
    made = steps(plan)
    work = work_of(plan)
    seconds = {
        stage: seconds_per_call(partial(run, *(x for x in made if x.stage == stage)))
        for stage in dict.fromkeys(x.stage for x in made)
    }
    alone = seconds_per_call(partial(run, *steps(classical)))
    known = rates(backend, plan.problem, [backend], plan.method.compute_type)
    predicted = dict(backend.predicted(plan.problem, plan.method, known).seconds)
    predicted["combine"] = predicted.pop("combine A") + predicted.pop("combine B")
    return {
        **{x: getattr(case.shape, x) for x in "MNK"},
        "dtype": case.dtype,
        "scheme": plan.method.label,
        "total": seconds_per_call(partial(run, *made)),
        "classical": alone,
        "stages": seconds,
        "rates": {stage: work[stage] / x for stage, x in seconds.items() if stage in work},
        "bounds": {"copy": copy_rate(work["combine"]), "cuBLAS": case.shape.flops / alone},
        "predicted": predicted,
        "workspace": plan.workspace,
    }


def work_of(plan):
    """Bytes that norms and combines move, operations of the products; repetitions included."""
    scheme, p = plan.scheme, plan.problem
    assert scheme is not None
    item, sums = p.operand.itemsize, p.accumulator.itemsize
    rows, columns, inner = plan.method.layout.block
    again_a, again_b = plan.method.layout.combined_again
    rank, planes = scheme.rank, products(scheme).planes
    return {
        "norms": item * (p.M * p.K * (scheme.m > 1) + p.K * p.N * (scheme.n > 1)),
        "combine": again_a * item * (p.M * p.K + rank * rows * inner)
        + again_b * item * (p.K * p.N + rank * inner * columns),
        "multiply": 2.0 * rank * rows * columns * inner,
        "combine H": planes * rows * columns * sums + p.M * p.N * item,
    }


def copy_rate(moved):
    """Bytes read and written per second by a copy that moves as many bytes as a stage."""
    nbytes = max(int(moved) // 2, 1)
    source, target = device.allocate(nbytes), device.allocate(nbytes)
    device.clear(source.pointer, nbytes)
    runtime = sys.modules["cupy"].cuda.runtime
    what = target.pointer, source.pointer, nbytes, runtime.memcpyDeviceToDevice
    return 2 * nbytes / seconds_per_call(lambda: runtime.memcpyAsync(*what, device.stream().ptr))


def table(x):
    """Print an entry of "stages"."""
    total, bounds = x["total"], x["bounds"]
    print(
        f"\n{x['M']} x {x['N']} x {x['K']} {x['dtype']}, {x['scheme']}: {1e3 * total:.3f} ms, "
        f"{x['classical'] / total:.3f} of cuBLAS ({1e3 * x['classical']:.3f} ms, "
        f"{bounds['cuBLAS'] / 1e12:.1f} TFLOP/s); a copy moves {bounds['copy'] / 1e9:.0f} GB/s"
    )
    rows = [("stage", "ms", "share", "rate", "predicted ms", "")]
    whole = sum(x["stages"].values())
    for stage, seconds in x["stages"].items():
        bound, unit, name = MULTIPLIES if stage == "multiply" else MOVES
        rate, predicted = x["rates"].get(stage), x["predicted"].get(stage)
        known = "", ""
        if rate is not None:
            known = f"{rate / unit:.1f} {name}", f"{rate / bounds[bound]:.2f} of {bound}"
        told = "" if predicted is None else f"{1e3 * predicted:.3f}"
        share = f"{100 * seconds / whole:.0f} %"
        rows.append((stage, f"{1e3 * seconds:.3f}", share, known[0], told, known[1]))
    show(rows)


def stages(case, options, uneven=False):
    """Measure a case on random operands; of uneven ones, half of the lines are larger."""
    get_backend(DEVICE)
    x, kind = case.shape, dtype_of(case.dtype).numpy
    a, b = operands(x, kind, case.seed)
    if uneven:
        a[: x.M // 2] *= FACTOR
        b[:, : x.N // 2] *= FACTOR
    out = device.empty((x.M, x.N), kind)
    return measure(case, device.upload(a), device.upload(b), out, options)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", help="M,N,K or MxNxK (default: 4096 and 8192)")
    parser.add_argument("--dtype", nargs="+", default=["bfloat16", "float32"],
                        choices=[x.name for x in CUDA])  # fmt: skip
    parser.add_argument("--scheme", default="auto")
    parser.add_argument("--uneven", action="store_true", help="halves of operands differ in scale")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    parser.add_argument("--time-budget", type=float, default=1e9, help="stop after so many seconds")
    options = parser.parse_args(arguments)
    path, end = options.output, time.monotonic() + options.time_budget
    found = json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else {}
    status, begun, failed = 0, False, found.setdefault("failed", [])
    uneven = " uneven" * options.uneven
    cases = {f"{case.key} {options.scheme}{uneven}": case
             for case in (Case("given", Shape(*x), y) for x in shapes_of(options.shapes, SIZES)
                          for y in options.dtype)}  # fmt: skip
    for key in sorted(cases.keys() - found.keys(), key=lambda x: (x in failed, [*cases].index(x))):
        case = cases[key]
        if begun and time.monotonic() > end:
            print("the run is not complete; the same command resumes it", file=sys.stderr)
            return INCOMPLETE
        begun = True
        try:
            found[key] = stages(case, {"scheme": options.scheme}, options.uneven)
        except (MemoryError, RuntimeError) as error:  # of the device's memory or a library
            print(f"warning: {key} failed: {error}", file=sys.stderr, flush=True)
            status = INCOMPLETE
            failed.append(key)
            if path:
                write(path, found)
            if device.is_lost():
                break
            continue
        table(found[key])
        if path:
            write(path, found)
    return status


if __name__ == "__main__":
    sys.exit(main())
