# cython: language_level=3, freethreading_compatible=True, boundscheck=True, wraparound=False
"""_core - thin Cython binding of the C library in src/.

plan() works out once how a problem is multiplied: a Layout.  A call takes it and buffers, checks
what memory safety needs, releases the GIL and calls one C function.  The layout tells the types of
operands: their buffers are taken without a format, and need the right size of elements alone.
Friendly messages about operands belong to the Python layer above; everything here raises ValueError
all the same.
"""
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


def meet(size_t parallel):
    """Run calls of this thread on those of an OpenMP while they spin; return how many there are.

    `parallel`: the address of its GOMP_parallel; 0: of none.
    """
    cdef int found
    with nogil:
        found = falcon_meet(<falcon_parallel>parallel)
    return found


def guests():
    """Return how many threads of an OpenMP this thread knows."""
    return falcon_guests()


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


include "_layout.pxi"  # Layout, plan
include "_norms.pxi"  # norms
include "_modulo.pxi"  # modulo
include "_quantise.pxi"  # quantise, from_bytes, peaks
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
         plain=None, units=None):
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
    units: K powers of two, accumulators, for the columns of A, and as many for the rows of B, or
    None, by which a scheme multiplies them before anything else.
    weights: K accumulators, by which the rows of b are multiplied (or, to the same result but for
    rounding, the columns of a); given if and only if the layout is for them.
    mirror: like `c`, M x N: every entry that is written to C is copied to the same place of it (for
    C's other triangle, pass C transposed).
    plain: the numbers of a falcon_plain: nothing is multiplied unless operands are.  The workspace
    then has layout.plain_nbytes more.
    Returns None; if report, whether all values of
    alpha A B (before beta C is added) were finite; with plain, that, and None if operands are not,
    or cannot be measured as they lie; if profile, a dict of seconds (summed over threads) and more.
    """
    cdef Py_buffer v[14]  # a, b, c, mirror, workspace, scales, centring, weights, units
    cdef falcon_problem p
    cdef const falcon_scheme *s = form_of(layout.scheme)
    cdef falcon_profile prof
    cdef falcon_plain wanted
    cdef size_t more = 0
    cdef ptrdiff_t of_a, of_b, left, right, segments, passes
    cdef int acc = layout.kern.acc, parts = 1 if s == NULL else s.parts
    cdef int nonfinite
    cdef void *w
    memset(&v, 0, sizeof(v))
    try:
        layout.take(v, a, b, c, mirror, packed, &p)
        cuts = None if centring is None else layout.segments
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
        if units is not None:
            rows_of("units", units[0], &v[12], max(p.K, 1), acc, &p.a_units)
            rows_of("units", units[1], &v[13], max(p.K, 1), acc, &p.b_units)
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
        if plain is not None:
            (wanted.loss, wanted.sampled_mean, wanted.sampled_spread, wanted.mean, wanted.noise,
             wanted.wide, wanted.even, wanted.spread) = plain
            p.plain, more = &wanted, layout.plain_nbytes
            if not more:
                return None
        if layout.is_small:
            if profile:
                raise ValueError("a profile of a small product needs plan(..., is_blocked=True)")
            with nogil:
                nonfinite = falcon_gemm_small(layout.kern, &p, layout.threads)
            return not nonfinite if report else None
        more += layout.nbytes
        w = layout.room(Workspace(more) if workspace is None else workspace, &v[4], more)
        with nogil:
            nonfinite = falcon_gemm(layout.kern, s, &p, layout.threads, &layout.cut, w,
                                    &prof if profile else NULL)
        if profile:
            return profile_dict(&prof)
        if nonfinite == FALCON_NOT_PLAIN:
            return None
        return not nonfinite if report or plain is not None else None
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
            w = layout.room(Workspace(layout.nbytes) if workspace is None else workspace, &v[4],
                            layout.nbytes)
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
