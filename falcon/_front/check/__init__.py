"""`falcon.check`: a self-test of this installation on this machine, without pytest.

::

    run.py       check(), and python -m falcon check: progress, the record file
    steps.py     its steps, in order: which products, and whose speeds are compared
    case.py      Case: one product, its operands, the exact product, and what is wrong with C
    result.py    CheckResult: the tables, and the record without paths, host and user names
"""

from .result import CheckResult
from .run import check

__all__ = ["CheckResult", "check"]
