"""The words that everybody uses: what is to be multiplied, how, and on which machine.

::

    problem.py   Problem: what the decision needs to know of a multiplication
    plan.py      Plan, Option, Candidate, Rates: how it will be multiplied, and why
    backend.py   the contract that backends fulfil
    spread.py    how far the scales of lines differ that an LCMA adds up
    packed.py    PackedOperand: a right operand that is laid out once
    options.py   Options: `falcon.config`, and what the environment says
    locks.py     a lock that a forked child can take
    cpus.py      CPUs that this process may use, memory of the machine
    fit.py       least squares for measured times
    text.py      tables
    compiled.py  whether a compiled module is that of its source
"""
