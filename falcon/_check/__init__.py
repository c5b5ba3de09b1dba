"""`falcon.check`: a self-test of this installation on this machine, without pytest.

::

    run.py       check(), and python -m falcon check: progress, the record file
    steps.py     its steps, in order: which products
    case.py      Case: one product, its operands, the exact product, and what is wrong with C
    result.py    CheckResult: the table, and the record for bug reports
"""
