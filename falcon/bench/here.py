"""Measurements in this process: interleaved calls of falcon and NumPy on one shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

import falcon
from falcon._core.dtypes import of
from falcon._core.timing import Record, Side
from falcon._front.info import backends, numpy_blas

from .errors import exact_rows, relative_error, sampled_rows
from .records import PACKED, case_entry, plan_entry
from .workloads import Case, operands

# Times sides in turn: `interleave`, with the effort that is asked for.
Timing = Callable[[list[Side]], list[Record]]


def own_classical(options: dict[str, Any], dtypes: Iterable[str]) -> dict[str, Any]:
    """Return `falcon.gemm`'s options for falcon's classical kernels; NumPy's where it has none."""
    found = {**options, "scheme": "classical"}
    own = backends()["cpu"] == "available" and all(of(x).engine is not None for x in dtypes)
    if own and found.get("backend", "auto") == "auto":
        found["backend"] = "cpu"
    return found


def beside_numpy(case: Case, options: dict[str, Any], timing: Timing) -> dict[str, Any]:
    """Measure falcon's choice, its classical path and np.matmul; packed, if B is a layer's weights.

    `options`: keyword arguments of `falcon.gemm`.
    Returns dict: the case, as a record file holds it.
    """
    sides: dict[str, dict[str, Any] | None] = {
        "falcon": options,
        **({PACKED: options} if case.shape.label else {}),
        "falcon classical": own_classical(options, [case.dtype]),
        "numpy": None,
    }
    shape, dtype = case.shape, of(case.dtype).numpy
    a, b = operands(shape, dtype, seed=shape.M + shape.N + shape.K)
    calls: dict[str, Any] = {}
    about: dict[str, dict[str, Any]] = {}
    for name, asked in sides.items():
        out = np.empty((shape.M, shape.N), dtype)
        if asked is None:
            calls[name] = partial(np.matmul, a, b, out=out)
            about[name] = {"library": "NumPy", "version": f"{np.__version__} ({numpy_blas()})"}
        else:
            right: Any = b
            how, nbytes = asked, None
            if name == PACKED:
                right, how = (
                    falcon.pack(b, rows=shape.M, **asked),
                    {"threads": asked.get("threads")},
                )
                nbytes = right.nbytes
            calls[name] = partial(falcon.gemm, a, right, out=out, **how)
            plan = plan_entry(falcon.plan(a, right, **how))
            about[name] = {"library": "falcon", "version": falcon.__version__, "plan": plan,
                           "extra_bytes": nbytes}  # fmt: skip
    measured = timing([Side.of(name, call) for name, call in calls.items()])
    index = sampled_rows((shape.M, shape.N), dtype)
    exact = exact_rows(a, b, index)
    for name, call in calls.items():
        about[name]["error"] = relative_error(call.keywords["out"][index], exact)
    return case_entry(case, measured, about)
