"""The words that everybody uses: what is to be multiplied, how, and on which machine.

::

    dtypes.py    DType: one row per element type, the only table of types
    problem.py   Problem: what the decision needs to know of a multiplication
    options.py   Options: keywords, `falcon.config`, and what the environment says
    plan.py      Plan, Option, Candidate: how it will be multiplied, and why
    backend.py   the contract that backends fulfil
    policy.py    Policy: when a backend's LCMAs are worth comparing, and what they must gain
    rates.py     Rates: measured speeds
    formulas.py  the cost model's formulas; compiled, types in formulas.pxd
    model.py     the cost model of the host's backends: seconds per stage of an option
    look.py      the norms of operands before an LCMA runs, and how they are scaled
    spread.py    how far the scales of lines differ that an LCMA adds up, and scaling
    packed.py    PackedOperand: a right operand that is laid out once
    checks.py    values of options, parsed and checked
    locks.py     a lock that a forked child can take
    cpus.py      CPUs that this process may use, memory of the machine
    fit.py       least squares for measured times
    timing.py    interleaved timings, and how well their ratios are known
    text.py      tables
    compiled.py  whether a compiled module is that of its source
"""

from .compiled import load

__compiled__ = load(__name__, "formulas")  # before anything else imports it
