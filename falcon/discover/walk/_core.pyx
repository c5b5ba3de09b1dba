# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False
"""Binding of the C search core (src/): walks over schemes held as bit masks.

Terms are uint64 arrays of shape (R, 3, 2): per factor one mask of the entries that are +1 and one
of those that are -1; entry (row, column) is bit ``row * columns + column``. W belongs to C itself.
Modulo 2 the second mask is empty. Every walk releases the GIL: threads search side by side.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np


cdef extern from "flipgraph.h" nogil:
    int FG_MAX_RANK
    ctypedef struct fg_state:
        int rank
        int64_t flips
    int fg_load(fg_state *, const int *, int, int, const uint64_t *, uint64_t)
    void fg_store(const fg_state *, uint64_t *)
    int fg_walk(fg_state *, int64_t, int64_t, int)
    int64_t fg_anneal(fg_state *, int64_t, int, double, double, uint64_t *)
    int64_t fg_violations(const int *, int, int, const uint64_t *)

cdef extern from "symmetric.h" nogil:
    ctypedef struct fz_state:
        int orbits
        int cubes
        fg_state slots
    int FZ_MAX_CUBES
    int fz_load(fz_state *, int, const uint64_t *, int, const uint64_t *, uint64_t)
    int fz_store(const fz_state *, uint64_t *)
    int fz_walk(fz_state *, int64_t, int64_t, int)

cdef extern from "sums.h" nogil:
    ctypedef struct cse_pair:
        int x "x"
        int y "y"
        int ratio "ratio"
    int cse_search(const signed char *, int, int, int, uint64_t, cse_pair *, int *, int)

MAX_RANK = FG_MAX_RANK - 8
MAX_ORBITS = (FG_MAX_RANK - 24) // 3
MAX_CUBES = FZ_MAX_CUBES


cdef int _dims(object dims, int *out) except -1:
    out[0], out[1], out[2] = dims
    for x, y in ((out[0], out[1]), (out[1], out[2]), (out[0], out[2])):
        if x < 1 or y < 1 or x * y > 64:
            raise ValueError(f"format {tuple(dims)}: a factor has {x * y} entries, 1 to 64 fit")
    return 0


def violations(dims, terms, *, mod2=False):
    """Number of Brent equations that `terms` violates: zero proves the scheme."""
    cdef int sizes[3]
    cdef uint64_t[:, :, ::1] view = np.ascontiguousarray(terms, np.uint64)
    cdef int64_t wrong
    cdef int ring = bool(mod2)
    cdef int rank = view.shape[0]
    _dims(dims, sizes)
    if view.shape[1] != 3 or view.shape[2] != 2 or rank < 1:
        raise ValueError(f"terms has shape {np.shape(terms)}; expected (R, 3, 2)")
    with nogil:
        wrong = fg_violations(sizes, ring, rank, &view[0, 0, 0])
    if wrong < 0:
        raise MemoryError
    return wrong


cdef class Walker:
    """One walk: a scheme, a random number generator, and the moves of the flip graph.

    Parameters
    ----------
    dims : (int, int, int)
        The format m, k, n.
    terms : ndarray of uint64, shape (R, 3, 2)
    seed : int
        The walk is a function of its terms and this number.
    mod2 : bool
        Walk modulo 2 instead of over {-1, 0, 1}.
    """

    cdef fg_state *_state

    def __cinit__(self):
        self._state = <fg_state *>malloc(sizeof(fg_state))
        if self._state == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._state)

    def __init__(self, dims, terms, seed, *, mod2=False):
        cdef int sizes[3]
        cdef uint64_t[:, :, ::1] view = np.ascontiguousarray(terms, np.uint64)
        _dims(dims, sizes)
        if view.shape[1] != 3 or view.shape[2] != 2 or not 1 <= view.shape[0] <= MAX_RANK:
            raise ValueError(
                f"terms has shape {np.shape(terms)}; expected (R, 3, 2) with 1 <= R <= {MAX_RANK}"
            )
        if fg_load(self._state, sizes, bool(mod2), <int>view.shape[0], &view[0, 0, 0],
                   <uint64_t>(seed & 0xFFFFFFFFFFFFFFFF)):
            raise ValueError("a factor is zero, or an entry is both +1 and -1")

    @property
    def rank(self):
        """Number of terms."""
        return self._state.rank

    @property
    def flips(self):
        """Accepted flips so far."""
        return self._state.flips

    @property
    def terms(self):
        """The scheme as it stands, shape (R, 3, 2)."""
        out = np.empty((self._state.rank, 3, 2), np.uint64)
        cdef uint64_t[:, :, ::1] view = out
        fg_store(self._state, &view[0, 0, 0])
        return out

    def walk(self, int64_t flips, *, int64_t plus_after=20_000, int margin=2):
        """Flip until the rank falls below that at entry (True) or `flips` are made (False).

        After every `plus_after` flips without gain a plus-transition adds a term, up to `margin`
        terms above the rank at entry.
        """
        cdef int outcome
        with nogil:
            outcome = fg_walk(self._state, flips, plus_after, margin)
        return outcome == 1

    def anneal(self, int64_t moves, *, phi=False, double hot=1.6, double cold=0.25):
        """Lower the number of non-zeros (or Phi) at fixed rank; return ``(cost, best terms)``.

        The cost is -1 where the rank has fallen; the terms are then those of the lower rank.
        """
        out = np.zeros((self._state.rank, 3, 2), np.uint64)
        cdef uint64_t[:, :, ::1] view = out
        cdef int64_t cost
        cdef int objective = bool(phi)
        if not 0 < cold <= hot:
            raise ValueError(f"temperatures {hot}, {cold}: expected hot >= cold > 0")
        with nogil:
            cost = fg_anneal(self._state, moves, objective, hot, cold, &view[0, 0, 0])
        return (cost, out) if cost >= 0 else (cost, self.terms)


cdef class SymmetricWalker:
    """A Z3-symmetric walk modulo 2 over n x n x n (w transposed: the trace form).

    Parameters
    ----------
    orbits : ndarray of uint64, shape (P, 3)
        One representative (a, b, c) per orbit.
    cubes : ndarray of uint64, shape (Q,)
    seed : int
    """

    cdef fz_state *_state

    def __cinit__(self):
        self._state = <fz_state *>malloc(sizeof(fz_state))
        if self._state == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._state)

    def __init__(self, orbits, cubes, seed):
        cdef uint64_t[:, ::1] some = np.ascontiguousarray(orbits, np.uint64)
        # One more, so that an empty array has an address.
        padded = np.append(np.asarray(cubes, np.uint64).ravel(), np.uint64(0))
        cdef uint64_t[::1] single = padded
        if some.shape[1] != 3 or not 1 <= some.shape[0] <= MAX_ORBITS:
            raise ValueError(f"orbits has shape {np.shape(orbits)}; expected (P, 3)")
        if single.shape[0] - 1 > MAX_CUBES:
            raise ValueError(f"{single.shape[0] - 1} cubes; at most {MAX_CUBES} are supported")
        if fz_load(self._state, <int>some.shape[0], &some[0, 0], <int>single.shape[0] - 1,
                   &single[0], <uint64_t>(seed & 0xFFFFFFFFFFFFFFFF)):
            raise ValueError("a factor is zero")

    @property
    def rank(self):
        """Number of terms: cubes and three per orbit."""
        return 3 * self._state.orbits + self._state.cubes

    @property
    def flips(self):
        """Accepted flips of orbits so far."""
        return self._state.slots.flips

    @property
    def orbits(self):
        """One representative per orbit, shape (P, 3)."""
        return self._all()[self._state.cubes::3]

    @property
    def cubes(self):
        """The cubes, shape (Q,)."""
        return self._all()[:self._state.cubes, 0]

    def _all(self):
        out = np.empty((self.rank, 3), np.uint64)
        cdef uint64_t[:, ::1] view = out
        fz_store(self._state, &view[0, 0])
        return out

    @property
    def terms(self):
        """All terms in the trace form, as masks, shape (R, 3)."""
        return self._all()

    def walk(self, int64_t flips, *, int64_t plus_after=2_000, int margin=2):
        """As `Walker.walk`; `margin` counts orbits."""
        cdef int outcome
        with nogil:
            outcome = fz_walk(self._state, flips, plus_after, margin)
        return outcome == 1


def share(matrix, *, int rounds, seed, pairs=()):
    """Search for a program with few additions for the rows of a ternary matrix.

    Parameters
    ----------
    matrix : array_like, shape (outputs, inputs), entries -1, 0, 1
    rounds : int
        Completions that are tried; zero only replays `pairs`.
    seed : int
    pairs : sequence of (int, int, int)
        A program to begin with: temporaries ``x + ratio * y``, x < y, in order.

    Returns
    -------
    additions : int
    pairs : list of (int, int, int)
    """
    cdef signed char[:, ::1] view = np.ascontiguousarray(matrix, np.int8)
    cdef int rows = view.shape[0], columns = view.shape[1], additions
    # A temporary costs one addition and saves two at least: there are no more than half as many.
    cdef int room = int(np.maximum(np.count_nonzero(matrix, axis=1) - 1, 0).sum()) // 2 + 1
    cdef int count = len(pairs)
    cdef uint64_t start = <uint64_t>(seed & 0xFFFFFFFFFFFFFFFF)
    room = min(room, 700)
    if count > room or rounds < 0:
        raise ValueError(f"{count} pairs and {rounds} rounds; expected at most {room}, 0 or more")
    cdef cse_pair *held = <cse_pair *>malloc((room + 1) * sizeof(cse_pair))
    if held == NULL:
        raise MemoryError
    try:
        for place, (x, y, ratio) in enumerate(pairs):
            if not 0 <= x < y < columns + place or ratio not in (1, -1):
                raise ValueError(f"pair {place} is {(x, y, ratio)}: not earlier variables in order")
            held[place].x, held[place].y, held[place].ratio = x, y, ratio
        with nogil:
            additions = cse_search(&view[0, 0], rows, columns, rounds, start, held, &count, room)
        if additions < 0:
            raise ValueError(f"a matrix of {rows} x {columns} is too large")
        return additions, [(held[x].x, held[x].y, held[x].ratio) for x in range(count)]
    finally:
        free(held)
