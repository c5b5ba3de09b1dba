# formulas.pxd - types for formulas.py, which Cython compiles.
cimport cython


cdef class Machine:
    cdef double overlap, mr, nr, multiply, add, move


cdef class Counts:
    cdef readonly double m, k, n, rank, u, v, w


cdef class Cut:
    cdef double M, N, K, threads
    cdef bint packed
    cdef double chunk_m, chunk_n, chunk_k, again_a, again_b, again_c


@cython.locals(
    rows=double, row_tiles=double, chunks_m=double, tiles_m=double,
    columns=double, column_tiles=double, chunks_n=double, tiles_n=double,
    inner=double, chunks_k=double, _=double, a=double, b=double, c=double,
    products=double, tiles=double, moved=double, multiply=double,
    first=double, second=double, last=double)
cpdef (double, double, double, double) stages(Machine machine, Counts x, Cut cut) noexcept


@cython.locals(
    number=Py_ssize_t, first=double, second=double, multiply=double, last=double,
    total=double, found=list)
cpdef list within(
    Machine machine, tuple schemes, Cut cut, double limit, double room=*, double least=*,
    double most=*)


@cython.locals(
    rows=double, columns=double, inner=double, best=double, again_a=double, again_c=double,
    part=double, lines=double, seconds=double)
cdef double passes(
    Counts x, Cut cut, double first, double last, double room, double least, double most) noexcept


@cython.locals(
    part=double, filled=double, full=double, rest=double, last=double, chunks=double)
cdef (double, double, double, double) sliced(
    double size, double chunk, double parts, double unit) noexcept


cdef double up(double x, double y) noexcept


@cython.locals(larger=double)
cdef double both(double arithmetic, double memory, double overlap) noexcept
