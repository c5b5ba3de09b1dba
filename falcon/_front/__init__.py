"""The front: the only place that sees a user's arguments.

::

    gemm.py      gemm                           matmul.py    matmul
    gram.py      gram                           pack.py      pack
    plan.py      plan
    verify.py    verify                         info.py      show_config
    tune.py      machine, tune, compare
    warm.py      warm_up
    families/    whose arrays are these: NumPy's, or on a device
    validate.py  arguments, checked in Python
    arithmetic.py  of which type a product is: `dtype=`
    execute.py   a product in core form: its Problem, its plan, its execution
    freivalds.py the test of a product in O(n^2), by rows
    planner.py   from what was asked for to a cached plan
    recall.py    calls whose plan is known without planning; repeat.py: on a GPU, their steps too
    small.py     calls for which NumPy's BLAS is the plan; compiled, types in small.pxd
"""

from falcon._core.compiled import load

__compiled__ = load(__name__, "small")  # before anything else imports it
