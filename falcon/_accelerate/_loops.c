/* _loops.c - np.matmul's inner loops and np.dot's entry, replaced by ones that ask falcon first
 *
 * NumPy's objects stay what they are; pointers inside them change.  A loop of np.matmul runs without the GIL and is
 * told nothing but addresses, sizes and strides.  Products that are too small for falcon go to the loop that was there
 * before, after a few comparisons; for others the GIL is taken, the operands, of a batch all at once, are wrapped in
 * arrays, and Python is called.  np.dot calls BLAS itself: the function that its type's tp_vectorcall_offset points to
 * is replaced, in this one object.  The methods ndarray.dot and c_einsum have their entry in a PyMethodDef.
 *
 *     replace(ufunc, dot, einsum, product, missed, thinnest, least, least_of_loops, batch)
 *                     missed(subscripts, seconds) is told of calls of c_einsum of a millisecond and more;
 *                     product(a, b, out) multiplies from now on, or returns NotImplemented: no product of fewer rows,
 *                     columns or steps than `thinnest`, or fewer operations than `least` (of types without a BLAS);
 *                     but of a batch of matrices that takes NumPy longer than batch[0] seconds: batch[1] for each, and
 *                     batch[2] for an operation on a byte by a BLAS, batch[3] for one in loops
 *     restore(ufunc)
 *     original(ufunc) a ufunc with the loops as they are now
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <fenv.h>
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>
#include <time.h>

#include "numpy_types.h" /* NUMPY_TYPES(X): X(number, by_loops) of each type that falcon multiplies; by setup.py */

#if PY_VERSION_HEX < 0x030D0000
#define Py_IsFinalizing _Py_IsFinalizing
#endif
#if defined(_MSC_VER)
#define THREAD_LOCAL __declspec(thread)
typedef PyObject *volatile callable;
#else
#include <stdatomic.h>
#define THREAD_LOCAL _Thread_local
typedef _Atomic(PyObject *) callable;
#endif

typedef struct {
    int type;
    int by_loops;
    PyUFuncGenericFunction ours, before;
} row;

static callable product, missed; /* never released: another thread may be about to call them */
static npy_intp thinnest;
static double least[2];         /* of BLAS, of loops; written before the loops that read it are in place */
static double batch[4];         /* seconds of NumPy: the least of a batch; of a matrix, and of operations */
static THREAD_LOCAL int inside; /* this thread is in `product` */

static PyObject *wrapped(int type, char *data, npy_intp count, npy_intp step, npy_intp rows, npy_intp columns,
                         const npy_intp *strides, int flags) {
    npy_intp dims[3] = {count, rows, columns}, steps[3] = {step, strides[0], strides[1]};
    const int is_one = count == 1;
    return PyArray_New(&PyArray_Type, 3 - is_one, dims + is_one, type, steps + is_one, data, 0, flags, NULL);
}

enum { FAILED = -1, LEFT, DONE };

/* Let `product` multiply.  FAILED: an exception is set. */
static int ask(PyObject *a, PyObject *b, PyObject *out) {
    inside = 1;
    PyObject *told = PyObject_CallFunctionObjArgs(product, a, b, out, NULL);
    inside = 0;
    const int is_deep = !told && PyErr_ExceptionMatches(PyExc_RecursionError); /* NumPy needs no frames */
    if (is_deep)
        PyErr_Clear();
    const int answer = is_deep ? LEFT : !told ? FAILED : told == Py_NotImplemented ? LEFT : DONE;
    Py_XDECREF(told);
    return answer;
}

/* Multiply a matrix, or all matrices of a batch. */
static int multiply(const row *x, char **args, const npy_intp *dims, const npy_intp *steps) {
    const npy_intp count = dims[0], M = dims[1], K = dims[2], N = dims[3];
    if (PyErr_Occurred()) /* with two axes of a batch and more, NumPy calls a loop again after an exception */
        return FAILED;
    PyObject *a = wrapped(x->type, args[0], count, steps[0], M, K, steps + 3, NPY_ARRAY_ALIGNED);
    PyObject *b = wrapped(x->type, args[1], count, steps[1], K, N, steps + 5, NPY_ARRAY_ALIGNED);
    PyObject *out = wrapped(x->type, args[2], count, steps[2], M, N, steps + 7, NPY_ARRAY_BEHAVED);
    const int answer = a && b && out ? ask(a, b, out) : FAILED;
    Py_XDECREF(a), Py_XDECREF(b), Py_XDECREF(out);
    return answer;
}

static int is_worth(const row *x, npy_intp count, npy_intp M, npy_intp K, npy_intp N) {
    const double flops = 2.0 * M * K * N;
    if (inside || count == 0 || Py_IsFinalizing()) /* then Python's modules may be gone */
        return 0;
    if (M >= thinnest && K >= thinnest && N >= thinnest && flops >= least[x->by_loops])
        return 1;
    const double each = batch[1] + flops * (x->by_loops ? batch[3] : batch[2] * (x->type == NPY_FLOAT ? 4 : 8));
    return count > 1 && M > 1 && N > 1 && K > 0 && count * each >= batch[0] && !PyTypeNum_ISCOMPLEX(x->type);
}

static void run(const row *x, char **args, const npy_intp *dims, const npy_intp *steps, void *data) {
    int answer = LEFT;
    if (is_worth(x, dims[0], dims[1], dims[2], dims[3])) {
        fexcept_t flags; /* of casts before; falcon adds none: overflow shows in the result, as in BLAS's own threads */
        fegetexceptflag(&flags, FE_ALL_EXCEPT);
        PyGILState_STATE state = PyGILState_Ensure();
        answer = multiply(x, args, dims, steps); /* NumPy raises an exception that is set */
        PyGILState_Release(state);
        fesetexceptflag(&flags, FE_ALL_EXCEPT);
    }
    if (answer == LEFT)
        x->before(args, dims, steps, data);
}

#define INDEX(type, by_loops) AT_##type,
enum { NUMPY_TYPES(INDEX) ROWS };
static row rows[ROWS];

#define LOOP(type, by_loops)                                                                                           \
    static void loop_##type(char **args, const npy_intp *dims, const npy_intp *steps, void *data) {                    \
        run(&rows[AT_##type], args, dims, steps, data);                                                                \
    }
NUMPY_TYPES(LOOP)

#define ROW(type, by_loops) {type, by_loops, loop_##type, NULL},
static row rows[ROWS] = {NUMPY_TYPES(ROW)};

/* The entry of np.dot, and what was there before; NULL: not replaced yet. */
static vectorcallfunc *entry, entered;

static int is_matrix(PyObject *x, int type) {
    return PyArray_CheckExact(x) && PyArray_NDIM((PyArrayObject *)x) == 2 && PyArray_TYPE((PyArrayObject *)x) == type &&
           PyArray_ISBEHAVED_RO((PyArrayObject *)x);
}

/* The product of `a` and args[0], into args[1] or `out` by name.  DONE: `*result` is set. */
static int dotted(PyObject *a, PyObject *const *args, Py_ssize_t count, PyObject *names, PyObject **result) {
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    if (count < 1 || count + named > 2 || !PyArray_CheckExact(a) ||
        (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "out")))
        return LEFT;
    PyObject *const b = args[0], *out = count + named == 2 && args[1] != Py_None ? args[1] : NULL;
    const row *x = rows;
    while (x < rows + ROWS && x->type != PyArray_TYPE((PyArrayObject *)a))
        x++;
    if (x == rows + ROWS || !is_matrix(a, x->type) || !is_matrix(b, x->type) ||
        (out && !(is_matrix(out, x->type) && PyArray_ISCARRAY((PyArrayObject *)out))))
        return LEFT;
    const npy_intp *of_a = PyArray_DIMS((PyArrayObject *)a), *of_b = PyArray_DIMS((PyArrayObject *)b);
    npy_intp shape[2] = {of_a[0], of_b[1]};
    if (of_a[1] != of_b[0] || !is_worth(x, 1, shape[0], of_a[1], shape[1]) ||
        (out && !PyArray_CompareLists(shape, PyArray_DIMS((PyArrayObject *)out), 2)))
        return LEFT;
    Py_XINCREF(out);
    *result = out ? out : PyArray_SimpleNew(2, shape, x->type);
    const int answer = *result ? ask(a, b, *result) : FAILED;
    if (answer != DONE)
        Py_CLEAR(*result);
    return answer;
}

/* np.dot(a, b, out=None) */
static PyObject *dot(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
    const Py_ssize_t count = PyVectorcall_NARGS(flags);
    PyObject *result = NULL;
    const int answer = count ? dotted(args[0], args + 1, count - 1, names, &result) : LEFT;
    return answer == LEFT ? entered(self, args, flags, names) : result;
}

typedef PyObject *(*fast)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

/* A function in the table of a type or module, and what was there before. */
typedef struct {
    PyMethodDef *where;
    PyCFunction ours, before;
} method;
static method of_array, of_einsum;

/* a.dot(b, out=None) */
static PyObject *dot_method(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *result = NULL;
    const int answer = dotted(self, args, count, names, &result);
    return answer == LEFT ? ((fast)(void (*)(void))of_array.before)(self, args, count, names) : result;
}

static double now(void) {
    struct timespec at;
    timespec_get(&at, TIME_UTC);
    return at.tv_sec + 1e-9 * at.tv_nsec;
}

/* Tell who wants to know of a sum that NumPy's own loops computed, if it took a millisecond; steals `result`. */
static PyObject *summed(PyObject *result, PyObject *subscripts, double began) {
    const double seconds = now() - began;
    if (!result || seconds < 1e-3 || Py_IsFinalizing())
        return result;
    PyObject *told = PyObject_CallFunction(missed, "Od", subscripts, seconds);
    if (!told)
        Py_CLEAR(result);
    Py_XDECREF(told);
    return result;
}

static PyObject *einsum(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    const double began = now();
    PyObject *result = ((fast)(void (*)(void))of_einsum.before)(self, args, count, names);
    return count ? summed(result, args[0], began) : result;
}

/* The same of NumPy before 2.4, which takes a tuple. */
static PyObject *einsum_of_tuple(PyObject *self, PyObject *args, PyObject *names) {
    const double began = now();
    PyObject *result = ((PyCFunctionWithKeywords)(void (*)(void))of_einsum.before)(self, args, names);
    return PyTuple_GET_SIZE(args) ? summed(result, PyTuple_GET_ITEM(args, 0), began) : result;
}

/* Replace the entry of np.dot where it is as expected. */
static void put_dot(PyObject *function) {
    PyTypeObject *type = Py_TYPE(function);
    if (strcmp(type->tp_name, "numpy._ArrayFunctionDispatcher") || !PyVectorcall_Function(function))
        return;
    vectorcallfunc *found = (vectorcallfunc *)((char *)function + type->tp_vectorcall_offset);
    if (*found != PyVectorcall_Function(function) || *found == dot)
        return;
    Py_INCREF(function); /* for ever, as `product` */
    entry = found;
    entered = *found;
    *entry = dot;
}

/* Replace a function in a table where it takes its arguments as expected. */
static void put_method(method *x, PyMethodDef *where, int flags, PyCFunction ours) {
    if (!where || where->ml_flags != flags || where->ml_meth == ours)
        return;
    x->where = where;
    x->ours = ours;
    x->before = where->ml_meth;
    where->ml_meth = ours;
}

static void put_methods(PyObject *sum) {
    PyObject *found = PyObject_GetAttrString((PyObject *)&PyArray_Type, "dot");
    if (found && Py_IS_TYPE(found, &PyMethodDescr_Type))
        put_method(&of_array, ((PyMethodDescrObject *)found)->d_method, METH_FASTCALL | METH_KEYWORDS,
                   (PyCFunction)(void (*)(void))dot_method);
    PyErr_Clear();
    Py_XDECREF(found);
    if (PyCFunction_CheckExact(sum)) {
        PyMethodDef *where = ((PyCFunctionObject *)sum)->m_ml;
        put_method(&of_einsum, where, METH_FASTCALL | METH_KEYWORDS, (PyCFunction)(void (*)(void))einsum);
        put_method(&of_einsum, where, METH_VARARGS | METH_KEYWORDS, (PyCFunction)(void (*)(void))einsum_of_tuple);
    }
}

static void restore_method(method *x) {
    if (x->where && x->where->ml_meth == x->ours)
        x->where->ml_meth = x->before;
}

/* Put all loops in place, ours or those before; on failure, those that were there. */
static PyObject *put(PyObject *ufunc, int ours) {
    for (int i = 0; i < ROWS; i++) {
        int types[3] = {rows[i].type, rows[i].type, rows[i].type};
        PyUFuncGenericFunction old = NULL;
        PyUFuncGenericFunction new = ours ? rows[i].ours : rows[i].before;
        if (!ours && !new) /* never replaced */
            continue;
        if (!new || PyUFunc_ReplaceLoopBySignature((PyUFuncObject *)ufunc, new, types, &old) < 0)
            return PyErr_Format(PyExc_RuntimeError, "%R has no loop for type %d", ufunc, rows[i].type);
        if (ours && old != rows[i].ours)
            rows[i].before = old;
    }
    Py_RETURN_NONE;
}

static int is_ufunc(PyObject *x) {
    if (PyObject_TypeCheck(x, &PyUFunc_Type) && ((PyUFuncObject *)x)->nin == 2 && ((PyUFuncObject *)x)->nout == 1)
        return 1;
    PyErr_Format(PyExc_TypeError, "expected np.matmul; got %R", x);
    return 0;
}

static PyObject *replace(PyObject *module, PyObject *args) {
    PyObject *ufunc, *function, *sum, *new, *told;
    Py_ssize_t rows;
    double of_blas, of_loops;
    if (!PyArg_ParseTuple(args, "OOOOOndd(dddd)", &ufunc, &function, &sum, &new, &told, &rows, &of_blas, &of_loops,
                          batch, batch + 1, batch + 2, batch + 3) ||
        !is_ufunc(ufunc))
        return NULL;
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) { /* PyGILState_Ensure enters the main one */
        PyErr_SetString(PyExc_RuntimeError,
                        "this is a subinterpreter; falcon.accelerate works in the main interpreter only (mod_wsgi: "
                        "WSGIApplicationGroup %{GLOBAL}, uWSGI: single-interpreter)");
        return NULL;
    }
    thinnest = rows, least[0] = of_blas, least[1] = of_loops;
    if (new != product) {
        Py_INCREF(new);
        product = new;
    }
    if (told != missed) {
        Py_INCREF(told);
        missed = told;
    }
    PyObject *done = put(ufunc, 1);
    if (done)
        put_dot(function), put_methods(sum);
    return done;
}

static PyObject *restore(PyObject *module, PyObject *ufunc) {
    if (!is_ufunc(ufunc))
        return NULL;
    if (entry && *entry == dot)
        *entry = entered;
    restore_method(&of_array);
    restore_method(&of_einsum);
    return put(ufunc, 0);
}

static PyObject *original(PyObject *module, PyObject *ufunc) {
    if (!is_ufunc(ufunc))
        return NULL;
    const PyUFuncObject *x = (PyUFuncObject *)ufunc;
    PyUFuncGenericFunction *copy = PyMem_Malloc(x->ntypes * sizeof *copy); /* the new ufunc's, for ever */
    if (!copy)
        return PyErr_NoMemory();
    memcpy(copy, x->functions, x->ntypes * sizeof *copy);
    PyObject *made = PyUFunc_FromFuncAndDataAndSignature(copy, x->data, x->types, x->ntypes, x->nin, x->nout,
                                                         x->identity, x->name, x->doc, 0, x->core_signature);
    if (made) /* NumPy's own: operands that overlap the result are copied */
        memcpy(((PyUFuncObject *)made)->op_flags, x->op_flags, x->nargs * sizeof *x->op_flags);
    return made;
}

static PyMethodDef methods[] = {
    {"replace", replace, METH_VARARGS,
     "replace(ufunc, dot, einsum, product, missed, thinnest, least, least_of_loops, batch)"},
    {"restore", restore, METH_O, "restore(ufunc): put back what was there before, everywhere."},
    {"original", original, METH_O, "original(ufunc): return a ufunc with its loops as they are now."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_loops", "What NumPy's products call, replaced.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__loops(void) {
    import_array();
    import_umath();
    PyObject *module = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
    if (module)
        PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
