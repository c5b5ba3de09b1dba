/* _loops.c - NumPy's inner loops of np.matmul, replaced by ones that ask falcon first
 *
 * A loop runs without the GIL and is told nothing but addresses, sizes and strides.  Products that are too small for
 * falcon go to the loop that was there before, after a few comparisons; for others the GIL is taken, the operands of
 * each matrix of the batch are wrapped in arrays, and Python is called.
 *
 *     replace(ufunc, product)    product(a, b, out) multiplies from now on
 *     restore(ufunc)
 *     original(ufunc)            a ufunc with the loops as they are now
 *     left()                     how many products were left to NumPy while loops were replaced
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <fenv.h>
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>

#if defined(_MSC_VER)
#define THREAD_LOCAL __declspec(thread)
typedef volatile long long counter;
typedef PyObject *volatile callable;
#else
#include <stdatomic.h>
#define THREAD_LOCAL _Thread_local
typedef _Atomic long long counter;
typedef _Atomic(PyObject *) callable;
#endif

/* Fewer rows, columns or steps than this are left to NumPy. */
enum { THINNEST = 8 };

/* NumPy's types, each with a loop of its own, and from how many operations on a call of Python pays: the first four are
 * multiplied by BLAS. */
#define TYPES(X)                                                                                                       \
    X(FLOAT, 5e6)                                                                                                      \
    X(DOUBLE, 5e6)                                                                                                     \
    X(CFLOAT, 5e6)                                                                                                     \
    X(CDOUBLE, 5e6)                                                                                                    \
    X(HALF, 1e5)                                                                                                       \
    X(BYTE, 1e5)                                                                                                       \
    X(UBYTE, 1e5)                                                                                                      \
    X(SHORT, 1e5)                                                                                                      \
    X(USHORT, 1e5)                                                                                                     \
    X(INT, 1e5)                                                                                                        \
    X(UINT, 1e5)                                                                                                       \
    X(LONG, 1e5)                                                                                                       \
    X(ULONG, 1e5)                                                                                                      \
    X(LONGLONG, 1e5)                                                                                                   \
    X(ULONGLONG, 1e5)

typedef struct {
    int type;
    double least;
    PyUFuncGenericFunction ours, before;
} row;

static callable product; /* never released: another thread may be about to call it */
static counter left;
static THREAD_LOCAL int inside; /* this thread is in `product` */

static PyObject *wrapped(int type, char *data, npy_intp rows, npy_intp columns, const npy_intp *strides, int flags) {
    npy_intp dims[2] = {rows, columns}, steps[2] = {strides[0], strides[1]};
    return PyArray_New(&PyArray_Type, 2, dims, type, steps, data, 0, flags, NULL);
}

/* Multiply the matrices of a batch; 0: an exception is set. */
static int multiply(const row *x, char **args, const npy_intp *dims, const npy_intp *steps) {
    const npy_intp M = dims[1], K = dims[2], N = dims[3];
    for (npy_intp i = 0; i < dims[0]; i++) {
        PyObject *a = wrapped(x->type, args[0] + i * steps[0], M, K, steps + 3, NPY_ARRAY_ALIGNED);
        PyObject *b = wrapped(x->type, args[1] + i * steps[1], K, N, steps + 5, NPY_ARRAY_ALIGNED);
        PyObject *out = wrapped(x->type, args[2] + i * steps[2], M, N, steps + 7, NPY_ARRAY_BEHAVED);
        PyObject *done = a && b && out ? PyObject_CallFunctionObjArgs(product, a, b, out, NULL) : NULL;
        Py_XDECREF(a), Py_XDECREF(b), Py_XDECREF(out), Py_XDECREF(done);
        if (!done)
            return 0;
    }
    return 1;
}

static void run(const row *x, char **args, const npy_intp *dims, const npy_intp *steps, void *data) {
    const npy_intp M = dims[1], K = dims[2], N = dims[3];
    if (M < THINNEST || K < THINNEST || N < THINNEST || 2.0 * M * K * N < x->least || inside) {
        if (!inside)
            left += dims[0];
        x->before(args, dims, steps, data);
        return;
    }
    PyGILState_STATE state = PyGILState_Ensure();
    inside = 1;
    multiply(x, args, dims, steps); /* NumPy raises an exception that is set */
    inside = 0;
    PyGILState_Release(state);
    feclearexcept(FE_ALL_EXCEPT); /* overflow shows in the result, as in BLAS's own threads */
}

#define INDEX(name, least) AT_##name,
enum { TYPES(INDEX) ROWS };
static row rows[ROWS];

#define LOOP(name, least)                                                                                              \
    static void loop_##name(char **args, const npy_intp *dims, const npy_intp *steps, void *data) {                    \
        run(&rows[AT_##name], args, dims, steps, data);                                                                \
    }
TYPES(LOOP)

#define ROW(name, least) {NPY_##name, least, loop_##name, NULL},
static row rows[ROWS] = {TYPES(ROW)};

/* Put all loops in place, ours or those before; on failure, those that were there. */
static PyObject *put(PyObject *ufunc, int ours) {
    for (int i = 0; i < ROWS; i++) {
        int types[3] = {rows[i].type, rows[i].type, rows[i].type};
        PyUFuncGenericFunction old = NULL;
        PyUFuncGenericFunction new = ours ? rows[i].ours : rows[i].before;
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
    PyObject *ufunc, *function;
    if (!PyArg_ParseTuple(args, "OO", &ufunc, &function) || !is_ufunc(ufunc))
        return NULL;
    if (function != product) {
        Py_INCREF(function);
        product = function;
    }
    return put(ufunc, 1);
}

static PyObject *restore(PyObject *module, PyObject *ufunc) {
    return is_ufunc(ufunc) ? put(ufunc, 0) : NULL;
}

static PyObject *original(PyObject *module, PyObject *ufunc) {
    if (!is_ufunc(ufunc))
        return NULL;
    const PyUFuncObject *x = (PyUFuncObject *)ufunc;
    PyUFuncGenericFunction *copy = PyMem_Malloc(x->ntypes * sizeof *copy); /* the new ufunc's, for ever */
    if (!copy)
        return PyErr_NoMemory();
    memcpy(copy, x->functions, x->ntypes * sizeof *copy);
    return PyUFunc_FromFuncAndDataAndSignature(copy, x->data, x->types, x->ntypes, x->nin, x->nout, x->identity,
                                               x->name, x->doc, 0, x->core_signature);
}

static PyObject *count(PyObject *module, PyObject *nothing) {
    return PyLong_FromLongLong(left);
}

static PyMethodDef methods[] = {
    {"replace", replace, METH_VARARGS, "replace(ufunc, product): let product(a, b, out) multiply."},
    {"restore", restore, METH_O, "restore(ufunc): put back the loops that were there before."},
    {"original", original, METH_O, "original(ufunc): return a ufunc with its loops as they are now."},
    {"left", count, METH_NOARGS, "left(): return how many products were left to NumPy's own loops."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_loops", "NumPy's inner loops of np.matmul, replaced.", -1, methods, NULL, NULL, NULL, NULL,
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
