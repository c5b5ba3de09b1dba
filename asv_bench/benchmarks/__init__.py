"""asv benchmarks of falcon; see CONTRIBUTING.md for how to compare two commits.

::

    common.py     shapes and operands of all benchmarks, and when they are skipped or refuse to run
    gemm.py       gemm by dtype, shape class, scheme, backend and threads; memory; packed operands
    tracked.py    effective GFLOP/s, ratio to NumPy, rounding errors
    overhead.py   import, planning, first and small calls
"""
