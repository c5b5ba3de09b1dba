"""NumPy's own products on falcon: ``a @ b``, np.matmul and what is built on them.

::

    a @ b, np.matmul ----------> inner loops of NumPy's ufunc --\
    np.dot, tensordot,           the entry of np.dot ------------+--> _loops.c --> falcon.matmul
      multi_dot, cov ...

    _loops.c        what asks falcon, and NumPy's own
    switch.py       accelerate(): on and off, in worker processes as well
    site/           what Python imports when such a process starts
    profile.py      profile(): where a program multiplies, and what falcon gains there
    run.py          python -m falcon run
"""
