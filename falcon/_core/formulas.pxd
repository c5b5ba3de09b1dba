# formulas.pxd - types for formulas.py, which Cython compiles.
cimport cython


cdef class Machine:
    cdef double overlap, cache, overhead, mr, nr, slice, loss, sigma_a, sigma_b, sigma_c
    cdef double far_sigma_a, far_sigma_b, far_sigma_c, surface_cache
    cdef double multiply, add, update, update_far, disturbance, long_block, stream, move, store
    cdef double near_a, far_a, near_b, far_b


cdef class Counts:
    cdef readonly double m, k, n, rank, u, v, w


cdef class Cut:
    cdef double M, N, K, itemsize, threads
    cdef bint packed, fused, smaller
    cdef double chunk_m, chunk_n, chunk_k, again_a, again_b, again_c


@cython.locals(
    rows=double, row_tiles=double, chunks_m=double, part_m=double, tiles_m=double,
    columns=double, column_tiles=double, chunks_n=double, part_n=double, tiles_n=double,
    inner=double, slices=double, chunks_k=double, part_k=double, _=double, unit=double,
    a=double, b=double, c=double, padded=double, products=double, tiles=double,
    all_a=double, all_b=double, all_c=double, moved=double, multiply=double,
    operands=double, surface=double, distant=double, near=cython.bint,
    move_a=double, move_b=double, first=double, second=double,
    updates=double, far=double, adding=double, storing=double, last=double)
cpdef (double, double, double, double, double) stages(Machine machine, Counts x, Cut cut) noexcept


@cython.locals(
    number=Py_ssize_t, first=double, second=double, multiply=double, last=double, start=double,
    total=double, found=list)
cpdef list within(Machine machine, tuple schemes, Cut cut, double limit)


@cython.locals(
    part=double, filled=double, full=double, rest=double, last=double, chunks=double)
cdef (double, double, double, double, double) sliced(
    double size, double chunk, double parts, double unit) noexcept


cdef double up(double x, double y) noexcept


@cython.locals(larger=double)
cdef double both(double arithmetic, double memory, double overlap) noexcept
