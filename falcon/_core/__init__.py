"""The words that everybody uses: what is to be multiplied, how, and on which machine.

::

    problem.py   Problem: what the decision needs to know of a multiplication
    plan.py      Plan, Option, Candidate, Rates: how it will be multiplied; what backends fulfil
    packed.py    PackedOperand: a right operand that is laid out once
    options.py   Settings: `falcon.config`, and what the environment says
    fit.py       least squares for measured times
"""
