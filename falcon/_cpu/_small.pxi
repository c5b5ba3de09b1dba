# _small.pxi - the part of _core.pyx for products of a microsecond.
from numpy import dtype, empty


cdef class SmallProducts:
    """Products of small float32 or float64 arrays, without a plan.

    SmallProducts(isa, macs, library): by the kernels of that instruction set, or by a function of
    a, b and out where that is faster, up to so many multiply-adds.
    """
    cdef const falcon_kernel *single
    cdef const falcon_kernel *double
    cdef double macs
    cdef object library, single_type, double_type, empty

    def __init__(self, isa, double macs, library):
        self.single = kernel(isa, DTYPES.index("f32"))
        self.double = kernel(isa, DTYPES.index("f64"))
        self.macs, self.library, self.empty = macs, library, empty
        # NumPy usually has one object for each; arrays with another dtype object need a plan.
        self.single_type, self.double_type = dtype("f4"), dtype("f8")

    def multiply(self, a, b, out):
        """Return a b, in `out` or in a new array if it is None; None: they need a plan.

        a, b, out: of the type numpy.ndarray.
        """
        cdef object kind = a.dtype
        cdef bint is_single = kind is self.single_type
        cdef Py_buffer v[3]
        cdef falcon_problem p
        cdef const falcon_kernel *k = self.single if is_single else self.double
        if b.dtype is not kind or not (is_single or kind is self.double_type):
            return None
        memset(&v, 0, sizeof(v))
        memset(&p, 0, sizeof(p))
        try:
            PyObject_GetBuffer(a, &v[0], PyBUF_STRIDES)
            PyObject_GetBuffer(b, &v[1], PyBUF_STRIDES)
            if v[0].ndim != 2 or v[1].ndim != 2 or v[0].shape[1] != v[1].shape[0]:
                return None
            p.M, p.N, p.K = v[0].shape[0], v[1].shape[1], v[0].shape[1]
            if not 0 < <double>p.M * <double>p.N * <double>p.K <= self.macs:
                return None
            if not (strides_of(&v[0], k.elem, &p.a_rs, &p.a_cs)
                    and strides_of(&v[1], k.elem, &p.b_rs, &p.b_cs)):
                return None
            if out is None:
                p.c_rs, p.c_cs = p.N, 1
                if not falcon_is_tiny(k, &p):
                    return self.library(a, b, None)
                out = self.empty((p.M, p.N), kind)
            elif out.dtype is not kind:
                return None
            PyObject_GetBuffer(out, &v[2], PyBUF_STRIDES)
            if v[2].ndim != 2 or v[2].shape[0] != p.M or v[2].shape[1] != p.N or v[2].readonly:
                return None
            if not strides_of(&v[2], k.elem, &p.c_rs, &p.c_cs):
                return None
            if (overlap(&v[2], &v[0]) or overlap(&v[2], &v[1])
                    or not falcon_is_tiny(k, &p)):
                return self.library(a, b, out)
            p.a, p.b, p.c, p.alpha.real = v[0].buf, v[1].buf, v[2].buf, 1.0
            falcon_gemm_small(k, &p, 1)
            return out
        finally:
            release(v, 3)


cdef inline bint strides_of(const Py_buffer *v, ptrdiff_t elem, ptrdiff_t *rs, ptrdiff_t *cs):
    """Enter the strides of a matrix by rows or by columns, aligned; False: it is none."""
    if <uintptr_t>v.buf % <size_t>elem or v.strides[0] % elem or v.strides[1] % elem:
        return False
    rs[0], cs[0] = v.strides[0] // elem, v.strides[1] // elem
    return (cs[0] == 1 and rs[0] >= v.shape[1]) or (rs[0] == 1 and cs[0] >= v.shape[0])


cdef inline bint overlap(const Py_buffer *x, const Py_buffer *y):
    """Whether the memory of two matrices with strides that are not negative may overlap."""
    return (<const char *>x.buf <= last_of(y)) and (<const char *>y.buf <= last_of(x))


cdef inline const char *last_of(const Py_buffer *v):
    return <const char *>v.buf + (v.shape[0] - 1) * v.strides[0] + (v.shape[1] - 1) * v.strides[1]
