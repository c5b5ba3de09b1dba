"""Z3-symmetric starts for n x n x n, and how their walks read as ordinary schemes.

Sources: G. Ballard, C. Ikenmeyer, J. Landsberg and N. Ryder, "The geometry of rank decompositions
of matrix multiplication II", 2019 (the symmetry); J. Moosbauer and M. Poole, "Flip graphs with
symmetry and new matrix multiplication schemes", 2025 (flips of orbits).
"""

from __future__ import annotations

import random

import numpy as np

from ._core import SymmetricWalker


def start(n: int, rng: random.Random) -> SymmetricWalker:
    """Begin a walk at the classical algorithm, some of its cubes fused at random.

    Two cubes are one cube and two orbits, ``a^3 + b^3 = (a + b)^3 + [a, a, b] + [a, b, b]``
    modulo 2; the number of cubes decides which ranks modulo 3 can be reached.
    """
    bit = [[1 << (row * n + column) for column in range(n)] for row in range(n)]
    orbits = []
    for i in range(n):
        for l in range(n):
            for j in range(n):
                # a[i,l] b[l,j] c[j,i]; one representative per orbit of rotations of (i, l, j)
                if (i, l, j) == min((i, l, j), (l, j, i), (j, i, l)) and not i == l == j:
                    orbits.append((bit[i][l], bit[l][j], bit[j][i]))
    cubes = [bit[i][i] for i in range(n)]
    rng.shuffle(cubes)
    for _ in range(rng.randrange(n)):
        a, b = cubes.pop(), cubes.pop()
        cubes.append(a ^ b)
        orbits += [(a, a, b), (a, b, b)]
        rng.shuffle(cubes)
    return SymmetricWalker(
        np.array(orbits, np.uint64), np.array(cubes, np.uint64), rng.getrandbits(64)
    )


def terms_of(walker: SymmetricWalker, n: int) -> np.ndarray:
    """Masks (R, 3, 2) of the scheme, w turned back from the trace form."""
    trace = walker.terms
    places = np.arange(n * n, dtype=np.uint64)
    bits = trace[:, 2, None] >> places & np.uint64(1)
    turned = bits.reshape(-1, n, n).transpose(0, 2, 1).reshape(-1, n * n)
    terms = np.zeros((len(trace), 3, 2), np.uint64)
    terms[:, :2, 0] = trace[:, :2]
    terms[:, 2, 0] = np.left_shift(turned, places).sum(1, dtype=np.uint64)
    return terms
