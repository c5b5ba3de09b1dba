"""`roofline`: where a plan stands between the machine's memory and its arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from falcon._backends import available_backends, get_backend
from falcon._core.plan import Plan
from falcon._core.rates import Rates
from falcon.decision.rates import rates
from falcon.schemes.drawing import new_figure

from .planner import predicted

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def roofline(plan: Plan) -> Figure:
    """Return a picture of the machine's roofline with a plan's product on it.

    The roof is what the classical algorithm can reach: its products at the rate F* that was
    measured of the backend's kernels, or its operands and result from memory, each once, at the
    bandwidth beta. A scheme raises the flat part by its speed-up bound. The point is the plan's
    prediction, in effective GFLOP/s (2MNK/time).

    Parameters
    ----------
    plan : Plan
        Of `falcon.plan`, for host memory.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        matplotlib is not installed.
    TypeError
        The plan is for a GPU, whose backend has another model.

    Notes
    -----
    Source: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance
    model for multicore architectures", Communications of the ACM 52 (4), 65-76, 2009.

    Examples
    --------
    >>> import falcon
    >>> figure = falcon.roofline(falcon.plan((2000, 2000), (2000, 2000)))  # doctest: +SKIP
    """
    problem, backend = plan.problem, get_backend(plan.backend.name)
    known = rates(backend, problem, available_backends(), plan.method.operand)
    if not isinstance(known, Rates):
        raise TypeError(f"the plan is for backend {backend.name!r}; expected one of host memory")
    M, N, K, size = problem.M, problem.N, problem.K, problem.operand.itemsize
    intensity = problem.flops / (size * (M * K + K * N + M * N))
    x = np.geomspace(min(0.1, intensity / 4), max(1e3, intensity * 4), 200)
    figure = new_figure(6, 4)
    axes = figure.subplots()
    slope = known.bandwidth * size * x
    label = (
        f"classical: {known.multiply / 1e9:.0f} GFLOP/s, {known.bandwidth * size / 1e9:.0f} GB/s"
    )
    axes.plot(x, np.minimum(slope, known.multiply) / 1e9, color="#0072b2", label=label)
    if plan.scheme is not None:
        bound = plan.scheme.speedup_bound
        raised = np.minimum(slope, bound * known.multiply) / 1e9
        axes.plot(x, raised, "--", color="#e69f00", label=f"{plan.label}: {bound:.2f} x as high")
    speed = problem.flops / predicted(plan).total / 1e9
    axes.plot(intensity, speed, "o", color="black", label=f"{problem}: {speed:.0f} predicted")
    axes.set(xscale="log", yscale="log", xlabel="intensity: flop per byte of A, B and C",
             ylabel="effective GFLOP/s (2MNK/time)")  # fmt: skip
    axes.grid(color="#dddddd")
    axes.legend(frameon=False, loc="lower right", fontsize=9)
    return figure
