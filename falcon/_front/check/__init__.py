"""`falcon.check`: a self-test of this installation on this machine, without pytest.

::

    run.py      check()
    steps.py    its steps, in order
    exact.py    operands whose products are known exactly, or far beyond float64
    trial.py    what a step finds: products, errors over bounds, failures
    kernels.py  each kernel by itself; the same bits with any number of threads
    calls.py    whole calls on every backend: all types, NaN and Inf, batches, a packed B
    large.py    a product larger than the caches
    speeds.py   a comparison with NumPy, and with the predictions
    result.py   CheckResult: the tables
    record.py   the machine and the versions, without paths, host and user names
    command.py  python -m falcon check
"""

from .result import CheckResult
from .run import check

__all__ = ["CheckResult", "check"]
