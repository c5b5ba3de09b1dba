"""Products of Dask arrays on falcon; imported only when it is asked for.

::

    matmul, gemm, gram (api.py)
      Grid       grid.py      how the chunks of x and y meet; nothing is rechunked
      GridPlan   plan.py      the plan of a product of chunks, how many products a task adds up
      tasks      graph.py     which chunks each task reads, and to what it adds
      Step       work.py      what a task runs on a worker: `falcon.gemm`'s choice, chunk by chunk

    cluster.py   what a plan knows of the workers
    place.py     placed: which worker computes what
    verify.py    Freivalds' test, chunk by chunk

>>> import dask.array as da, falcon
>>> x = da.ones((300, 200), chunks=100)
>>> float(falcon.dask.matmul(x, x.T).sum().compute(scheduler="synchronous"))
18000000.0
"""

from importlib.util import find_spec

if find_spec("dask") is None:
    raise ModuleNotFoundError("falcon.dask needs Dask: pip install 'dask[array]'", name="dask")

from .api import gemm, gram, matmul
from .place import placed
from .plan import GridPlan, plan
from .verify import verify

__all__ = ["GridPlan", "gemm", "gram", "matmul", "placed", "plan", "verify"]
