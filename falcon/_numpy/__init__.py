"""Backend "numpy": any scheme on top of NumPy's own BLAS.

::

    backend.py   NumpyBackend: combine, np.matmul, combine
    original.py  np.matmul itself, whatever has replaced it
    classical.py the classical algorithm: copies, parts of operands, beta * c
    threads.py   limit the threads of NumPy's BLAS during a call
    norms.py     squared norms of rows and columns
    rates.py     measured rates of NumPy for the cost model; the name of its BLAS
"""
