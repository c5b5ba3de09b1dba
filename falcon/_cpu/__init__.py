"""Backend "cpu": falcon's own kernels, Group-Parallel execution on chip.

::

    backend.py    the contract of falcon._core.backend.Backend: plan, execute, measure
    extension.py  the compiled extension: is it here, which instruction set it uses
    operands.py   arrays as the engine takes them; triangles and mirror images of C
    packed.py     B laid out once, with a fingerprint of its layout
    measure.py, profile.py, peak.py   how fast kernels and stages are
    rounding.py   sums of elements in panels: where they are exact, what rounding them costs
    programs.py   Scheme -> the engine's operations and scatter lists
    pool.py       workspaces that outlive a call
    _core.pyx     thin binding: check, take pointers, release the GIL, one C call
    src/          C: engine (passes, threads), kernels (per type and instruction set), machine
    sources.py    what is compiled, with which flags, for which machines; who may use whose symbols
"""
