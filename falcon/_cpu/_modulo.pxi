# _modulo.pxi - the part of _core.pyx for integers modulo p.

# Types of integers, as FALCON_NUMBERS lists them.
NUMBERS = {of(name).numpy: i for i, name in enumerate(
    ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32",
     "float64"))}


def modulo(terms, weights, parts, modulus, base, int threads=1, isa=None):
    """parts = the sum of terms times weights, modulo a number: see falcon_modulo.

    All are matrices of one shape, of dtypes in NUMBERS."""
    cdef Py_buffer v[FALCON_MOST_NUMBERS]
    cdef falcon_modulo m
    cdef falcon_numbers *at = &m.numbers[0]
    cdef const falcon_kernel *k = kernel(isa, DTYPES.index("f64"))
    cdef int i, count = len(terms) + len(parts)
    if count > FALCON_MOST_NUMBERS or not terms or not parts:
        raise ValueError(f"{len(terms)} terms and {len(parts)} parts")
    m.p, m.base, m.terms, m.parts = modulus, base, len(terms), len(parts)
    m.lines, m.len = parts[0].shape
    memset(&v, 0, sizeof(v))
    try:
        for i, x in enumerate((*terms, *parts)):
            at.number, at.bytes = NUMBERS[x.dtype], x.itemsize
            at.start = <char *>take_matrix("x", x, 0 if i < m.terms else PyBUF_WRITABLE, &v[i],
                                           m.lines, m.len, at.bytes, 1, &at.line_stride, &at.stride)
            at.line_stride, at.stride = at.line_stride * at.bytes, at.stride * at.bytes
            at.weight = weights[i] if i < m.terms else 0
            at += 1
        with nogil:
            falcon_reduce(k, &m, threads)
    finally:
        release(v, count)
