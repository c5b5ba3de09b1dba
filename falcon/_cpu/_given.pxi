# _given.pxi - the part of _core.pyx for what calls are given besides operands.
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdlib cimport free, malloc

from falcon._cpu.sources import OPCODES


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


OPERATIONS = {name: i for i, name in enumerate(OPCODES)}


cdef class Scheme:
    """A scheme <m,k,n;R> as the C engine reads it.

    Scheme(m, k, n, left, right, updates, parts=1): left and right are the Operations of Combine A
    and of Combine B, updates the Updates of Combine H (falcon.codegen).  parts: 2 for complex
    matrices, see falcon_cpu.h.
    """
    cdef falcon_scheme s
    cdef void *memory[4]

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
        self.fill(&self.s.u, 0, left)
        self.fill(&self.s.v, 1, right)
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
        cdef const char *why = falcon_scheme_check(&self.s)
        if why != NULL:
            raise ValueError(f"scheme <{m},{k},{n};{R}>: {why.decode()}")

    cdef void *grab(self, int slot, size_t nbytes) except NULL:
        self.memory[slot] = malloc(nbytes if nbytes else 8)
        if self.memory[slot] == NULL:
            raise MemoryError("a scheme")
        return self.memory[slot]

    cdef int fill(self, falcon_program *p, int memory, program) except -1:
        """Write a program's operations, and find its code."""
        cdef Py_ssize_t i, n = len(program.operations)
        cdef falcon_op *o = <falcon_op *>self.grab(memory, n * sizeof(falcon_op))
        for i in range(n):
            op, o[i].dst, o[i].a, o[i].b, o[i].coef = program.operations[i]
            o[i].op = OPERATIONS[op]
        p.n_in, p.n_temp, p.n_out = program.n_inputs, program.n_temporaries, program.n_outputs
        p.n_ops, p.ops = <int>n, o
        p.code = falcon_code_of(p)

    def __dealloc__(self):
        for i in range(4):
            free(self.memory[i])

    @property
    def format(self):
        return (self.s.m, self.s.k, self.s.n, self.s.R)

    @property
    def codes(self):
        """The numbers of the code of Combine A and of Combine B; 0: there is none."""
        return self.s.u.code, self.s.v.code


TRIANGLES = {None: FALCON_WHOLE, "lower": FALCON_LOWER, "upper": FALCON_UPPER}
