"""Backend "numpy": any scheme on top of NumPy's own BLAS.

::

    backend.py   NumpyBackend: what it can multiply, and how
    runner.py    a plan, run by np.matmul
    lcma.py      the stages of a scheme: combine, np.matmul, combine
    classical.py the classical algorithm: copies, blocks of operands, beta * c
    residues.py  residues of integers, and sums reduced, modulo p
    original.py  np.matmul itself, whatever has replaced it
    threads.py   limit the threads of NumPy's BLAS during a call
    norms.py     squared norms of rows and columns
    rates.py     measured rates of NumPy for the cost model; the name of its BLAS
"""
