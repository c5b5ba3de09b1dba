# _norms.pxi - the part of _core.pyx for the pass over norms, and over means.
from falcon._core.dtypes import dtype_of


def norms(x, sums, int axis=0, int threads=1, isa=None, kind=None, cuts=None, totals=None,
          units=None):
    """Squared 2-norms of the rows (axis 0) or columns (axis 1) of x into `sums`, float64.

    kind: the dtype of DTYPES that x's elements are; None: the one for its NumPy dtype.
    Inf where a square overflows the dtype; 0 where all of a line are 0 or underflow.  Twice as many
    sums: those of odd steps, which must be neighbours in memory, are the second half.
    cuts: where segments of all lines begin and end, intp from 0 on.  totals: float64, for the sums
    of their elements, segments x lines, and for what rounding took from each.
    units: accumulators, by which all elements of a step are multiplied before.
    """
    cdef Py_buffer v[5]  # x, sums, cuts, totals, units
    cdef ptrdiff_t rs, cs, lines, steps
    cdef int segments = 0
    cdef const void *start
    cdef const void *by
    cdef const falcon_kernel *k = kernel(
        isa, DTYPES.index(dtype_of(x.dtype).engine if kind is None else kind))
    cdef double *odd
    memset(&v, 0, sizeof(v))
    try:
        lines, steps = x.shape
        start = take_matrix("x", x, 0, &v[0], lines, steps, k.elem, 1, &rs, &cs)
        if axis:
            lines, steps, rs, cs = steps, lines, cs, rs
        PyObject_GetBuffer(sums, &v[1], PyBUF_SIMPLE | PyBUF_WRITABLE)
        odd = <double *>v[1].buf + lines if v[1].len == lines * 16 and cs == 1 else NULL
        if v[1].len != (8 if odd == NULL else 16) * lines or <uintptr_t>v[1].buf % 8:
            raise ValueError(f"sums hold {v[1].len} bytes; expected {lines * 8}, aligned to 8")
        if totals is not None:
            segments = len(cuts) - 1
            if cuts[0] != 0 or cuts[segments] != steps or (cuts[1:] < cuts[:segments]).any():
                raise ValueError(f"cuts {cuts} do not ascend from 0 to {steps}")
            PyObject_GetBuffer(cuts, &v[2], PyBUF_SIMPLE)
            PyObject_GetBuffer(totals, &v[3], PyBUF_SIMPLE | PyBUF_WRITABLE)
            nbytes = (segments + 1) * <Py_ssize_t>sizeof(ptrdiff_t)
            if v[2].len != nbytes or v[3].len != 16 * segments * lines:
                raise ValueError(f"totals hold {v[3].len} bytes; expected {16 * segments * lines}")
        rows_of("units", units, &v[4], max(steps, 1), k.acc, &by)
        with nogil:
            falcon_norms(k, start, lines, steps, rs, cs, threads, by, <double *>v[1].buf, odd,
                         <const ptrdiff_t *>v[2].buf, segments, <double *>v[3].buf)
    finally:
        release(v, 5)


def roundings(x, found, ptrdiff_t slice, int axis=0, int threads=1, isa=None, kind=None,
              int parts=1):
    """Squared 2-norms of the rows (axis 0) or columns (axis 1) of x, and the roundings of each.

    found: float64, 4 x lines; the last two rows are room.  slice: steps that are summed from 0.
    parts: elements of a step, 2 where real and imaginary ones lie in turn.
    """
    cdef Py_buffer v[2]
    cdef ptrdiff_t rs, cs, lines, steps
    cdef const void *start
    cdef const falcon_kernel *k = kernel(
        isa, DTYPES.index(dtype_of(x.dtype).engine if kind is None else kind))
    memset(&v, 0, sizeof(v))
    try:
        lines, steps = x.shape
        start = take_matrix("x", x, 0, &v[0], lines, steps, k.elem, 1, &rs, &cs)
        if axis:
            lines, steps, rs, cs = steps, lines, cs, rs
        PyObject_GetBuffer(found, &v[1], PyBUF_SIMPLE | PyBUF_WRITABLE)
        if v[1].len != 32 * lines or <uintptr_t>v[1].buf % 8:
            raise ValueError(f"found holds {v[1].len} bytes; expected {32 * lines}, aligned to 8")
        with nogil:
            falcon_roundings(k, start, lines, steps, rs, cs, threads, slice * parts, parts,
                             <double *>v[1].buf)
    finally:
        release(v, 2)
