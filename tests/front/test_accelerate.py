"""NumPy's own products on falcon: what is reached, what stays, errors and settings."""

import inspect
import pickle
import sys
from contextlib import suppress

import numpy as np
import pytest

import falcon
from falcon._accelerate import switch

from .. import support

if switch._loops is None:
    pytest.skip("falcon was built without NumPy's headers", allow_module_level=True)

SIZE = 200  # from 171 on, falcon is asked
TYPES = ("f4", "f8", "c8", "c16", "f2", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


def whole(shape, dtype, seed=0):
    """Small whole numbers, whose products are exact."""
    return np.random.default_rng(seed).integers(0, 4, shape).astype(dtype)


@pytest.fixture
def off():
    falcon.accelerate(on=False)
    yield
    falcon.accelerate(on=False)


@pytest.fixture
def seen(monkeypatch):
    """Switch on; collect what is multiplied."""
    found = []

    def product(a, b, out):
        found.append((a.shape, b.shape, a.dtype))
        falcon.matmul(a, b, out)

    monkeypatch.setattr(switch, "matmul", product)
    with falcon.accelerate(quiet=True):
        yield found


@pytest.mark.parametrize("dtype", TYPES)
def test_matmul_of_every_type(seen, dtype):
    a, b = whole((SIZE, SIZE + 1), dtype), whole((SIZE + 1, SIZE - 2), dtype, 1)
    wanted = np.einsum("ij,jk->ik", a.astype("c16"), b.astype("c16")).real
    c = a @ b
    assert c.dtype == a.dtype and seen == [(a.shape, b.shape, a.dtype)]
    np.testing.assert_array_equal(c, wanted.astype(c.dtype) if dtype[0] != "f" else wanted)


A, B = (np.random.default_rng(i).standard_normal((300, 300)) for i in (1, 2))
REACHED = {
    "@": lambda: A @ B,
    "transposed": lambda: A.T @ B[::-1],
    "np.dot": lambda: np.dot(A, B),
    "np.dot, out=": lambda: np.dot(A, (x := A.copy()), out=x),
    "method": lambda: A.dot(B),
    "method, out": lambda: A.dot(B, A.copy()),
    "method, out=": lambda: A.dot(B, out=A.copy()),
    "np.dot by names": lambda: np.dot(A, B, out=None),
    "tensordot": lambda: np.tensordot(A.reshape(300, 15, 20), B.reshape(15, 20, 300), 2),
    "multi_dot": lambda: np.linalg.multi_dot([A, B, A]),
    "matrix_power": lambda: np.linalg.matrix_power(A, 3),
    "einsum": lambda: np.einsum("ij,jk,kl->il", A, B, A, optimize=True),
    "cov": lambda: np.cov(A),
    "corrcoef": lambda: np.corrcoef(A),
    "batch": lambda: np.stack([A, B]) @ B,
    "broadcast": lambda: np.matmul(A[None], np.stack([A, B])[:, ::-1]),
    "mixed": lambda: A.astype("f4") @ B,
    "few rows": lambda: np.matmul(A[:30], B),
}
INT64_BY_FLOAT64 = np.full((200, 200), 3)
LEFT = {
    "inner": lambda: np.inner(A, B),
    "einsum": lambda: np.einsum("ij,jk->ik", A[:50], B[:, :50]),
    "small": lambda: A[:64, :64] @ B[:64, :64],
    "thin": lambda: A[:7] @ B,
    "vector": lambda: A @ B[0],
    "objects": lambda: A[:9].astype(object) @ B,
    "booleans": lambda: (A > 0) @ (B > 0),
    "np.dot of two types": lambda: np.dot(A, B.astype("f4")),
    "np.dot of other bytes": lambda: np.dot(A.astype(">f8"), B.astype(">f8")),
    "method by name": lambda: A.dot(b=B),
    "method of a matrix": lambda: A.view(np.matrix).dot(B),
    "method of vectors": lambda: A[0].dot(B[0]),
    "np.dot of a matrix": lambda: np.dot(A.view(np.matrix), B),
    "tensordot of times": lambda: np.tensordot(INT64_BY_FLOAT64.view("m8[s]"), INT64_BY_FLOAT64, 1),
    "long double": lambda: A[:50].astype("g") @ B.astype("g"),
}


@pytest.mark.parametrize("name", REACHED)
def test_what_is_reached(name, request):
    wanted = REACHED[name]()
    seen = request.getfixturevalue("seen")
    found = REACHED[name]()
    assert seen and found.dtype == wanted.dtype
    scale = np.abs(wanted).max()
    assert np.abs(found - wanted).max() <= 1e-12 * scale


@pytest.mark.parametrize("name", LEFT)
def test_what_stays(name, request):
    wanted = LEFT[name]()
    seen = request.getfixturevalue("seen")
    np.testing.assert_array_equal(LEFT[name](), wanted)
    assert not seen


SYMMETRIC = {
    "a @ a.T": lambda a: (c := a @ a.T) - c.T,
    "np.dot(a.T, a)": lambda a: (c := np.dot(a[:, :400].T, a[:, :400])) - c.T,
    "a @ adjoint": lambda a: (c := a @ a.conj().T.copy()) - c.conj().T,
    "adjoint @ a": lambda a: (c := a.conj().T @ a) - c.conj().T,
    "np.cov": lambda a: (c := np.cov(a)) - c.conj().T,
    "batch": lambda a: (c := a[None, :300] @ a.conj().T[None, :, :300]) - c.conj().swapaxes(1, 2),
}


@pytest.mark.parametrize("dtype", ["c8", "c16", "f8"])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_what_is_symmetric_stays_so(off, dtype, name):
    a = np.random.default_rng(0).standard_normal((1500, 700, 2))
    a = (a if dtype == "f8" else a.view("c16"))[..., 0].astype(dtype)
    with falcon.accelerate(quiet=True):
        assert not SYMMETRIC[name](a).any()


def test_an_adjoint_with_nan_at_its_corners(off):
    a = np.random.default_rng(0).standard_normal((600, 400, 2)).view("c16")[..., 0]
    a[0, 0] = a[-1, -1] = complex(np.nan, 1)
    with falcon.accelerate(quiet=True):
        c = (a @ a.conj().T.copy())[1:-1, 1:-1]
    assert np.isfinite(c).all() and not (c - c.conj().T).any()


def test_the_bits_are_those_of_matmul(seen):
    out = np.empty_like(A)
    assert (falcon.matmul(A, B) == A @ B).all()
    assert np.matmul(A, B, out=out) is out
    assert (out == falcon.matmul(A, B)).all()
    a = A.copy()
    a @= B
    np.matmul(a, B, out=a)  # NumPy makes a copy of what overlaps
    assert (a == falcon.matmul(falcon.matmul(A, B), B)).all()


def test_falcons_own_calls_are_not_redirected(seen):
    for scheme in ("strassen", "classical"):
        falcon.gemm(A, B, scheme=scheme, backend="numpy")
    assert not seen


def test_other_array_types_see_numpys_ufunc(seen):
    class Other:
        def __array_ufunc__(self, ufunc, method, *inputs, **_):
            return ufunc is np.matmul

    assert A @ Other()
    assert falcon.matmul(A, Other())


def test_errors_reach_the_caller(seen, monkeypatch):
    def interrupted(a, b, out):
        raise KeyboardInterrupt("stop")

    monkeypatch.setattr(switch, "matmul", interrupted)
    with pytest.raises(KeyboardInterrupt, match="stop"):
        A @ B
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        A @ B[:-1]
    called, a, b = [], np.stack([A, B])[:, None], np.stack([B, A])  # two axes, two strides
    monkeypatch.setattr(switch, "matmul", lambda *_: called.append(0) or interrupted(*_))
    for x, out in ((a, None), (a.astype("f4"), None), (a, np.empty((2, 2, 300, 300), "O"))):
        with pytest.raises(KeyboardInterrupt, match="stop"):
            np.matmul(x, b, out=out, casting="unsafe")
        assert called.pop() == 0 and not called  # the loop stops


FRAMES = """
import signal, sys, traceback
import numpy as np
import falcon
from falcon._accelerate import switch

multiply = {
    "matmul": lambda x: (x + 0) @ (x + 0),
    "batch": lambda x: (np.stack([x, x]) + 0) @ (x + 0),
    "einsum": lambda x: np.einsum("ij,jk,kl->il", x + 0, x + 0, x + 0, optimize=True),
    "dot": lambda x: np.dot(x + 0, x + 0),
    "method": lambda x: (x + 0).dot(x + 0),
    "multi_dot": lambda x: np.linalg.multi_dot([x + 0, x + 0, x + 0]),
}[sys.argv[1]]

def owned(x):
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x.flags.owndata or x.base is not None

def chain(error, found):
    if error is not None and error not in found:
        found.append(error)
        for x in (error.__context__, error.__cause__, *getattr(error, "exceptions", ())):
            chain(x, found)
    return found

def older(kept):
    raise RuntimeError("older")

def frames_of(raised):
    # Multiply while another exception is handled; read all frames as debuggers do.
    try:
        older(x)
    except RuntimeError:
        try:
            multiply(x)
        except raised as error:
            found = error
        else:
            return 0
    told = traceback.TracebackException.from_exception(found, capture_locals=True)
    assert type(found).__name__ in "".join(told.format())
    frames = []
    for error in chain(found, []):
        for frame, _ in traceback.walk_tb(error.__traceback__):
            while frame is not None:
                frames.append(frame)
                frame = frame.f_back
    for frame in frames:
        arrays = [y for y in frame.f_locals.values() if isinstance(y, np.ndarray)]
        assert all(map(owned, arrays)), frame
    assert any("kept" in x.f_locals for x in frames)
    return len({x for x in frames if "falcon" in x.f_code.co_filename})

def interrupt(*_):
    raise KeyboardInterrupt

falcon.accelerate(quiet=True)
x = np.random.default_rng(0).standard_normal((1500, 1500))
with falcon.config(scheme="strassen", workspace_limit=1):
    assert frames_of(ValueError) > 3

signal.signal(signal.SIGALRM, interrupt)
for _ in range(100):
    signal.setitimer(signal.ITIMER_REAL, 0.03)
    deep = frames_of(KeyboardInterrupt)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if deep > 1:
        break

def rows(a):
    for row in a:
        yield row
        raise KeyError(len(a))

def product(a, b, out):
    try:
        view = a[..., ::2].T
        list(rows(view))
    except KeyError as error:
        last.append(error)
    caught = []
    for each in (a, b):
        try:
            np.zeros(-each.ndim, each)
        except Exception as error:
            caught.append(error)
    try:
        raise ExceptionGroup("both", caught) from last[-1]
    except ExceptionGroup:
        raise MemoryError(out.nbytes)

last = []
switch.matmul = switch.gram = product
frames_of(MemoryError)
print(len(last))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGALRM")
@pytest.mark.parametrize("name", ["matmul", "batch", "einsum", "dot", "method", "multi_dot"])
def test_no_frame_of_an_exception_keeps_an_array_without_memory(name):
    """NumPy frees its temporaries; who shows the variables of frames reads what they point at."""
    done = support.python("-c", FRAMES, name)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_errors_of_dot_are_numpys(off):
    def failed(on, *operands):
        with falcon.accelerate(on, quiet=True), pytest.raises(Exception) as found:
            np.dot(*operands)
        return found.type, str(found.value)

    small, columns, dates = A.astype("f4"), A.copy("F"), INT64_BY_FLOAT64.view("M8[s]")
    for operands in ((A, B[:-1]), (A, B, small), (A, B, columns), (dates, dates)):
        assert failed(True, *operands) == failed(False, *operands)


@pytest.mark.parametrize("multiply", [np.matmul, np.dot], ids=["matmul", "dot"])
def test_near_the_recursion_limit_numpy_multiplies(seen, multiply):
    """It needs no frames of Python."""

    def deeper(x, frames):
        return multiply(x, x) if frames == 0 else deeper(x, frames - 1)

    def reached(size):
        a, found = whole((size, size), "f8"), []
        wanted = multiply(a, a)
        sys.setrecursionlimit(len(inspect.stack()) + 150)
        try:
            with suppress(RecursionError):
                for frames in range(60, 200):
                    found.append(np.array_equal(deeper(a, frames), wanted))
        finally:
            sys.setrecursionlimit(before)
        assert all(found)
        return len(found)

    before = sys.getrecursionlimit()
    assert reached(SIZE) == reached(2) > 10


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i8"])
@pytest.mark.parametrize("mode", ["raise", "call", "ignore"])
@pytest.mark.parametrize("function", [np.matmul, np.dot])
def test_errstate_is_obeyed(seen, dtype, mode, function):
    a = np.full((SIZE, SIZE), 1 if dtype == "i8" else np.finfo(dtype).max, dtype)
    a[0, 1] = 0  # else a @ a is gram's
    with np.errstate(all=mode, call=lambda *_: None), suppress(FloatingPointError):
        function(a, a)
    assert bool(seen) == (mode == "ignore" or dtype == "i8")


def test_flags_of_casts_are_kept(seen):
    with pytest.warns(RuntimeWarning, match="overflow encountered in cast"):
        np.matmul(np.full((SIZE, SIZE), 1e300), B[:SIZE, :SIZE], dtype="f4", casting="unsafe")
    assert seen


def test_no_object_of_numpy_is_replaced(off):
    class Other:
        def __array_function__(self, function, types, args, kwargs):
            return function is np.dot and function._implementation is inner

    inner, early, values = np.dot._implementation, np.dot, dict(vars(np))

    def state():
        told = [(id(x), hash(x), repr(x), pickle.dumps(x)) for x in (np.dot, np.matmul, inner)]
        return told, np.dot.__reduce__(), vars(np.dot).keys(), np.dot.__doc__

    before, known = state(), Other()
    with falcon.accelerate(quiet=True):
        assert state() == before and pickle.loads(pickle.dumps(np.dot)) is early
        assert all(vars(np)[name] is x for name, x in values.items())
        assert np.dot(A, known) is np.dot(Other(), B) is early(known, A) is True
    assert state() == before and np.dot(known, A) is True


def test_settings_hold(seen):
    with falcon.config(scheme="strassen"):
        c = A @ B
    assert (c == falcon.matmul(A, B, scheme="strassen")).all()
