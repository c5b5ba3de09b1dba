"""What the tests of the search share: a second, slow check of schemes in masks."""

import itertools

import numpy as np

from falcon.discover.walk import masks


def reached(worker, dims, rank, steps):
    """The least rank of a worker after so many steps, or at that rank; all finds are schemes."""
    for _ in range(steps):
        assert all(residual(find.terms, dims) == 0 for find in worker.step())
        if worker.best <= rank:
            break
    return worker.best


def residual(terms, dims, mod2=False):
    """Brent equations that fail, by NumPy's einsum on the whole tensor."""
    m, k, n = dims
    u, v, w = (x.astype(np.int64) for x in masks.arrays_of(terms, dims))
    got = np.einsum("rab,rcd,ref->abcdef", u, v, w)
    wanted = np.zeros_like(got)
    for i, l, j in itertools.product(range(m), range(k), range(n)):
        wanted[i, l, l, j, i, j] = 1
    difference = (got - wanted) % 2 if mod2 else got - wanted
    return int(np.count_nonzero(difference))
