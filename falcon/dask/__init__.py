"""Products of Dask arrays on falcon; imported only when it is asked for.

::

    api.py       matmul, gemm: arguments            verify.py    Freivalds' test, chunk by chunk
    plan.py      plan: which way, and why           model.py     what a way costs: bytes, seconds
    grid.py      how chunks of x and y meet         cluster.py   what is known of the workers
    graph.py     the plain grid as tasks            blocks.py    a scheme over the grid as tasks
    work.py      what tasks of products run         sums.py      what those of a scheme run
    place.py     placed: which worker computes what

>>> import dask.array as da, falcon
>>> x = da.ones((300, 200), chunks=100)
>>> float(falcon.dask.matmul(x, x.T).sum().compute(scheduler="synchronous"))
18000000.0
"""

from .api import gemm, matmul
from .place import placed
from .plan import GridPlan, plan
from .verify import verify

__all__ = ["GridPlan", "gemm", "matmul", "placed", "plan", "verify"]
