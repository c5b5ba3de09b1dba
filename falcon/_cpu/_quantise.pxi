# _quantise.pxi - the part of _core.pyx for floats as 8-bit integers.


def quantise(x, to, numbers, int threads=1, isa=None):
    """Write lines of floats as int8, of which the largest is 127, and their largest magnitudes.

    x: lines x steps, float32 or float64; one of its strides is that of its elements.
    to: as many int8, with that axis contiguous.
    numbers: float64, 4 x lines: the magnitudes, and sums: of the squares of the integers, of what
    rounding took times the elements in their unit, and of what it took.
    """
    cdef Py_buffer v[3]
    cdef falcon_bytes q
    cdef ptrdiff_t rs, cs
    cdef const falcon_kernel *k = kernel(isa, DTYPES.index("f64"))
    memset(&v, 0, sizeof(v))
    try:
        q.lines, q.len = x.shape
        q.is_double = x.dtype == "float64"
        q.x = take_matrix("x", x, 0, &v[0], q.lines, q.len, x.itemsize, 1, &q.line_stride,
                          &q.k_stride)
        q.to = <signed char *>take_matrix("to", to, PyBUF_WRITABLE, &v[1], q.lines, q.len, 1, 1,
                                          &rs, &cs)
        if not (q.k_stride == 1 and cs == 1 or q.line_stride == 1 and rs == 1):
            raise ValueError(f"strides {x.strides} and {to.strides}")
        PyObject_GetBuffer(numbers, &v[2], PyBUF_SIMPLE | PyBUF_WRITABLE)
        if v[2].len != 32 * q.lines or q.len > FALCON_BYTE_STEPS:
            raise ValueError(f"numbers hold {v[2].len} bytes; expected {32 * q.lines}; "
                             f"{q.len} steps; expected at most {FALCON_BYTE_STEPS}")
        q.found = <double *>v[2].buf
        with nogil:
            falcon_quantise(k, &q, threads)
    finally:
        release(v, 3)


def from_bytes(x, of_rows, of_columns, c, double beta=0, int threads=1, isa=None):
    """Write C = of_rows * x * of_columns + beta C, where x is int32, by rows, and C of floats."""
    cdef Py_buffer v[4]
    cdef falcon_products q
    cdef ptrdiff_t rs, cs
    cdef const falcon_kernel *k = kernel(isa, DTYPES.index("f64"))
    memset(&v, 0, sizeof(v))
    try:
        q.rows, q.columns = x.shape
        q.is_double, q.beta = c.dtype == "float64", beta
        q.x = <const int *>take_matrix("x", x, 0, &v[0], q.rows, q.columns, 4, 1, &rs, &cs)
        q.c = take_matrix("c", c, PyBUF_WRITABLE, &v[1], q.rows, q.columns, c.itemsize, 1,
                          &q.row_stride, &q.column_stride)
        PyObject_GetBuffer(of_rows, &v[2], PyBUF_SIMPLE)
        PyObject_GetBuffer(of_columns, &v[3], PyBUF_SIMPLE)
        if v[2].len != 8 * q.rows or v[3].len != 8 * q.columns or cs != 1 or rs != q.columns:
            raise ValueError(f"{v[2].len} and {v[3].len} bytes of scales; expected 8 for "
                             f"each line of {x.shape}, by rows")
        q.of_rows, q.of_columns = <const double *>v[2].buf, <const double *>v[3].buf
        with nogil:
            falcon_from_bytes(k, &q, threads)
    finally:
        release(v, 4)


def peaks(c, by, found, int threads=1, isa=None):
    """Write the largest magnitudes of the rows of c, times `by`, to `found`, float64."""
    cdef Py_buffer v[3]
    cdef falcon_peaks q
    cdef ptrdiff_t cs
    cdef const falcon_kernel *k = kernel(isa, DTYPES.index("f64"))
    memset(&v, 0, sizeof(v))
    try:
        q.rows, q.columns = c.shape
        q.is_double = c.dtype == "float64"
        q.c = take_matrix("c", c, 0, &v[0], q.rows, q.columns, c.itemsize, 1, &q.row_stride, &cs)
        PyObject_GetBuffer(by, &v[1], PyBUF_SIMPLE)
        PyObject_GetBuffer(found, &v[2], PyBUF_SIMPLE | PyBUF_WRITABLE)
        if v[1].len != c.itemsize * q.columns or v[2].len != 8 * q.rows or cs != 1:
            raise ValueError(f"by and found hold {v[1].len} and {v[2].len} bytes; expected "
                             f"{c.itemsize * q.columns} and {8 * q.rows}, of rows of {c.shape}")
        q.by, q.peaks = v[1].buf, <double *>v[2].buf
        with nogil:
            falcon_peaks_of(k, &q, threads)
    finally:
        release(v, 3)
