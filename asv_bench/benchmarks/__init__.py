"""asv benchmarks of falcon; see CONTRIBUTING.md for how to compare two commits.

::

    common.py     shapes, operands that all benchmarks share, what they refuse to run as
    gemm.py       gemm by dtype, shape class, scheme, backend and threads; memory; packed operands
    tracked.py    effective GFLOP/s, ratio to NumPy, rounding errors
    overhead.py   planning and small calls
"""
