"""NumPy's own products on falcon: ``a @ b``, np.matmul and what is built on them.

::

    a @ b, np.matmul ----------> inner loops of NumPy's ufunc (_loops.c) --> falcon.matmul
    np.dot, tensordot,           a function in NumPy's modules (functions.py) --> np.matmul
      multi_dot, cov ...

    _loops.c        the loops that ask falcon, and NumPy's own
    functions.py    np.dot, which calls BLAS itself
    switch.py       accelerate(): on and off
    workers.py      worker processes switch it on as well
    site/           what Python imports when such a process starts
    profile.py      profile(): where a program multiplies, and what falcon gains there
    run.py          python -m falcon run
"""

from .profile import Profile, profile
from .switch import accelerate

__all__ = ["Profile", "accelerate", "profile"]
