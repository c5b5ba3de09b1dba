# _capi.pxd - src/falcon_cpu.h for Cython, an allocator and the checks of buffers.
from cpython.buffer cimport (PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE,
                             PyBuffer_Release, PyObject_GetBuffer)
from cpython.long cimport PyLong_AsUnsignedLongLongMask
from libc.stdint cimport int64_t, uintptr_t

cdef extern from "falcon_cpu.h" nogil:
    enum: FALCON_N_ISA
    enum: FALCON_N_DTYPE
    enum: FALCON_C_ELEM
    enum: FALCON_C_ACC
    ctypedef struct falcon_scalar:
        double real, imag
        int64_t whole
    ctypedef struct falcon_op:
        int op, dst, a, b
        double coef
    enum: FALCON_ACC
    ctypedef struct falcon_program:
        int n_in, n_out, n_temp, n_ops
        const falcon_op *ops
        int code
    ctypedef struct falcon_step:
        int slot, source, flags
        double coef
    enum: FALCON_FIRST
    enum: FALCON_LAST
    enum: FALCON_WAITS
    ctypedef struct falcon_scheme:
        int m, k, n, R, n_slots, parts
        falcon_program u, v
        const int *w_start
        const falcon_step *w
    ctypedef struct falcon_kernel:
        const char *name
        int isa, dtype, b_dtype, elem, sum, panel, acc, acc_dtype, exact, mr, nr, vlen, kr
        int k_grain, kc
        void (*write[2])()
        void (*write_parts)()
        void (*weigh)()
    ctypedef struct falcon_caches:
        ptrdiff_t l1d, l2, l3
        int l3_sharers
    ctypedef struct falcon_blocking:
        ptrdiff_t mb, nb, kb, kc, mt, nt
        int stream_pack, stream_c
    ctypedef struct falcon_plain:
        double loss, sampled_mean, sampled_spread, mean, noise, wide, even, spread
    ctypedef struct falcon_problem:
        ptrdiff_t M, N, K
        const void *a
        const void *b
        void *c
        ptrdiff_t a_rs, a_cs, b_rs, b_cs, c_rs, c_cs
        falcon_scalar alpha, beta
        int a_conj, b_conj, complex_b
        const void *packed_b
        int c_form, one_order
        const void *weights
        const void *a_units
        const void *b_units
        const void *a_means
        const void *b_means
        ptrdiff_t a_means_step, b_means_step
        const falcon_plain *plain
        const void *left
        const void *right
        int rank
        const double *a_scale
        const double *b_scale
        int triangle
        void *mirror
        ptrdiff_t mirror_rs, mirror_cs
    enum: FALCON_WHOLE
    enum: FALCON_LOWER
    enum: FALCON_UPPER
    enum: FALCON_OUTER_PAD
    enum: FALCON_SEGMENT
    enum: FALCON_NOT_PLAIN
    size_t falcon_plain_bytes(const falcon_kernel *kern, const falcon_scheme *scheme,
                              const falcon_problem *prob, const falcon_blocking *blk)
    ctypedef struct falcon_profile:
        double combine_a, combine_b, gemm, update, wait, total
        int threads, b_kept
        const char *kernel
    const falcon_kernel *falcon_kernel_best(int most, int dtype)
    const char *falcon_isa_name(int isa)
    const char *falcon_dtype_name(int dtype)
    void falcon_kernel_put(int isa, int dtype, const falcon_kernel *kern)
    const char *falcon_isa_refused(int isa)
    int falcon_isa_supported(int isa)
    int falcon_isa_best()
    void falcon_cache_sizes(falcon_caches *out)
    double falcon_peak(const falcon_kernel *kern, int threads, double seconds)
    void falcon_blocking_fill(const falcon_kernel *kern, const falcon_scheme *scheme,
                              const falcon_problem *prob, int threads, size_t limit,
                              falcon_blocking *blk)
    bint falcon_reads_b_in_place(const falcon_kernel *kern, const falcon_scheme *scheme,
                                 const falcon_problem *prob)
    size_t falcon_workspace(const falcon_kernel *kern, const falcon_scheme *scheme,
                            const falcon_problem *prob, int threads, const falcon_blocking *blk)
    int falcon_gemm(const falcon_kernel *kern, const falcon_scheme *scheme,
                    const falcon_problem *prob, int threads, const falcon_blocking *blk,
                    void *workspace, falcon_profile *profile)
    enum: FALCON_IN_PLACE
    int falcon_form(const falcon_kernel *kern, const falcon_scheme *scheme,
                    const falcon_problem *prob)
    int falcon_is_small(const falcon_kernel *kern, const falcon_problem *prob)
    bint falcon_is_tiny(const falcon_kernel *kern, const falcon_problem *prob)
    int falcon_gemm_small(const falcon_kernel *kern, const falcon_problem *prob, int threads)
    enum: FALCON_BATCH_AXES
    ctypedef struct falcon_batch:
        int axes
        const ptrdiff_t *extent
        const ptrdiff_t *step[3]
    void falcon_gemm_batch(const falcon_kernel *kern, const falcon_problem *prob,
                           const falcon_batch *batch, ptrdiff_t first, ptrdiff_t count,
                           int threads, const falcon_blocking *blk, void *workspace)
    size_t falcon_packed_b_size(const falcon_kernel *kern, const falcon_scheme *scheme,
                                ptrdiff_t K, ptrdiff_t N, const falcon_blocking *blk)
    size_t falcon_pack_b_workspace(const falcon_kernel *kern, const falcon_scheme *scheme,
                                   int threads)
    void falcon_pack_b(const falcon_kernel *kern, const falcon_scheme *scheme, ptrdiff_t K,
                       ptrdiff_t N, const void *b, ptrdiff_t b_rs, ptrdiff_t b_cs,
                       const double *b_scale, int threads, const falcon_blocking *blk,
                       void *packed, void *workspace)
    void falcon_norms(const falcon_kernel *kern, const void *x, ptrdiff_t lines, ptrdiff_t len,
                      ptrdiff_t line_stride, ptrdiff_t k_stride, int threads, const void *units,
                      double *sums, double *odd, const ptrdiff_t *cuts, int segments,
                      double *totals)
    void falcon_roundings(const falcon_kernel *kern, const void *x, ptrdiff_t lines, ptrdiff_t len,
                          ptrdiff_t line_stride, ptrdiff_t k_stride, int threads, ptrdiff_t slice,
                          int parts, double *found)
    enum: FALCON_MOST_NUMBERS
    enum: FALCON_FLOATS
    ctypedef struct falcon_numbers:
        char *start
        int number, bytes
        ptrdiff_t line_stride, stride
        int64_t weights[3]
        double modulus, factor
    ctypedef struct falcon_modulo:
        int64_t p, carry
        ptrdiff_t lines, len
        int terms, parts, is_unsigned
        falcon_numbers *numbers
    void falcon_reduce(const falcon_kernel *kern, falcon_modulo *m, int threads)
    enum: FALCON_BYTE_STEPS
    ctypedef struct falcon_bytes:
        const void *x
        int is_double
        ptrdiff_t lines, len, line_stride, k_stride
        signed char *to
        double *found
    ctypedef struct falcon_products:
        const int *x
        const double *of_rows
        const double *of_columns
        double beta
        void *c
        int is_double
        ptrdiff_t rows, columns, row_stride, column_stride
    void falcon_quantise(const falcon_kernel *kern, const falcon_bytes *bytes, int threads)
    void falcon_from_bytes(const falcon_kernel *kern, const falcon_products *products, int threads)
    ctypedef struct falcon_peaks:
        const void *c
        const void *by
        int is_double
        ptrdiff_t rows, columns, row_stride
        double *peaks
    void falcon_peaks_of(const falcon_kernel *kern, const falcon_peaks *peaks, int threads)
    const char *falcon_scheme_check(const falcon_scheme *scheme)
    int falcon_code_of(const falcon_program *program)
    enum: FALCON_OWN_TEAM
    enum: FALCON_OPENMP
    int falcon_threading(int wanted)
    int falcon_in_forked_child()
    void *falcon_lend(int most, int threads)
    ctypedef void (*falcon_parallel)(
        void (*body)(void *) noexcept nogil, void *about, unsigned threads, unsigned flags
    ) noexcept nogil
    int falcon_meet(falcon_parallel begin) nogil
    int falcon_guests()

cdef extern from *:
    """
    #include <stdlib.h>
    #include <sys/mman.h>
    /* 2 MiB alignment and huge pages for anything larger than two of them: every
       packed panel is on other 4 KiB pages. */
    static void *fl_alloc(size_t bytes)
    {
        void *p = NULL;
        const size_t huge = (size_t)2 << 20;
        if (posix_memalign(&p, bytes >= 2 * huge ? huge : 64, bytes ? bytes : 64))
            return NULL;
    #ifdef MADV_HUGEPAGE
        if (bytes >= 2 * huge)
            madvise(p, bytes / huge * huge, MADV_HUGEPAGE);
    #endif
        return p;
    }
    """
    void *fl_alloc(size_t bytes) nogil


cdef inline int scalar_into(falcon_scalar *to, x) except -1:
    """Alpha or beta: a number; integers of any size wrap."""
    cdef double complex z = x
    to.real, to.imag = z.real, z.imag
    if isinstance(x, int):
        to.whole = <int64_t>PyLong_AsUnsignedLongLongMask(x)
    else:
        to.whole = <int64_t>z.real if -2.0 ** 63 <= z.real < 2.0 ** 63 else 0
    return 0


cdef inline void *take_matrix(str name, x, int flags, Py_buffer *v, ptrdiff_t rows,
                              ptrdiff_t columns, ptrdiff_t elem, int parts, ptrdiff_t *rs,
                              ptrdiff_t *cs) except? NULL:
    """Get the buffer of a matrix, whose elements of so many bytes have equal parts; its strides."""
    PyObject_GetBuffer(x, v, PyBUF_STRIDES | flags)
    if v.ndim != 2 or v.shape[0] != rows or v.shape[1] != columns or v.itemsize != elem:
        shape = tuple([v.shape[i] for i in range(v.ndim)])
        raise ValueError(f"{name} does not fit: {shape}, {v.itemsize} bytes an element; expected "
                         f"{(rows, columns)}, {elem} bytes")
    if (v.strides[0] % elem or v.strides[1] % elem
            or <uintptr_t>v.buf % <size_t>(elem // parts)):
        raise ValueError(f"{name} must be aligned, its strides multiples of the item size")
    rs[0], cs[0] = v.strides[0] // elem, v.strides[1] // elem
    return v.buf


cdef inline void release(Py_buffer *v, int count):
    """Release buffers; one that was not got is all zeros."""
    cdef int i
    for i in range(count):
        PyBuffer_Release(&v[i])


cdef inline int scales_of(x, Py_buffer *v, ptrdiff_t lines, const double **out) except -1:
    """The powers of two of `lines` lines, float64; NULL for None."""
    out[0] = NULL
    if x is None:
        return 0
    PyObject_GetBuffer(x, v, PyBUF_ND | PyBUF_FORMAT)
    if v.format == NULL or v.format[0] != b"d" or v.ndim != 1 or v.shape[0] != lines:
        raise ValueError(f"scales must be {lines} contiguous float64")
    out[0] = <const double *>v.buf
    return 0


cdef inline ptrdiff_t rows_of(str name, x, Py_buffer *v, ptrdiff_t columns, int acc,
                              const void **out) except -1:
    """Get so many accumulators a row, contiguous; the number of rows, and the first; 0 for None."""
    out[0] = NULL
    if x is None:
        return 0
    PyObject_GetBuffer(x, v, PyBUF_ND)
    if v.itemsize != acc or v.len % (columns * acc):
        raise ValueError(f"{name} holds {v.len} bytes; expected rows of {columns} accumulators")
    out[0] = v.buf
    return v.len // (columns * acc)


cdef inline dict profile_dict(const falcon_profile *prof):
    return {"combine_a": prof.combine_a, "combine_b": prof.combine_b, "gemm": prof.gemm,
            "update": prof.update, "wait": prof.wait, "total": prof.total,
            "threads": prof.threads, "b_kept": bool(prof.b_kept),
            "kernel": "" if prof.kernel == NULL else prof.kernel.decode()}
