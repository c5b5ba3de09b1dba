"""Shared definitions: what is to be multiplied, how, and on which machine.

::

    dtypes.py    DType: one row per element type, the only table of types
    arithmetic.py  Arithmetic: float32 multiplied by splits of bfloat16, float64 as float32
    ladder.py    an error that is named: which arithmetic promises it, and what a scheme may grow
    modular.py   Residues: exact products modulo p by floats or integers of few bits
    matrix.py    Matrix: how a matrix lies in memory, on the host or on a GPU
    where.py     in which memory an array is
    problem.py   Problem: what the decision needs to know about a multiplication
    options.py   Options: keywords, settings and environment variables
    environment.py  environment variables: how one is read, those that set no option
    keywords.py  options as keywords of functions: types, signatures, documentation
    config.py    config, set_config: settings of a block, of the process
    method.py    Method, Candidate: a way to multiply a problem, and its predicted time
    plan.py      Plan: how one problem will be multiplied, and why; Backend, the interface
    plan_text.py a plan in words
    rewrite.py   Rewrite: how a product is computed as others; Part, one of them
    reals.py     complex matrices on GPUs as real ones: sizes, copies, the plan
    runner.py    Runner: what runs a plan; batches and cuts by other runners
    sampled.py   entries of a product are compared, and it is made again by the next arithmetic
    quantised.py floats as 8-bit integers: what they promise, what runs them
    residues.py  what runs a product modulo p, and its memory
    bound.py     error bounds of a plan's products, growth of 16-bit schemes
    policy.py    Policy: when a backend's LCMAs are worth comparing, and what they must gain
    rates.py     Rates: measured speeds
    formulas.py  the cost model's formulas; compiled, types in formulas.pxd
    model.py     the cost model of the host's backends: seconds per stage of a method
    observe.py   who is told of every product
    symmetric.py x.T @ x: how it is recognised, copying a triangle
    settle.py    Guard, Measured: what is done to operands before a scheme adds blocks, in order:
    units.py     even out units along K, columns of A against rows of B
    scaling.py   scale rows and columns whose norms differ by too much for an LCMA
    centring.py  subtract means of rows and columns, and add what they make of C
    packed.py    PackedOperand: a right operand that is packed once
    arrays.py    users' operands as NumPy arrays
    fit.py       least squares for measured times
"""
