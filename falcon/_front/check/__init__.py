"""`falcon.check`: a self-test of this installation on this machine, without pytest.

::

    run.py       check()
    steps.py     its steps, in order: the products of each
    case.py      Case: what multiplies which numbers; how a case is multiplied
    compare.py   operands, their product in more precision, and what is wrong with C
    speeds.py    a comparison with NumPy, and with the predictions
    result.py    CheckResult: the tables
    record.py    the machine and the versions, without paths, host and user names
    command.py   python -m falcon check
"""

from .result import CheckResult
from .run import check

__all__ = ["CheckResult", "check"]
