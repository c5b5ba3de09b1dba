"""The front: the only place that sees a user's arguments.

::

    gemm.py      gemm and plan                  matmul.py    matmul
    pack.py      pack                           verify.py    verify: Freivalds' check
    tune.py      machine, tune, compare         info.py      show_config
    validate.py  every argument, checked in Python
    device.py    the same for arrays in GPU memory
    planner.py   from core form to a cached plan, and its execution
    recall.py    calls whose plan is known without planning
    small.py     calls for which NumPy's BLAS is the plan; compiled, types in small.pxd
"""

from falcon._core.compiled import load

__compiled__ = load(__name__, "small")  # before anything else imports it
