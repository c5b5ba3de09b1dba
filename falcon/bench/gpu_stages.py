"""The time of each stage of a multiplication on a GPU, compared with what bounds the stage.

The combines are compared with a copy on the device, by bytes moved; the products with cuBLAS's own
rate for the whole shape. Every stage runs by itself, many times in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import falcon
from falcon._backends import DEVICE, get_backend
from falcon._core.plan import Plan
from falcon._core.text import format_table
from falcon._gpu import device, driver
from falcon._gpu.arrays import library_of
from falcon._gpu.operands import Call
from falcon._gpu.rates import seconds_per_call
from falcon._gpu.steps import Step, run
from falcon.codegen.cuda_plan import products
from falcon.decision.rates import rates

from .workloads import Case

# The scheme whose stages are measured if "auto" chooses the classical product.
_LEAST_SCHEME = "strassen"
# What a stage is compared with: key of "bounds", unit, name of the unit.
_MOVES = ("copy", 1e9, "GB/s")
_MULTIPLIES = ("cuBLAS", 1e12, "TFLOP/s")


def measure(case: Case, a: Any, b: Any, out: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Measure the stages of a product in the current stream.

    Parameters
    ----------
    case : Case
    a, b, out : CuPy array
    options : dict
        Keyword arguments of `falcon.gemm`. Where the classical product is chosen, the stages are
        those of Strassen's scheme.

    Returns
    -------
    dict
        An entry of "stages" of a record file.
    """
    plan = falcon.plan(a, b, **options)
    if plan.scheme is None:
        plan = falcon.plan(a, b, **{**options, "scheme": _LEAST_SCHEME})
    classical = falcon.plan(a, b, **{**options, "scheme": "classical"})
    library = library_of(a)
    matrices = library.matrix(a), library.matrix(b), None, library.matrix(out)

    def steps(x: Plan) -> list[Step]:
        call = Call.of(x, *matrices, None)
        memory = driver.workspace(library, call.nbytes)
        held.append(memory)
        return driver.steps_of(call, memory, scales=None, alpha=1.0, beta=0.0)

    held: list[Any] = []
    made = steps(plan)
    work = _work(plan)
    seconds = {
        stage: seconds_per_call(partial(run, *(x for x in made if x.stage == stage)))
        for stage in dict.fromkeys(x.stage for x in made)
    }
    alone = seconds_per_call(partial(run, *steps(classical)))
    return {
        **case.shape.sizes(),
        "dtype": case.dtype,
        "scheme": plan.option.label,
        "total": seconds_per_call(partial(run, *made)),
        "classical": alone,
        "stages": seconds,
        "rates": {stage: work[stage] / x for stage, x in seconds.items() if stage in work},
        "bounds": {"copy": _copy_rate(work["combine A"]), "cuBLAS": case.shape.flops / alone},
        "predicted": _predicted(plan),
        "workspace": plan.workspace,
    }


def _work(plan: Plan) -> dict[str, float]:
    """Bytes that the combines move and operations of the products, repetitions included."""
    scheme, p = plan.scheme, plan.problem
    assert scheme is not None
    item, sums, found = p.operand.itemsize, p.accumulator.itemsize, products(scheme)
    rows, columns, inner = plan.option.tiling[:3]
    again_a, again_b, _ = plan.option.again
    rank, planes = len(found.places), found.planes
    return {
        "combine A": again_a * item * (p.M * p.K + rank * rows * inner),
        "combine B": again_b * item * (p.K * p.N + rank * inner * columns),
        "multiply": 2.0 * rank * rows * columns * inner,
        "combine H": planes * rows * columns * sums + p.M * p.N * item,
    }


def _copy_rate(moved: float) -> float:
    """Bytes read and written per second by a copy that moves as many bytes as a stage."""
    nbytes = max(int(moved) // 2, 1)
    source, target = device.allocate(nbytes), device.allocate(nbytes)
    device.set_bytes(source.pointer, 1, nbytes)
    call = (source.pointer, target.pointer, nbytes)
    return 2 * nbytes / seconds_per_call(lambda: device.copy_bytes(*call))


def _predicted(plan: Plan) -> dict[str, float]:
    backend = get_backend(DEVICE)
    known = rates(backend, plan.problem, [backend])
    return dict(backend.predicted(plan.problem, plan.option, known).seconds)


def format_stages(x: Mapping[str, Any]) -> str:
    """Return the table of an entry of "stages"."""
    total, bounds = x["total"], x["bounds"]
    head = (
        f"{x['M']} x {x['N']} x {x['K']} {x['dtype']}, {x['scheme']}: {1e3 * total:.3f} ms, "
        f"{x['classical'] / total:.3f} of cuBLAS ({1e3 * x['classical']:.3f} ms, "
        f"{bounds['cuBLAS'] / 1e12:.1f} TFLOP/s); a copy moves {bounds['copy'] / 1e9:.0f} GB/s"
    )
    rows: list[Sequence[str]] = [("stage", "ms", "share", "rate", "predicted ms", "")]
    whole = sum(x["stages"].values())
    for stage, seconds in x["stages"].items():
        bound, unit, name = _MULTIPLIES if stage == "multiply" else _MOVES
        rate, predicted = x["rates"].get(stage), x["predicted"].get(stage)
        rows.append(
            (
                stage,
                f"{1e3 * seconds:.3f}",
                f"{100 * seconds / whole:.0f} %",
                "" if rate is None else f"{rate / unit:.1f} {name}",
                "" if predicted is None else f"{1e3 * predicted:.3f}",
                "" if rate is None else f"{rate / bounds[bound]:.2f} of {bound}",
            )
        )
    return f"{head}\n{format_table(rows)}"
