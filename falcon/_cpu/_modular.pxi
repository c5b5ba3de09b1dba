# _modular.pxi - the part of _core.pyx for products modulo p: src/engine/residues.c.
from cpython.buffer cimport PyBUF_ND

# enum falcon_number, by NumPy dtype
NUMBERS = {of(name).numpy: i for i, name in enumerate(
    ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32",
     "float64"))}


cdef int take_numbers(str name, x, int flags, Py_buffer *v, ptrdiff_t lines, ptrdiff_t columns,
                      falcon_numbers *to) except -1:
    to.number = NUMBERS[x.dtype]
    to.start = take_matrix(name, x, flags, v, lines, columns, FALCON_NUMBER_BYTES(to.number), 1,
                           &to.line_stride, &to.stride)
    return 0


def residues(x, parts, modulus, base, int threads=1, isa=None):
    """Write the residues of least magnitude of integers, modulo p, as digits in a base.

    x: lines of integers; parts: (places, lines, length), the lowest digit first, the last axis
    contiguous."""
    cdef Py_buffer v[2]  # x, parts[0]
    cdef falcon_numbers numbers, to
    cdef falcon_modulus m
    cdef ptrdiff_t lines, length, step
    cdef const falcon_kernel *k = kernel(isa, DTYPES.index("f64"))
    m.p, m.base[0], m.parts[0] = modulus, base, len(parts)
    step = parts.strides[0] // parts.itemsize
    memset(&v, 0, sizeof(v))
    try:
        lines, length = x.shape
        take_numbers("x", x, 0, &v[0], lines, length, &numbers)
        take_numbers("parts", parts[0], PyBUF_WRITABLE, &v[1], lines, length, &to)
        if to.stride != 1 and length > 1 or parts.ndim != 3 or parts.strides[0] % parts.itemsize:
            raise ValueError(f"parts have strides {parts.strides}; expected neighbours in a line")
        with nogil:
            falcon_residues(k, &m, numbers, lines, length, to, step, threads)
    finally:
        release(v, 2)


def reduce(sums, out, modulus, bases, alpha=1, c=None, beta=1, int threads=1, isa=None):
    """out = alpha * sums + beta * c modulo p, 0 <= alpha, beta < p; c may be out.

    sums: contiguous, of axes (places of A, rows, places of B, columns)."""
    cdef Py_buffer v[3]  # sums, out, c
    cdef falcon_numbers of_sums, of_out, of_c
    cdef falcon_modulus m
    cdef ptrdiff_t M, N
    cdef const falcon_kernel *k = kernel(isa, DTYPES.index("f64"))
    m.p, m.alpha, m.beta, of_c.start = modulus, alpha, beta, NULL
    m.base[0], m.base[1] = bases
    m.parts[0], M, m.parts[1], N = sums.shape
    of_sums.number = NUMBERS[sums.dtype]
    memset(&v, 0, sizeof(v))
    try:
        PyObject_GetBuffer(sums, &v[0], PyBUF_ND)  # raises unless it is contiguous
        of_sums.start = v[0].buf
        take_numbers("out", out, PyBUF_WRITABLE, &v[1], M, N, &of_out)
        if c is not None:
            take_numbers("c", c, 0, &v[2], M, N, &of_c)
        with nogil:
            falcon_reduce(k, &m, of_sums, M, N, of_c, of_out, threads)
    finally:
        release(v, 3)
