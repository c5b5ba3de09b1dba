"""Backend "gpu": CUDA kernels generated per scheme, products by cuBLAS; arrays stay where they are.

::

    backend.py    the contract of falcon._core.backend.Backend
    driver.py     the stages of one multiplication, as steps
    steps.py      steps as data, and the one place that starts them, in the current stream
    replay.py     calls like earlier ones: their steps again, at other addresses
    operands.py   the operands of a call, and the copies that some need
    batches.py    batches of matrices by one call of cuBLAS
    geometry.py   sizes of blocks, chunks, buffers and launches
    kernels.py    compiled kernels and their launches
    sources.py    CUDA source text: kernels/*.cu behind what is generated for each
    matrix.py     a matrix in GPU memory; packed.py: the sums of B
    arrays.py     CuPy arrays and torch tensors as matrices; where.py: where an array is
    device.py     all that is used of CuPy; cublas.py: of cuBLAS
    available.py  whether all that works here
    model.py      the cost of an option; rates.py: the speeds that it needs, measured
"""
