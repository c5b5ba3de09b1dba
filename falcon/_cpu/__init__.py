"""Backend "cpu": falcon's own kernels, Group-Parallel execution on chip.

::

    backend.py    the contract of falcon._core.plan.Backend: what it can multiply, and how
    runner.py     a plan, run by the engine
    blocking.py   layouts: how the engine cuts a problem, worked out once, when a call is planned
    extension.py  the compiled extension: whether it can be used, with which instruction set
    operands.py   arrays as the engine takes them; triangles and mirror images of C
    norms.py      norms of operands before a scheme of "auto" runs
    rounding.py   sums of elements in panels: where they are exact, the error of rounding them
    each.py       every kernel by itself, and a test of it
    measure.py, peak.py   how fast kernels and stages are
    programs.py   Scheme -> the engine's operations and steps
    residues.py   the passes before and after a product modulo p
    pool.py       workspaces that are kept between calls
    share.py      NumPy's and SciPy's OpenBLAS run on falcon's threads
    _core.pyx     thin binding: plan a layout; check, take pointers, release the GIL, one C call
    src/          C: engine (passes, threads), kernels (per type and instruction set), machine
    sources.py    what is compiled, with which flags, for which machines; who may use whose symbols
"""
