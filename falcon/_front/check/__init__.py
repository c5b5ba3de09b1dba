"""`falcon.check`: a self-test of this installation on this machine, without pytest.

::

    run.py       check(), and python -m falcon check: progress, the record file
    steps.py     its steps, in order
    cases.py     Case: what multiplies which numbers; the cases of each step
    compare.py   operands, their product in more precision, and what is wrong with C
    speeds.py    a comparison with NumPy, and with the predictions
    result.py    CheckResult: the tables
    record.py    the machine and the versions, without paths, host and user names
"""

from .result import CheckResult
from .run import check

__all__ = ["CheckResult", "check"]
