"""The words that everybody uses: what is to be multiplied, how, and on which machine.

::

    dtypes.py    DType: one row per element type, the only table of types
    problem.py   Problem: what the decision needs to know of a multiplication
    options.py   Options: keywords, settings, and what the environment says
    keywords.py  options as keywords of functions: types, signatures, documentation
    config.py    config, set_config: settings of a block, of the process
    threads.py   limits of the number of threads, threadpoolctl's too
    plan.py      Plan, Option, Candidate: how it will be multiplied, and why
    bound.py     what the errors of a plan's products stay below
    backend.py   the contract that backends fulfil
    policy.py    Policy: when a backend's LCMAs are worth comparing, and what they must gain
    rates.py     Rates: measured speeds
    formulas.py  the cost model's formulas; compiled, types in formulas.pxd
    model.py     the cost model of the host's backends: seconds per stage of an option
    symmetric.py x.T @ x: how it is known, triangles
    look.py      the norms of operands before an LCMA runs, and how they are scaled
    spread.py    how far the scales of lines differ that an LCMA adds up, and scaling
    packed.py    PackedOperand: a right operand that is laid out once
    arrays.py    what users hand in, as NumPy arrays
    checks.py    values of options, parsed and checked
    locks.py     what a fork changes: a lock that the child can take
    cpus.py      CPUs and memory that this process may use
    fit.py       least squares for measured times
    timing.py    interleaved timings, and how well their ratios are known
    text.py      tables, misspelt words
    compiled.py  whether a compiled module is that of its source
"""

from .compiled import load

__compiled__ = load(__name__, "formulas")  # before anything else imports it
