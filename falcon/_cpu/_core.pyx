# cython: language_level=3, freethreading_compatible=True, boundscheck=True, wraparound=False
"""_core - thin Cython binding of the C library in src/.

plan() works out once how a problem is multiplied: a Layout.  A call takes it and buffers, checks
what memory safety needs, releases the GIL and calls one C function.  The layout tells the types of
operands: their buffers are taken without a format, and need the right size of elements alone.
Friendly messages about operands belong to the Python layer above; everything here raises ValueError
all the same.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uintptr_t
from libc.string cimport memset
from falcon._cpu._capi cimport *

DTYPES = tuple([falcon_dtype_name(i).decode() for i in range(FALCON_N_DTYPE)])
ISA_NAMES = tuple([falcon_isa_name(i).decode() for i in range(FALCON_N_ISA)])


def supported_isas():
    """Names of the instruction sets that are built in and run here, best first."""
    order = [falcon_isa_best(), *range(FALCON_N_ISA - 1, -1, -1)]
    return tuple(dict.fromkeys([ISA_NAMES[i] for i in order if falcon_isa_supported(i)]))


def refused_isas():
    """Built-in instruction sets that the CPU has and the operating system refuses: name -> why."""
    cdef const char *why
    found = {}
    for i in range(FALCON_N_ISA):
        why = falcon_isa_refused(i)
        if why != NULL:
            found[ISA_NAMES[i]] = why.decode()
    return found


def put_kernel(isa, dtype, size_t address):
    """For tests: use the falcon_kernel at `address` for an instruction set and type; 0: undo."""
    falcon_kernel_put(ISA_NAMES.index(isa), DTYPES.index(dtype), <const falcon_kernel *>address)


def cache_sizes():
    """Bytes of L1d, L2 (per core), L3 (as shared) and the number of CPUs sharing it."""
    cdef falcon_caches c
    falcon_cache_sizes(&c)
    return {"l1d": c.l1d, "l2": c.l2, "l3": c.l3, "l3_sharers": c.l3_sharers}


def in_forked_child():
    """True after a fork, with OpenMP's team: calls then run on one thread."""
    return bool(falcon_in_forked_child())


def threading(wanted=None):
    """The team that runs calls, "own" or "openmp"; `wanted` changes it for the process."""
    teams = {"own": FALCON_OWN_TEAM, "openmp": FALCON_OPENMP}
    if wanted is not None and wanted not in teams:
        raise ValueError(f"threading {wanted!r}; expected one of {', '.join(teams)}")
    cdef int found = falcon_threading(-1 if wanted is None else teams[wanted])
    return "own" if found == FALCON_OWN_TEAM else "openmp"


def lend_callback(int most, int threads):
    """Address of the callback for an OpenBLAS of `threads`, built for `most`; 0: no helpers."""
    return <uintptr_t>falcon_lend(most, threads)


cdef const falcon_kernel *kernel(isa, int dtype) except NULL:
    """The best kernel for a type on no better an instruction set than `isa` (None: any)."""
    cdef int i = falcon_isa_best() if isa is None else -1
    cdef const falcon_kernel *k = NULL
    if isa in ISA_NAMES:
        i = ISA_NAMES.index(isa)
    if i >= 0 and falcon_isa_supported(i):
        k = falcon_kernel_best(i, dtype)
    if k == NULL:
        raise ValueError(f"instruction set {isa!r} is not among those here: {supported_isas()}")
    return k


def kernel_info(dtype, isa=None):
    """The best kernel's fields of `falcon_kernel` (src/kernels/kernel.h), for a dtype of DTYPES."""
    cdef const falcon_kernel *k = kernel(isa, DTYPES.index(dtype))
    return {"name": k.name.decode(), "isa": ISA_NAMES[k.isa], "mr": k.mr, "nr": k.nr,
            "vlen": k.vlen, "kr": k.kr, "kc": k.kc, "panel": k.panel, "acc": k.acc,
            "weighs": k.weigh != NULL}


def peak(dtype, int threads=1, isa=None, double seconds=0.2):
    """flop/s of the best kernel's micro-kernel alone, on panels in L1, on so many threads."""
    cdef const falcon_kernel *k = kernel(isa, DTYPES.index(dtype))
    cdef double found
    if threads < 1 or not 0 <= seconds <= 60:
        raise ValueError(f"peak of {threads} threads for {seconds} seconds")
    with nogil:
        found = falcon_peak(k, threads, seconds)
    return found


include "_given.pxi"  # Workspace, Scheme


cdef inline const falcon_scheme *form_of(Scheme scheme):
    """The C scheme; NULL: classical."""
    return NULL if scheme is None else &scheme.s


cdef class PackedB


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

    cdef void *room(self, workspace, Py_buffer *v) except? NULL:
        """Memory for a call in a Workspace, which grows, or in a buffer, which v holds."""
        if type(workspace) is Workspace:
            (<Workspace>workspace).reserve(self.nbytes)
        PyObject_GetBuffer(workspace, v, PyBUF_SIMPLE | PyBUF_WRITABLE)
        if <size_t>v.len < self.nbytes or <uintptr_t>v.buf % 64:
            raise ValueError(f"the workspace must hold {self.nbytes} bytes, aligned to 64; got "
                             f"{v.len}")
        return v.buf

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
    def slices(self):
        """Blocks of K, slices of each, slices of a segment; None: gemm forms no sums of lines."""
        cdef const falcon_scheme *s = form_of(self.scheme)
        cdef falcon_problem *p = &self.problem
        cdef falcon_blocking *b = &self.cut
        cdef ptrdiff_t block, step
        is_single = b.mb >= p.M and b.nb >= p.N and b.kb >= p.K and p.packed_b == NULL
        if s == NULL or s.parts > 1 or self.kern.sums_a == NULL or not is_single:
            return None
        block = -(-p.K // s.k)
        step = min(b.kc, -(-block // self.kern.k_grain) * self.kern.k_grain)
        return s.k, -(-block // step), max(1, FALCON_SEGMENT // step)

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


include "_norms.pxi"  # norms
include "_modulo.pxi"  # modulo
include "_small.pxi"  # SmallProducts


cdef class PackedB:
    """B combined and laid out for a scheme (None: classical); pack_b() makes one."""
    cdef Layout layout
    cdef Workspace memory

    @property
    def dtype(self):
        return DTYPES[self.layout.kern.dtype]

    @property
    def isa(self):
        return ISA_NAMES[self.layout.kern.isa]

    @property
    def scheme(self):
        return self.layout.scheme

    @property
    def nbytes(self):
        return self.memory.nbytes

    cdef int check(self, Layout x) except -1:
        """Whether the panels are those that products by a layout read."""
        cdef Layout own = self.layout
        if (own.problem.K != x.problem.K or own.problem.N != x.problem.N
                or own.scheme is not x.scheme or own.kern.isa != x.kern.isa
                or own.kern.dtype != x.kern.b_dtype):
            raise ValueError("packed B is for another shape, dtype, instruction set or scheme")
        if own.cut.nb != x.asked.nb or own.cut.kb != x.asked.kb or own.cut.kc != x.asked.kc:
            raise ValueError("packed B is cut otherwise than planned")
        return 0


def pack_b(Layout layout not None, b, column_scales=None):
    """Pack B (K x N) for gemm(layout, a, None, c, packed=...), by layouts that are planned for it.

    layout: that of a product whose B is packed, usually of an A with as many rows as B has columns;
    calls with fewer or more rows keep its limit too, cut along M.
    column_scales: powers of two by which the columns are multiplied; pass them to gemm again.
    """
    cdef Py_buffer v[2]  # b, scales
    cdef ptrdiff_t rs, cs, K = layout.problem.K, N = layout.problem.N
    cdef const void *start
    cdef const falcon_kernel *k = layout.kern
    cdef const falcon_scheme *s = form_of(layout.scheme)
    cdef int parts = 1 if s == NULL else s.parts
    cdef PackedB out = PackedB.__new__(PackedB)
    cdef Workspace ws
    cdef const double *scale
    if layout.problem.packed_b == NULL:
        raise ValueError("the layout is for a b that is not packed")
    memset(&v, 0, sizeof(v))
    try:
        start = take_matrix("b", b, 0, &v[0], K, N, parts * k.elem, parts, &rs, &cs)
        scales_of(column_scales, &v[1], N, &scale)
        out.layout = layout
        out.memory = Workspace(
            falcon_packed_b_size(k, s, K, N, &layout.cut) if K > 0 and N > 0 else 0)
        ws = Workspace(falcon_pack_b_workspace(k, s, layout.threads))
        with nogil:
            falcon_pack_b(k, s, K, N, start, rs, cs, scale, layout.threads, &layout.cut,
                          out.memory.ptr, ws.ptr)
        return out
    finally:
        release(v, 2)


def gemm(Layout layout not None, a, b, c, alpha=1.0, beta=0.0, *, workspace=None,
         PackedB packed=None, bint profile=False, bint report=False, row_scales=None,
         column_scales=None, centring=None, mirror=None, conjugate=(False, False), weights=None,
         sums=None, bint formed=False):
    """C = alpha A B + beta C in place; `c` may be strided but must not overlap a or b.

    layout: from plan(), for operands of these sizes; where they lie otherwise than planned, one
    that is made for this call.
    conjugate: whether a and b, of complex numbers, are conjugated.
    workspace: a Workspace, which grows if need be, or a writable buffer, 64-byte aligned, of at
    least layout.nbytes; None allocates one for this call.
    packed: B from pack_b (b is then None).
    row_scales, column_scales: powers of two, float64, by which A's rows and B's columns are
    multiplied before a scheme adds them, and C divided (packed: as given to pack_b; without a
    scheme they do nothing).
    centring: what a scheme subtracts from A and B and adds to their product, see falcon_problem;
    with `a_means`, `b_means`, `left` and `right`, arrays or None.
    weights: K accumulators, by which the rows of b are multiplied (or, to the same result but for
    rounding, the columns of a); given if and only if the layout is for them.
    mirror: like `c`, M x N: every entry that is written to C is copied to the same place of it (for
    C's other triangle, pass C transposed).
    sums: of A's rows and of B's columns, float64 zeros, blocks times slices (see Layout.slices) x
    lines for squared norms and as many for sums of elements: these are added up, the panels formed
    in the workspace, and nothing is multiplied; returns whether that was possible for operands
    that lie so.  formed: multiply what such a call has formed there.
    Returns None; if report, whether all values of
    alpha A B (before beta C is added) were finite; if profile, a dict of seconds (summed over
    threads) and more.
    """
    cdef Py_buffer v[14]  # a, b, c, mirror, workspace, scales, centring, weights, sums
    cdef falcon_problem p
    cdef const falcon_scheme *s = form_of(layout.scheme)
    cdef falcon_profile prof
    cdef ptrdiff_t of_a, of_b, left, right, segments, passes
    cdef int acc = layout.kern.acc, parts = 1 if s == NULL else s.parts
    cdef int nonfinite
    cdef void *w
    memset(&v, 0, sizeof(v))
    try:
        layout.take(v, a, b, c, mirror, packed, &p)
        cuts = None if centring is None else layout.segments
        slices = layout.slices if sums is not None or formed else None
        layout = layout.fitting(&p)
        scalar_into(&p.alpha, alpha)
        scalar_into(&p.beta, beta)
        p.a_conj, p.b_conj = conjugate
        if rows_of("weights", weights, &v[11], max(p.K, 1), acc, &p.weights) != (
                layout.problem.weights != NULL):
            raise ValueError("weights, or none, do not fit the layout")
        if (s == NULL or s.parts == 1) and (p.alpha.imag or p.beta.imag or p.a_conj or p.b_conj):
            raise ValueError("alpha, beta and conjugate do not fit real operands")
        if s != NULL and s.parts == 2 and p.M and p.N and (p.K == 0 or alpha == 0):
            raise ValueError("complex operands need K > 0 and an alpha that is not 0")
        scales_of(row_scales, &v[5], p.M, &p.a_scale)
        scales_of(column_scales, &v[6], p.N, &p.b_scale)
        if centring is not None:
            if cuts != layout.segments:
                raise ValueError("means are those of segments that another layout has")
            segments, passes = sum(map(len, cuts)), len(cuts)
            of_a = rows_of("a_means", centring.a_means, &v[7], parts * p.M, acc, &p.a_means)
            of_b = rows_of("b_means", centring.b_means, &v[8], parts * p.N, acc, &p.b_means)
            left = rows_of("left", centring.left, &v[9], p.M + FALCON_OUTER_PAD, acc, &p.left)
            right = rows_of("right", centring.right, &v[10], p.N + FALCON_OUTER_PAD, acc, &p.right)
            if s == NULL or of_a not in (0, 1, segments) or of_b not in (0, 1, segments):
                raise ValueError(f"means of {of_a} and {of_b} segments; there are {segments}")
            if left != right or left % (passes * parts):
                raise ValueError(f"{left} and {right} rows for {passes} passes")
            p.rank = <int>(left // (passes * parts))
            p.a_means_step = parts * p.M if of_a > 1 else 0
            p.b_means_step = parts * p.N if of_b > 1 else 0
        if sums is not None or formed:
            if slices is None:
                raise ValueError("the layout has no slices whose sums could be formed")
            if slices != layout.slices:
                return False
            p.formed = formed
        if sums is not None:
            sums_of(sums[0], &v[12], slices[0] * slices[1], p.M, &p.a_sums)
            sums_of(sums[1], &v[13], slices[0] * slices[1], p.N, &p.b_sums)
        if layout.is_small:
            if profile:
                raise ValueError("a profile of a small product needs plan(..., is_blocked=True)")
            with nogil:
                nonfinite = falcon_gemm_small(layout.kern, &p, layout.threads)
            return not nonfinite if report else None
        w = layout.room(Workspace(layout.nbytes) if workspace is None else workspace, &v[4])
        with nogil:
            nonfinite = falcon_gemm(layout.kern, s, &p, layout.threads, &layout.cut, w,
                                    &prof if profile else NULL)
        if profile:
            return profile_dict(&prof)
        return not nonfinite if report or sums is not None else None
    finally:
        release(v, 14)


# Flop of a thread between two looks whether a signal (Ctrl-C) has come.
cdef double FLOP_BETWEEN_SIGNALS = 1e9


def gemm_batch(Layout layout not None, a, b, c, shape, steps, alpha=1.0, workspace=None,
               mirror=None):
    """C = alpha A B for all matrices of a batch, classically.

    layout, a, b, c, mirror: for the first matrices, as for gemm.  shape: of the batch.  steps: for
    a, b and c, bytes to the next matrix along each axis of the batch; mirror's are c's.
    """
    cdef Py_buffer v[5]  # a, b, c, mirror, workspace
    cdef falcon_problem p
    cdef ptrdiff_t extent[FALCON_BATCH_AXES]
    cdef ptrdiff_t step[3][FALCON_BATCH_AXES]
    cdef falcon_batch batch
    cdef ptrdiff_t first = 0, count = 1, some
    cdef int i, axis, axes = len(shape)
    cdef void *w = NULL
    if axes > FALCON_BATCH_AXES or len(steps) != 3 or any(len(x) != axes for x in steps):
        raise ValueError(f"shape {shape} and steps {steps} do not fit")
    if layout.scheme is not None:
        raise ValueError("a batch is multiplied by the classical algorithm")
    if layout.problem.weights != NULL:
        raise ValueError("the steps of a batch have no weights")
    batch.axes, batch.extent = axes, extent
    for axis in range(axes):
        extent[axis] = shape[axis]
        count *= extent[axis]
        for i in range(3):
            step[i][axis] = steps[i][axis]
    for i in range(3):
        batch.step[i] = step[i]
    memset(&v, 0, sizeof(v))
    try:
        layout.take(v, a, b, c, mirror, None, &p)
        layout = layout.fitting(&p)
        scalar_into(&p.alpha, alpha)
        if p.complex_b and not (layout.is_direct and alpha == 1):
            raise ValueError("complex matrices of this shape, or with this alpha, are no batch")
        if not layout.is_small:
            w = layout.room(Workspace(layout.nbytes) if workspace is None else workspace, &v[4])
        some = <ptrdiff_t>(layout.threads * FLOP_BETWEEN_SIGNALS
                           / (2.0 * p.M * p.N * p.K + 1000)) + 1
        while first < count:
            some = min(some, count - first)
            with nogil:
                falcon_gemm_batch(layout.kern, &p, &batch, first, some, layout.threads,
                                  &layout.cut, w)
            first += some
            if first < count:
                PyErr_CheckSignals()
    finally:
        release(v, 5)
