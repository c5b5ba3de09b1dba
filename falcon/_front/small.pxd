# small.pxd - types for small.py, which Cython compiles.
cimport cython


# Checksum of the source, given by setup.py: an attribute of the module (falcon/_core/compiled.py).
cdef extern from *:
    cpdef enum:
        SOURCE_CRC32


@cython.locals(
    shape=tuple, other=tuple, M=Py_ssize_t, K=Py_ssize_t, N=Py_ssize_t, rows=Py_ssize_t,
    left=long, right=long)
cpdef bint is_small(a, b, out)
