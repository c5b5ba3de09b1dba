# _modulo.pxi - the part of _core.pyx for integers modulo p.

# Types of integers, as FALCON_NUMBERS lists them.
NUMBERS = {dtype_of(name).numpy: i for i, name in enumerate(
    ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32",
     "float64"))}


def modulo(terms, parts, modulus, carry=0, int threads=1, isa=None):
    """Write the sum of terms, modulo a number, to parts: see falcon_modulo.

    terms: (matrix, weight, modulus, factor); parts: (matrix, modulus). All matrices are of one
    shape, of dtypes in NUMBERS."""
    cdef Py_buffer v[FALCON_MOST_NUMBERS]
    cdef falcon_modulo m
    cdef falcon_numbers *at = &m.numbers[0]
    cdef const falcon_kernel *k = kernel(isa, DTYPES.index("f64"))
    cdef int i, j, count = len(terms) + len(parts)
    if count > FALCON_MOST_NUMBERS or not terms or not parts:
        raise ValueError(f"{len(terms)} terms and {len(parts)} parts")
    m.p, m.carry, m.terms, m.parts = modulus, carry, len(terms), len(parts)
    m.is_unsigned = modulus == 0 and terms[0][0].dtype == "uint64"
    m.lines, m.len = parts[0][0].shape
    memset(&v, 0, sizeof(v))
    try:
        for i, (x, weight, at.modulus, at.factor) in enumerate(
                [*terms, *[(x, 0, y, 0) for x, y in parts]]):
            at.number, at.bytes = NUMBERS[x.dtype], x.itemsize
            at.start = <char *>take_matrix("x", x, 0 if i < m.terms else PyBUF_WRITABLE, &v[i],
                                           m.lines, m.len, at.bytes, 1, &at.line_stride, &at.stride)
            at.line_stride, at.stride = at.line_stride * at.bytes, at.stride * at.bytes
            at.weights[0] = weight
            if i < m.terms and at.bytes == 8 and at.number < FALCON_FLOATS:
                for j in range(1, 3):
                    at.weights[j] = (weight << 21 * j) % modulus if modulus else weight << 21 * j
            at += 1
        with nogil:
            falcon_reduce(k, &m, threads)
    finally:
        release(v, count)
