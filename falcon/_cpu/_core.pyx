# cython: language_level=3, freethreading_compatible=True, boundscheck=True, wraparound=False
"""_core - thin Cython binding of the C library in src/.

Takes buffers, checks what memory safety needs, releases the GIL and calls one C
function.  Friendly messages about operands belong to the Python layer above;
everything here raises ValueError all the same.  No NumPy is needed: operands
are anything with the buffer protocol, two dimensions, of a type that there are kernels for.
"""
from cpython.buffer cimport (PyBUF_SIMPLE, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_FillInfo,
                             PyBuffer_Release)
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uintptr_t
from libc.stdlib cimport free, malloc
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


cdef const falcon_kernel *kernel_for(isa, int dtype, kind) except NULL:
    """The kernel for operands of a type: that of `kind`, if not None."""
    cdef const falcon_kernel *k = kernel(isa, dtype if kind is None else DTYPES.index(kind))
    if kind is not None and not multiplies(k, dtype):
        raise ValueError(f"kernels for {kind} multiply no {DTYPES[dtype]}")
    return k


def kernel_info(dtype, isa=None):
    """The best kernel's fields of `falcon_kernel` (src/kernels/kernel.h), for a dtype of DTYPES."""
    cdef const falcon_kernel *k = kernel(isa, DTYPES.index(dtype))
    return {"name": k.name.decode(), "isa": ISA_NAMES[k.isa], "mr": k.mr, "nr": k.nr,
            "vlen": k.vlen, "kr": k.kr, "kc": k.kc, "panel": k.panel, "acc": k.acc,
            "rows_in_place": k.rows_in_place, "streams_rows": bool(k.streams_rows)}


def peak(dtype, int threads=1, isa=None, double seconds=0.2):
    """flop/s of the best kernel's micro-kernel alone, on panels in L1, on so many threads."""
    cdef const falcon_kernel *k = kernel(isa, DTYPES.index(dtype))
    cdef double found
    if threads < 1 or not 0 <= seconds <= 60:
        raise ValueError(f"peak of {threads} threads for {seconds} seconds")
    with nogil:
        found = falcon_peak(k, threads, seconds)
    return found


cdef class Workspace:
    """Aligned memory, huge pages where large; reusable by one call at a time."""
    cdef void *ptr
    cdef readonly size_t nbytes
    cdef int views

    def __cinit__(self, size_t nbytes):
        self.reserve(nbytes)

    cdef int reserve(self, size_t nbytes) except -1:
        """Make it at least that large; its contents are lost if it grows."""
        if self.ptr != NULL and nbytes <= self.nbytes:
            return 0
        if self.views:
            raise BufferError("a workspace cannot grow while arrays view it")
        free(self.ptr)
        self.nbytes = 0
        self.ptr = fl_alloc(nbytes)
        if self.ptr == NULL:
            raise MemoryError(f"a workspace of {nbytes} bytes")
        self.nbytes = nbytes
        return 0

    def __dealloc__(self):
        free(self.ptr)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.ptr, <Py_ssize_t>self.nbytes, 0, flags)
        self.views += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.views -= 1

    def __reduce__(self):
        raise TypeError("a Workspace holds no data worth pickling")


OPERATIONS = {"add": FALCON_OP_ADD, "sub": FALCON_OP_SUB, "scale": FALCON_OP_SCALE}


cdef class Scheme:
    """A scheme <m,k,n;R> as the C engine reads it.

    Scheme(m, k, n, left, right, updates, parts=1): left and right are the Programs of Combine A and
    of Combine B, updates the Updates of Combine H (falcon.codegen).  parts: 2 for complex matrices,
    see falcon_cpu.h.
    """
    cdef falcon_scheme s
    cdef void *memory[5]

    def __cinit__(self, int m, int k, int n, left, right, updates, int parts=1):
        cdef Py_ssize_t r, e = 0, total
        cdef int R = len(updates.order), n_slots = updates.n_slots
        complete = set()
        memset(&self.s, 0, sizeof(falcon_scheme))
        memset(self.memory, 0, sizeof(self.memory))
        if not (0 < m < 1000 and 0 < k < 1000 and 0 < n < 1000 and 0 < R < 1000000
                and 0 < n_slots < 10000000 and 0 < parts < 3) or len(updates.steps) != R:
            raise ValueError(f"scheme <{m},{k},{n};{R}> with {len(updates.steps)} lists of steps, "
                             f"{n_slots} slots")
        self.s.m, self.s.k, self.s.n, self.s.R, self.s.n_slots = m, k, n, R, n_slots
        self.s.parts = parts
        place = {product: position for position, product in enumerate(updates.order)}
        self.fill(&self.s.u, 0, left, place)
        self.fill(&self.s.v, 1, right, place)
        total = sum([len(t) for t in updates.steps])
        cdef int *start = <int *>self.grab(2, (R + 1) * sizeof(int))
        cdef falcon_step *step = <falcon_step *>self.grab(3, total * sizeof(falcon_step))
        start[0] = 0
        for r in range(R):
            for slot, source, coef, first, last in updates.steps[r]:
                step[e].slot, step[e].source, step[e].coef = slot, source, coef
                step[e].flags = (FALCON_FIRST if first else 0) | (FALCON_LAST if last else 0)
                if parts == 2 and last and slot < 2 * m * n:  # of the first part that is complete
                    complete ^= {slot | 1}
                    step[e].flags |= FALCON_WAITS if slot | 1 in complete else 0
                e += 1
            start[r + 1] = <int>e
        self.s.w_start, self.s.w = start, step
        cdef const char *why = falcon_scheme_check(
            &self.s, <int *>self.grab(4, n_slots * sizeof(int)))
        if why != NULL:
            raise ValueError(f"scheme <{m},{k},{n};{R}>: {why.decode()}")

    cdef void *grab(self, int slot, size_t nbytes) except NULL:
        self.memory[slot] = malloc(nbytes if nbytes else 8)
        if self.memory[slot] == NULL:
            raise MemoryError("a scheme")
        return self.memory[slot]

    cdef int fill(self, falcon_program *p, int memory, program, place) except -1:
        """Write a Program as operations; output x becomes output place[x].

        The accumulator never leaves the registers, and no output is read: so the additions of an
        output run through the accumulator to a store.  One that later sums read is also kept in a
        temporary.  Slots that do not exist get a number that falcon_scheme_check refuses.
        """
        cdef Py_ssize_t at, i = 0
        cdef int first_output = program.first_output
        cdef falcon_op *o = <falcon_op *>self.grab(
            memory, 2 * len(program.instructions) * sizeof(falcon_op))
        last_write = {x.dst: at for at, x in enumerate(program.instructions)}
        register = {slot: slot for slot in range(first_output)}
        register |= {first_output + x: FALCON_ACC for x in range(program.n_outputs)}
        kept = {slot for x in program.instructions for slot in (x.x, x.y)
                if slot != x.dst and register.get(slot) == FALCON_ACC}
        register |= {slot: first_output + at for at, slot in enumerate(sorted(kept))}
        for at, x in enumerate(program.instructions):
            dst, a = register.get(x.dst, -2), register.get(x.x, -2)
            coef, is_scale = x.coefficient, x.op.value == "scale"
            is_complete = x.dst >= first_output and last_write[x.dst] == at
            if not (is_scale and is_complete and dst == FALCON_ACC):  # else the store scales
                o[i].op, o[i].dst, o[i].a, o[i].coef = OPERATIONS[x.op.value], dst, a, coef
                o[i].b = 0 if is_scale else register.get(x.y, -2)
                a, coef, i = dst, 1.0, i + 1
            if is_complete:
                o[i].op, o[i].a, o[i].b, o[i].coef = FALCON_OP_STORE, a, 0, coef
                o[i].dst = place.get(x.dst - first_output, -1)
                i += 1
        p.n_in, p.n_out, p.ops, p.n_ops = program.n_inputs, program.n_outputs, o, i
        p.n_temp = program.n_temporaries + len(kept)
        return 0

    def __dealloc__(self):
        for i in range(5):
            free(self.memory[i])

    @property
    def format(self):
        return (self.s.m, self.s.k, self.s.n, self.s.R)


cdef int blocking_from(blocking, const falcon_kernel *k, falcon_blocking *b) except -1:
    memset(b, 0, sizeof(falcon_blocking))
    if blocking is not None:
        b.mb, b.nb, b.kb, b.kc, b.mt, b.nt, b.stream_pack, b.stream_c = blocking
        if min(blocking) < 0 or b.kc % k.k_grain:
            raise ValueError(f"blocking {blocking}: no negative numbers, kc a multiple of "
                             f"{k.k_grain}")
    return 0


TRIANGLES = {None: FALCON_WHOLE, "lower": FALCON_LOWER, "upper": FALCON_UPPER}


cdef int triangle_from(name, ptrdiff_t M, ptrdiff_t N) except -1:
    if name not in TRIANGLES or (name is not None and M != N):
        raise ValueError(f"triangle {name!r} of {M} x {N}: expected lower or upper, of a square")
    return TRIANGLES[name]


cdef inline const falcon_scheme *form_of(Scheme scheme):
    """The C scheme; NULL: classical."""
    return NULL if scheme is None else &scheme.s


def plan(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, dtype, *, isa=None, Scheme scheme=None,
         int threads=1, size_t limit=0, blocking=None, bint b_by_rows=True,
         bint c_by_columns=False, bint a_by_columns=False, bint c_wide=False,
         PackedB packed=None, triangle=None):
    """(blocking, workspace bytes) of gemm() on operands of this shape and layout.

    blocking = (mb, nb, kb, kc, mt, nt, stream_pack, stream_c), see falcon_blocking; numbers given
    in `blocking` are kept, zeros chosen.  limit: bytes, 0 means FALCON_DEFAULT_LIMIT; exceeded if
    nothing fits.  The flags say along which axis operands are contiguous (c_by_columns: along the
    first one only), and whether c is of the accumulators' type.  For operands so laid out, gemm()
    with this blocking needs exactly these bytes.
    """
    cdef const falcon_kernel *k = kernel(isa, DTYPES.index(dtype))
    cdef falcon_problem p
    cdef falcon_blocking b
    cdef const falcon_scheme *s = form_of(scheme)
    memset(&p, 0, sizeof(p))
    p.M, p.N, p.K, p.alpha.real = M, N, K, 1.0
    # any other stride than 1 will do for "not contiguous"
    p.a_rs, p.a_cs = (1, 2) if a_by_columns else (2, 1)
    p.b_rs, p.b_cs = (2, 1) if b_by_rows else (1, 2)
    p.c_rs, p.c_cs = (1, 2) if c_by_columns else (2, 1)
    p.c_form = FALCON_C_ACC if c_wide else FALCON_C_ELEM
    p.triangle = triangle_from(triangle, M, N)
    blocking_from(blocking, k, &b)
    if packed is not None:
        packed.prepare(k, &p, scheme, &b)
    falcon_blocking_fill(k, s, &p, threads, limit, &b)
    if scheme is None and falcon_is_small(&p):
        return blocking_tuple(&b), 0
    return blocking_tuple(&b), falcon_workspace(k, s, &p, threads, &b)


def norms(x, sums, int axis=0, int threads=1, isa=None, kind=None):
    """Squared 2-norms of the rows (axis 0) or columns (axis 1) of x into `sums`, float64.

    Inf where a square overflows the dtype; 0 where all of a line are 0 or underflow.  Twice as many
    sums: those of odd steps, which must be neighbours in memory, are the second half."""
    cdef Py_buffer v, s
    cdef ptrdiff_t rs, cs, lines, steps
    cdef const falcon_kernel *k
    cdef double *odd
    PyObject_GetBuffer(x, &v, PyBUF_STRIDES | PyBUF_FORMAT)
    try:
        k = kernel_for(isa, dtype_of(&v), kind)
        strides_of(&v, &rs, &cs)
        lines, steps = v.shape[0], v.shape[1]
        if axis:
            lines, steps, rs, cs = steps, lines, cs, rs
        PyObject_GetBuffer(sums, &s, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            odd = <double *>s.buf + lines if s.len == lines * 16 and cs == 1 else NULL
            if s.len != (8 if odd == NULL else 16) * lines or <uintptr_t>s.buf % 8:
                raise ValueError(f"sums hold {s.len} bytes; expected {lines * 8}, aligned to 8")
            with nogil:
                falcon_norms(k, v.buf, lines, steps, rs, cs, threads, <double *>s.buf, odd)
        finally:
            PyBuffer_Release(&s)
    finally:
        PyBuffer_Release(&v)


cdef class PackedB:
    """B combined and laid out for a scheme (None: classical); pack_b() makes one."""
    cdef readonly ptrdiff_t K, N, kb, nb, kc
    cdef readonly str dtype, isa
    cdef readonly Scheme scheme
    cdef Workspace memory
    cdef readonly size_t nbytes

    def __cinit__(self, ptrdiff_t K, ptrdiff_t N, dtype, isa, Scheme scheme, ptrdiff_t kb,
                  ptrdiff_t nb, ptrdiff_t kc):
        cdef const falcon_kernel *k = kernel(isa, DTYPES.index(dtype))
        cdef falcon_blocking b
        if K < 0 or N < 0 or kb <= 0 or nb <= 0 or kc <= 0 or kc % k.k_grain:
            raise ValueError(f"packed B: bad size among {(K, N, kb, nb, kc)}")
        memset(&b, 0, sizeof(b))
        b.mb, b.nb, b.kb, b.kc, b.mt, b.nt = 1, nb, kb, kc, 1, 1
        self.K, self.N, self.kb, self.nb, self.kc = K, N, kb, nb, kc
        self.dtype, self.isa, self.scheme = dtype, ISA_NAMES[k.isa], scheme
        self.nbytes = falcon_packed_b_size(k, form_of(scheme), K, N, &b) if K and N else 0
        self.memory = Workspace(self.nbytes)

    cdef int prepare(self, const falcon_kernel *k, falcon_problem *p, Scheme scheme,
                     falcon_blocking *b) except -1:
        """Enter the panels into a problem and its blocking, if they are packed for it."""
        if (self.K != p.K or self.N != p.N or self.scheme is not scheme
                or ISA_NAMES[k.isa] != self.isa or DTYPES[k.b_dtype] != self.dtype):
            raise ValueError("packed B is for another shape, dtype, instruction set or scheme")
        p.packed_b = self.memory.ptr
        b.nb, b.kb, b.kc = self.nb, self.kb, self.kc
        return 0


def pack_b(b, *, isa=None, kind=None, Scheme scheme=None, int threads=1, size_t limit=0,
           blocking=None, column_scales=None):
    """Pack B (K x N) for later gemm(a, None, c, packed=...).

    column_scales: powers of two by which the columns are multiplied; pass them to gemm again.
    limit: the workspace of a later call whose A has as many rows as B has columns (the packed
    operand itself is not counted); calls with fewer or more rows keep it too, cut along M.
    """
    cdef Py_buffer vb
    cdef ptrdiff_t rs, cs, K, N
    cdef const falcon_kernel *k
    cdef falcon_problem p
    cdef falcon_blocking blk
    cdef const falcon_scheme *s = form_of(scheme)
    cdef PackedB out
    cdef Workspace ws
    cdef Py_buffer vs
    cdef const double *scale
    memset(&vs, 0, sizeof(vs))
    PyObject_GetBuffer(b, &vb, PyBUF_STRIDES | PyBUF_FORMAT)
    try:
        k = kernel_for(isa, dtype_of(&vb), kind)
        strides_of(&vb, &rs, &cs)
        K, N = vb.shape[0], vb.shape[1]
        if parts_of(&vb) != (1 if s == NULL else s.parts):
            raise ValueError("the scheme does not fit b: complex or real")
        scales_of(column_scales, &vs, N, &scale)
        blocking_from(blocking, k, &blk)
        memset(&p, 0, sizeof(p))
        p.M, p.N, p.K, p.alpha.real, p.c_rs, p.c_cs = N, N, K, 1.0, N, 1
        p.packed_b = <const void *>&p  # not NULL; not read
        falcon_blocking_fill(k, s, &p, 1, limit, &blk)
        out = PackedB(K, N, DTYPES[k.dtype], ISA_NAMES[k.isa], scheme, blk.kb, blk.nb, blk.kc)
        if K and N:
            ws = Workspace(falcon_pack_b_workspace(k, s, threads))
            with nogil:
                falcon_pack_b(k, s, K, N, vb.buf, rs, cs, scale, threads, &blk, out.memory.ptr,
                              ws.ptr)
        return out
    finally:
        PyBuffer_Release(&vb)
        PyBuffer_Release(&vs)


cdef const falcon_kernel *take_operands(Py_buffer *v, a, b, c, PackedB packed, isa, kind,
                                        const falcon_scheme *form, falcon_problem *p) except NULL:
    """Get the buffers of a, b (unless packed) and c in v[0..2] and enter them into the problem.

    kind: a dtype of DTYPES whose kernels multiply such operands, None for that of the operands."""
    cdef const falcon_kernel *k
    cdef int dtype, c_dtype, parts
    PyObject_GetBuffer(a, &v[0], PyBUF_STRIDES | PyBUF_FORMAT)
    PyObject_GetBuffer(c, &v[2], PyBUF_STRIDES | PyBUF_FORMAT | PyBUF_WRITABLE)
    dtype, c_dtype, parts = dtype_of(&v[0]), dtype_of(&v[2]), parts_of(&v[0])
    if parts != parts_of(&v[2]) or parts != (1 if form == NULL else form.parts):
        raise ValueError("c or the scheme does not fit a: complex or real")
    if packed is None:
        PyObject_GetBuffer(b, &v[1], PyBUF_STRIDES | PyBUF_FORMAT)
        dtype = kind_of(dtype, dtype_of(&v[1]) if parts == parts_of(&v[1]) else -1)
    elif kind is None:
        dtype = kind_of(dtype, DTYPES.index(packed.dtype))
    k = kernel_for(isa, dtype, kind)
    if parts == 2 and k.write_parts == NULL:
        raise ValueError(f"kernels for {DTYPES[k.dtype]} multiply no complex numbers")
    if c_dtype not in (dtype, k.acc_dtype) or v[2].shape[0] != v[0].shape[0]:
        raise ValueError("c does not fit a and b in shape or dtype")
    p.M, p.K, p.N = v[0].shape[0], v[0].shape[1], v[2].shape[1]
    p.c_form = FALCON_C_ELEM if c_dtype == dtype else FALCON_C_ACC
    strides_of(&v[0], &p.a_rs, &p.a_cs)
    strides_of(&v[2], &p.c_rs, &p.c_cs)
    p.a, p.c = v[0].buf, v[2].buf
    if packed is None:
        if v[1].shape[0] != p.K or v[1].shape[1] != p.N:
            raise ValueError("b does not fit a and c in shape")
        strides_of(&v[1], &p.b_rs, &p.b_cs)
        p.b = v[1].buf
    return k


cdef int take_mirror(Py_buffer *v, mirror, const Py_buffer *c, falcon_problem *p) except -1:
    PyObject_GetBuffer(mirror, v, PyBUF_STRIDES | PyBUF_FORMAT | PyBUF_WRITABLE)
    if dtype_of(v) != dtype_of(c) or v.shape[0] != p.M or v.shape[1] != p.N:
        raise ValueError("mirror does not fit c in shape or dtype")
    strides_of(v, &p.mirror_rs, &p.mirror_cs)
    p.mirror = v.buf
    return 0


cdef void *room_for(workspace, size_t need, Py_buffer *v) except? NULL:
    """Memory of `need` bytes for a call, in a Workspace, which grows, or in a buffer, held in v."""
    if type(workspace) is Workspace:  # operands may lie otherwise than planned
        (<Workspace>workspace).reserve(need)
    PyObject_GetBuffer(workspace, v, PyBUF_SIMPLE | PyBUF_WRITABLE)
    if <size_t>v.len < need or <uintptr_t>v.buf % 64:
        raise ValueError(f"the workspace must hold {need} bytes, aligned to 64; got {v.len}")
    return v.buf


def gemm(a, b, c, alpha=1.0, beta=0.0, int threads=1, isa=None, Scheme scheme=None, blocking=None,
         size_t limit=0, workspace=None, PackedB packed=None, bint profile=False, bint report=False,
         row_scales=None, column_scales=None, triangle=None, mirror=None, conjugate=(False, False),
         kind=None):
    """C = alpha A B + beta C in place; `c` may be strided but must not overlap a or b.

    `c` is of the type of a and b, or of that of their accumulators; a and b may be int8 and uint8.
    Complex matrices need a scheme of two parts; conjugate: whether a and b are conjugated.
    kind: a dtype of DTYPES whose kernels multiply such operands; None: that of a and b.
    blocking: from plan(), or None to choose within `limit`.  workspace: a Workspace, which
    grows if need be, or a writable buffer, 64-byte aligned, at least as large as plan() says; None
    allocates one for this call.
    packed: B from pack_b (b is then None).
    row_scales, column_scales: powers of two, float64, by which A's rows and B's columns are
    multiplied before a scheme adds them, and C divided (packed: as given to pack_b; without a
    scheme they do nothing).
    triangle: "lower" or "upper", of a square C: other entries are neither computed nor written.
    mirror: like `c`, M x N: every entry that is written to C is copied to the same place of it (for
    C's other triangle, pass C transposed).  Returns None; if report, whether all values of
    alpha A B (before beta C is added) were finite; if profile, a dict of seconds (summed over
    threads) and more.
    """
    # a, b, c, workspace, scales, mirror; releasing one that was not got does nothing
    cdef Py_buffer v[7]
    cdef falcon_problem p
    cdef falcon_blocking blk
    cdef const falcon_scheme *s = form_of(scheme)
    cdef const falcon_kernel *k
    cdef falcon_profile prof
    cdef int i, nonfinite
    cdef bint small
    cdef size_t need
    cdef void *w
    memset(&p, 0, sizeof(p))
    memset(&v, 0, sizeof(v))
    try:
        k = take_operands(v, a, b, c, packed, isa, kind, s, &p)
        scalars_into(&p, alpha, beta)
        p.a_conj, p.b_conj = conjugate
        if (s == NULL or s.parts == 1) and (p.alpha.imag or p.beta.imag or p.a_conj or p.b_conj):
            raise ValueError("alpha, beta and conjugate do not fit real operands")
        if s != NULL and s.parts == 2 and p.M and p.N and (p.K == 0 or alpha == 0):
            raise ValueError("complex operands need K > 0 and an alpha that is not 0")
        scales_of(row_scales, &v[4], p.M, &p.a_scale)
        scales_of(column_scales, &v[5], p.N, &p.b_scale)
        p.triangle = triangle_from(triangle, p.M, p.N)
        if mirror is not None:
            take_mirror(&v[6], mirror, &v[2], &p)
        blocking_from(blocking, k, &blk)
        if packed is not None:
            packed.prepare(k, &p, scheme, &blk)
        small = scheme is None and falcon_is_small(&p)
        if small and not profile:
            with nogil:
                nonfinite = falcon_gemm_small(k, &p)
            return not nonfinite if report else None
        falcon_blocking_fill(k, s, &p, threads, limit, &blk)
        need = falcon_workspace(k, s, &p, threads, &blk)
        # plan() foresees neither a profile of a small call nor a fork since then
        if workspace is None or small or falcon_in_forked_child():
            workspace = Workspace(need)
        w = room_for(workspace, need, &v[3])
        with nogil:
            nonfinite = falcon_gemm(k, s, &p, threads, &blk, w, &prof if profile else NULL)
        if profile:
            return profile_dict(&prof) | {"workspace": need}
        return not nonfinite if report else None
    finally:
        for i in range(7):
            PyBuffer_Release(&v[i])


# Flop between two looks whether a signal (Ctrl-C) has come.
cdef double FLOP_BETWEEN_SIGNALS = 1e9
cdef enum: MOST_AXES = 64


def gemm_batch(a, b, c, shape, steps, alpha=1.0, int threads=1, isa=None, blocking=None,
               workspace=None, triangle=None, mirror=None):
    """C = alpha A B for all matrices of a batch, classically, one after the other.

    a, b, c, mirror: the first matrices, as for gemm.  shape: of the batch.  steps: for a, b and c,
    bytes to the next matrix along each axis of the batch; mirror's are c's.  blocking, workspace:
    from plan() for the first matrices.
    """
    cdef Py_buffer v[5]  # a, b, c, workspace, mirror
    cdef falcon_problem p
    cdef falcon_blocking blk
    cdef const falcon_kernel *k
    cdef ptrdiff_t extent[MOST_AXES]
    cdef ptrdiff_t at[MOST_AXES]
    cdef ptrdiff_t step[3][MOST_AXES]
    cdef ptrdiff_t left = 1, some, pause, offset[3]
    cdef const char *base[3]
    cdef int i, axis, axes = len(shape)
    cdef bint small
    cdef size_t need
    cdef void *w = NULL
    cdef char *image
    if axes > MOST_AXES or len(steps) != 3 or any(len(x) != axes for x in steps):
        raise ValueError(f"shape {shape} and steps {steps} do not fit")
    for axis in range(axes):
        extent[axis], at[axis] = shape[axis], 0
        left *= extent[axis]
        for i in range(3):
            step[i][axis] = steps[i][axis]
    memset(&p, 0, sizeof(p))
    memset(&v, 0, sizeof(v))
    try:
        k = take_operands(v, a, b, c, None, isa, None, NULL, &p)
        scalars_into(&p, alpha, 0)
        p.triangle = triangle_from(triangle, p.M, p.N)
        if mirror is not None:
            take_mirror(&v[4], mirror, &v[2], &p)
        blocking_from(blocking, k, &blk)
        small = falcon_is_small(&p)
        if not small:
            falcon_blocking_fill(k, NULL, &p, threads, 0, &blk)
            need = falcon_workspace(k, NULL, &p, threads, &blk)
            if workspace is None or falcon_in_forked_child():
                workspace = Workspace(need)
            w = room_for(workspace, need, &v[3])
        base[0], base[1], base[2] = <const char *>p.a, <const char *>p.b, <const char *>p.c
        offset[0] = offset[1] = offset[2] = 0
        image = <char *>p.mirror
        pause = <ptrdiff_t>(FLOP_BETWEEN_SIGNALS / (2.0 * p.M * p.N * p.K + 1000)) + 1
        while left:
            some = pause if pause < left else left
            left -= some
            with nogil:
                while some:
                    some -= 1
                    p.a, p.b = base[0] + offset[0], base[1] + offset[1]
                    p.c = <char *>base[2] + offset[2]
                    if image != NULL:
                        p.mirror = image + offset[2]
                    if small:
                        falcon_gemm_small(k, &p)
                    else:
                        falcon_gemm(k, NULL, &p, threads, &blk, w, NULL)
                    for axis in range(axes - 1, -1, -1):
                        at[axis] += 1
                        for i in range(3):
                            offset[i] += step[i][axis]
                        if at[axis] < extent[axis]:
                            break
                        for i in range(3):
                            offset[i] -= step[i][axis] * extent[axis]
                        at[axis] = 0
            if left:
                PyErr_CheckSignals()
    finally:
        for i in range(5):
            PyBuffer_Release(&v[i])
