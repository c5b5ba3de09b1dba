/* _loops.c - np.matmul's inner loops and np.dot's entry, replaced by ones that ask falcon first
 *
 * NumPy's objects stay what they are; pointers inside them change.  A loop of np.matmul runs without the GIL and is
 * told nothing but addresses, sizes and strides.  Products that are too small for falcon go to the loop that was there
 * before, after a few comparisons; for others the GIL is taken, the operands, of a batch all at once, are wrapped in
 * arrays, and Python is called.  np.dot calls BLAS itself: the function that its type's tp_vectorcall_offset points to
 * is replaced, in this one object.
 *
 *     replace(ufunc, dot, product, thinnest, least, least_of_loops, batch)
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

#include "numpy_types.h" /* NUMPY_TYPES(X): X(number, by_loops) of each type that falcon multiplies; by setup.py */

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

static callable product; /* never released: another thread may be about to call it */
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
    if (inside || count == 0)
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

/* np.dot(a, b, out=None) */
static PyObject *dot(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0, count = PyVectorcall_NARGS(flags) + named;
    const int has_out = count == 3 && args[2] != Py_None;
    if (count < 2 || count > 3 || named > count - 2 || !PyArray_CheckExact(args[0]) ||
        (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "out")))
        return entered(self, args, flags, names);
    PyArrayObject *a = (PyArrayObject *)args[0], *b = (PyArrayObject *)args[1],
                  *out = (PyArrayObject *)args[2 * has_out];
    const row *x = rows;
    while (x < rows + ROWS && x->type != PyArray_TYPE(a))
        x++;
    if (x == rows + ROWS || !is_matrix(args[0], x->type) || !is_matrix(args[1], x->type) ||
        (has_out && !(is_matrix(args[2], x->type) && PyArray_ISCARRAY(out))))
        return entered(self, args, flags, names);
    npy_intp shape[2] = {PyArray_DIM(a, 0), PyArray_DIM(b, 1)};
    if (PyArray_DIM(a, 1) != PyArray_DIM(b, 0) || !is_worth(x, 1, shape[0], PyArray_DIM(a, 1), shape[1]) ||
        (has_out && !PyArray_CompareLists(shape, PyArray_DIMS(out), 2)))
        return entered(self, args, flags, names);
    PyObject *result = has_out ? args[2] : PyArray_SimpleNew(2, shape, x->type);
    if (!result)
        return NULL;
    if (has_out)
        Py_INCREF(result);
    const int answer = ask(args[0], args[1], result);
    if (answer == DONE)
        return result;
    Py_DECREF(result);
    return answer == LEFT ? entered(self, args, flags, names) : NULL;
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
    PyObject *ufunc, *function, *new;
    Py_ssize_t rows;
    double of_blas, of_loops;
    if (!PyArg_ParseTuple(args, "OOOndd(dddd)", &ufunc, &function, &new, &rows, &of_blas, &of_loops, batch, batch + 1,
                          batch + 2, batch + 3) ||
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
    PyObject *done = put(ufunc, 1);
    if (done)
        put_dot(function);
    return done;
}

static PyObject *restore(PyObject *module, PyObject *ufunc) {
    if (!is_ufunc(ufunc))
        return NULL;
    if (entry && *entry == dot)
        *entry = entered;
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
    {"replace", replace, METH_VARARGS, "replace(ufunc, dot, product, thinnest, least, least_of_loops, batch)"},
    {"restore", restore, METH_O, "restore(ufunc): put back what was there before, in dot too."},
    {"original", original, METH_O, "original(ufunc): return a ufunc with its loops as they are now."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_loops", "What np.matmul and np.dot call, replaced.", -1, methods, NULL, NULL, NULL, NULL,
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
