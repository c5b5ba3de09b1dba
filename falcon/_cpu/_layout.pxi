# _layout.pxi - the part of _core.pyx for how a problem is cut: Layout, and plan(), which makes one.
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyObject_GetBuffer


cdef class Layout:
    """How a problem is multiplied, worked out once for operands that lie as plan() is told.

    Layouts are equal if their numbers are.  Calls whose operands lie otherwise make another one.
    """
    cdef const falcon_kernel *kern
    cdef falcon_problem problem  # sizes, unit strides and forms; no addresses
    cdef falcon_blocking asked, cut  # zeros of `asked`: chosen in `cut`
    cdef size_t limit
    cdef int form  # falcon_form of the problem
    cdef bint is_blocked, is_small
    cdef readonly Scheme scheme
    cdef readonly int threads
    cdef readonly size_t nbytes  # of the workspace

    cdef int fill(self) except -1:
        """Choose what is open."""
        cdef const falcon_scheme *s = form_of(self.scheme)
        self.form = falcon_form(self.kern, s, &self.problem)
        self.is_small = (
            not self.is_blocked and s == NULL and falcon_is_small(self.kern, &self.problem))
        self.cut, self.nbytes = self.asked, 0
        falcon_blocking_fill(self.kern, s, &self.problem, self.threads, self.limit, &self.cut)
        if not self.is_small:
            self.nbytes = falcon_workspace(self.kern, s, &self.problem, self.threads, &self.cut)
        return 0

    cdef Layout fitting(self, const falcon_problem *p):
        """The layout for operands with such strides: itself where they lie as planned."""
        cdef Layout other
        if falcon_form(self.kern, form_of(self.scheme), p) == self.form:
            return self
        other = Layout.__new__(Layout)
        other.kern, other.problem, other.asked = self.kern, p[0], self.asked
        other.limit, other.scheme, other.threads = self.limit, self.scheme, self.threads
        other.is_blocked = self.is_blocked
        other.fill()
        return other

    def within(self, double limit):
        """The layout of the same passes, with as many threads as keep the limit; the same bits."""
        cdef Layout other = self
        for threads, tile in ((self.threads, 0), (1, 0), (1, 1)):
            if other.nbytes <= limit:
                break
            other = Layout.__new__(Layout)
            other.kern, other.problem, other.asked = self.kern, self.problem, self.cut
            other.asked.mt = other.asked.nt = tile
            other.limit, other.scheme, other.threads = <size_t>max(limit, 1), self.scheme, threads
            other.is_blocked = self.is_blocked
            other.fill()
        return other

    cdef int take(self, Py_buffer *v, a, b, c, mirror, PackedB packed,
                  falcon_problem *p) except -1:
        """Get the buffers of a, b (unless packed), c and mirror in v[0..3], enter them in p."""
        cdef int parts = 1 if self.scheme is None else self.scheme.s.parts
        cdef ptrdiff_t elem = parts * self.kern.elem
        cdef ptrdiff_t c_elem = (
            elem if self.problem.c_form == FALCON_C_ELEM else parts * self.kern.acc)
        p[0] = self.problem
        if (packed is None) != (p.packed_b == NULL):
            raise ValueError("the layout is for a packed b, or b is packed and the layout is not")
        p.a = take_matrix("a", a, 0, &v[0], p.M, p.K, elem, parts, &p.a_rs, &p.a_cs)
        p.c = take_matrix("c", c, PyBUF_WRITABLE, &v[2], p.M, p.N, c_elem, parts, &p.c_rs, &p.c_cs)
        if packed is None:
            parts *= 1 + p.complex_b
            p.b = take_matrix("b", b, 0, &v[1], p.K // (1 + p.complex_b), p.N // (1 + p.complex_b),
                              elem * (1 + p.complex_b), parts, &p.b_rs, &p.b_cs)
        else:
            packed.check(self)
            p.packed_b = packed.memory.ptr
        if mirror is not None:
            p.mirror = take_matrix("mirror", mirror, PyBUF_WRITABLE, &v[3], p.M, p.N, c_elem, parts,
                                   &p.mirror_rs, &p.mirror_cs)
        return 0

    cdef void *room(self, workspace, Py_buffer *v, size_t nbytes) except? NULL:
        """Memory for a call in a Workspace, which grows, or in a buffer, which v holds."""
        if type(workspace) is Workspace:
            (<Workspace>workspace).reserve(nbytes)
        PyObject_GetBuffer(workspace, v, PyBUF_SIMPLE | PyBUF_WRITABLE)
        if <size_t>v.len < nbytes or <uintptr_t>v.buf % 64:
            raise ValueError(f"the workspace must hold {nbytes} bytes, aligned to 64; got {v.len}")
        return v.buf

    @property
    def least(self):
        """Bytes that one thread needs for these passes at least: the same for any planned threads.

        Without a scheme, passes over M and N depend on threads, and the whole of both counts.
        """
        cdef falcon_blocking cut = self.cut
        cut.mt = cut.nt = 1
        if self.scheme is None:
            cut.mb, cut.nb = self.problem.M, self.problem.N
        return falcon_workspace(self.kern, form_of(self.scheme), &self.problem, 1, &cut)

    @property
    def is_direct(self):
        """Whether products are formed from operands that are read in place, as are complex_b's."""
        return self.form & 0b10101 == 0b10000  # see falcon_form

    @property
    def blocking(self):
        """(mb, nb, kb, kc, mt, nt, stream_pack, stream_c), see falcon_blocking."""
        cdef falcon_blocking *b = &self.cut
        return (b.mb, b.nb, b.kb, b.kc, b.mt, b.nt, b.stream_pack, b.stream_c)

    @property
    def segments(self):
        """Where the segments of K end, whose lines may have means of their own: a list per pass.

        They begin where the one before ends, the first at 0; some may be empty.  No pass where no
        means are subtracted: without a scheme, or where sums have fewer bits than accumulators.
        """
        cdef ptrdiff_t start, end, block, step, part, s
        cdef ptrdiff_t parts = 1 if self.scheme is None else self.scheme.s.k
        passes = []
        if self.scheme is None or self.kern.sum < self.kern.acc:
            return passes
        for start in range(0, self.problem.K, max(self.cut.kb, 1)):
            end = min(start + self.cut.kb, self.problem.K)
            block = -(-(end - start) // parts)
            step = min(self.cut.kc, -(-block // self.kern.k_grain) * self.kern.k_grain)
            step *= max(1, FALCON_SEGMENT // step)
            passes.append([min(start + part * block + min(s + step, block), end)
                           for part in range(parts) for s in range(0, block, step)])
        return passes

    @property
    def plain_nbytes(self):
        """Bytes of workspace beside nbytes for gemm(plain=...); 0: it measures no operands."""
        return falcon_plain_bytes(self.kern, form_of(self.scheme), &self.problem, &self.cut)

    @property
    def chunks(self):
        """Rows of A, columns of B and steps of K that are multiplied in a pass."""
        return (self.cut.mb, self.cut.nb, self.cut.kb)

    @property
    def in_place(self):
        """Whether the operands, which fit into the caches, are read and written where they are."""
        return self.is_small and bool(self.form & FALCON_IN_PLACE)

    @property
    def is_tiny(self):
        """Whether handing the product to another library would take longer."""
        return falcon_is_tiny(self.kern, &self.problem)

    @property
    def b_in_place(self):
        """Whether B is read where it is if A has few rows: no copy of it is made in memory."""
        return falcon_reads_b_in_place(self.kern, form_of(self.scheme), &self.problem)

    cdef tuple numbers(self):
        cdef falcon_problem *p = &self.problem
        return (<uintptr_t>self.kern, p.M, p.N, p.K, p.c_form, p.triangle, self.form, self.threads,
                self.is_small, self.nbytes, self.blocking, p.one_order, p.weights != NULL,
                None if self.scheme is None else self.scheme.format)

    def __eq__(self, other):
        return type(other) is Layout and self.numbers() == (<Layout>other).numbers()

    def __hash__(self):
        return hash(self.numbers())


def plan(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, dtype, *, isa=None, Scheme scheme=None,
         int threads=1, size_t limit=0, blocking=None, bint b_by_rows=True,
         bint c_by_columns=False, bint a_by_columns=False, bint c_wide=False, bint is_packed=False,
         PackedB packed=None, triangle=None, bint is_blocked=False, bint complex_b=False,
         bint one_order=False, bint weighted=False):
    """The Layout of products of these sizes, by the kernels for a dtype of DTYPES.

    limit: bytes of workspace, 0 means FALCON_DEFAULT_LIMIT; exceeded if nothing fits.
    blocking: numbers of Layout.blocking to keep; zeros are chosen.
    *_by_rows, *_by_columns: the axis along which operands are contiguous (c_by_columns: along the
    first one only).  c_wide: c is of the accumulators' type.
    is_packed: B is packed, or is to be, by pack_b().  packed: by whose cut.
    triangle: "lower" or "upper", of a square C: other entries are neither computed nor written.
    is_blocked: small products are cut into blocks too, which a profile needs.
    complex_b: for gemm_batch, of complex matrices, a and c as real views; sizes are of those.
    one_order: an entry of C has the same bits whatever M and N.  weighted: gemm gets weights.
    """
    cdef Layout x = Layout.__new__(Layout)
    cdef falcon_problem *p = &x.problem
    cdef falcon_blocking *b = &x.asked
    x.kern = kernel(isa, DTYPES.index(dtype))
    x.scheme, x.threads, x.limit, x.is_blocked = scheme, threads, limit, is_blocked
    p.M, p.N, p.K, p.alpha.real = M, N, K, 1.0
    # any other stride than 1 will do for "not contiguous"
    p.a_rs, p.a_cs = (1, 2) if a_by_columns else (2, 1)
    p.b_rs, p.b_cs = (2, 1) if b_by_rows else (1, 2)
    p.c_rs, p.c_cs = (1, 2) if c_by_columns else (2, 1)
    p.c_form = FALCON_C_ACC if c_wide else FALCON_C_ELEM
    if x.kern.write[p.c_form] == NULL:
        raise ValueError(f"kernels for {dtype} write their accumulators alone")
    if scheme is not None and scheme.s.parts == 2 and x.kern.write_parts == NULL:
        raise ValueError(f"kernels for {dtype} multiply no complex numbers")
    if triangle not in TRIANGLES or (triangle is not None and M != N):
        raise ValueError(f"triangle {triangle!r} of {M} x {N}: expected lower or upper, of a "
                         "square")
    p.triangle = TRIANGLES[triangle]
    p.complex_b, p.one_order = complex_b, one_order
    if weighted and (scheme is not None or x.kern.weigh == NULL or is_packed or packed is not None):
        raise ValueError(f"kernels for {dtype} weigh no steps of such a B")
    if weighted:
        p.weights = <const void *>x.kern  # not NULL; not read
    if blocking is not None:
        b.mb, b.nb, b.kb, b.kc, b.mt, b.nt, b.stream_pack, b.stream_c = blocking
        if min(blocking) < 0 or b.kc % x.kern.k_grain:
            raise ValueError(f"blocking {blocking}: no negative numbers, kc a multiple of "
                             f"{x.kern.k_grain}")
    if is_packed or packed is not None:
        p.packed_b = <const void *>x.kern  # not NULL; not read
    if packed is not None:
        b.nb, b.kb, b.kc = packed.layout.cut.nb, packed.layout.cut.kb, packed.layout.cut.kc
        packed.check(x)
    x.fill()
    return x
