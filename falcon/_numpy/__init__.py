"""Backend "numpy": any scheme on top of NumPy's own BLAS.

::

    backend.py   plan and execute: combine, np.matmul, combine
    classical.py np.matmul, with what is done to operands and product around it
    threads.py   NumPy's BLAS kept to the threads of a call
    norms.py     whether operands are too uneven for a scheme
    rates.py     what the cost model needs to know of NumPy, measured; which BLAS it has
"""
