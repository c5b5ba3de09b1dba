"""Backend "gpu": CUDA kernels generated per scheme, products by cuBLAS; arrays stay where they are.

::

    backend.py    GpuBackend, which fulfils falcon._core.plan.Backend
    layout.py     how a call is cut, and what its workspace holds: made when it is planned
    driver.py     the stages of one multiplication, as steps
    embedded.py   the steps of complex matrices: copies, and those of real ones
    runner.py     the steps of a plan, made once and run for addresses; steps.py: the kinds of steps
    direct.py     such steps, started by the driver instead of CuPy
    adapter.py    operands in GPU memory, as the front sees them
    operands.py   the copies that operands of a call need
    kernels.py    compiled kernels and their launches; geometry.py: sizes of these
    sources.py    CUDA source text: generated definitions, followed by a file of kernels/
    matrix.py     a batch of matrices, an allocation; packed.py: the sums of A and B, a packed B
    arrays.py     CuPy arrays and torch tensors as matrices
    device.py     all that falcon uses of CuPy; cublas.py: of cuBLAS
    fused.py      products of float32 by parts in one kernel, of Hopper GPUs
    available.py  whether CuPy, a GPU and its libraries work here; trials.py: whether more does
    workspaces.py memory of calls, kept for captured graphs
    repaired.py   which problems were repaired, and are classical from then on
    model.py      the cost of a method; rates.py: the measured speeds that it needs
"""
