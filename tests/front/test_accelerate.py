"""NumPy's own products on falcon: what is reached, what stays, on and off, workers, the profile."""

import inspect
import multiprocessing
import os
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
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
    assert python("-c", FRAMES, name) == (0, "1\n", "")


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


# --- on and off -----------------------------------------------------------------------------


def test_calls_and_blocks(off):
    assert not switch.is_on()
    with falcon.accelerate(quiet=True):
        assert switch.is_on()
        with falcon.accelerate(on=False):
            assert not switch.is_on()
        assert switch.is_on()
    assert not switch.is_on()
    falcon.accelerate(quiet=True)
    falcon.accelerate(quiet=True)
    with pytest.raises(ZeroDivisionError), falcon.accelerate(on=False):
        raise ZeroDivisionError
    assert switch.is_on()
    falcon.accelerate(on=False)
    assert not switch.is_on()
    with pytest.raises(TypeError, match="on is 1"):
        falcon.accelerate(1)


def test_a_thousand_times_from_eight_threads(off):
    wanted, stop = A @ B, threading.Event()

    def toggle(_):
        for _ in range(125):
            with falcon.accelerate(quiet=True):
                pass

    def multiply():
        while not stop.is_set():
            np.testing.assert_allclose(A @ B, wanted, rtol=1e-9, atol=1e-9)

    worker = threading.Thread(target=multiply)
    worker.start()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(toggle, range(8)))
    stop.set()
    worker.join()
    assert not switch.is_on()
    before = sys.getrefcount(switch._product)
    toggle(0)
    assert abs(sys.getrefcount(switch._product) - before) <= 1
    assert (wanted == A @ B).all()


@pytest.mark.parametrize("before", [False, True])
def test_a_signal_while_a_block_begins_or_ends(off, before):
    """Its handler may raise where a function begins or has called C: all is as before the block."""

    def profiler(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename == switch.__file__ and event in ("call", "c_return"):
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

    falcon.accelerate(before, quiet=True)
    for count in range(1, 1000):
        left = count
        sys.setprofile(profiler)
        try:
            with falcon.accelerate(not before, quiet=True):
                pass
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        assert switch.is_on() == before
        if left > 0:
            break
    assert 20 < count < 1000
    falcon.accelerate(quiet=True)
    falcon.accelerate(on=False)
    assert (np.dot(A, B) == np.inner(A, B.T)).all() and not switch.is_on()


def test_blocks_inside_blocks(off):
    """The innermost one counts, and one object may be used in itself."""
    on = falcon.accelerate(quiet=True)
    falcon.accelerate(on=False)
    other = falcon.accelerate(on=False)
    for blocks in ([on, other, on], [other, on, on], [on, on, other]):
        with blocks[0], blocks[1]:
            with blocks[2]:
                assert switch.is_on() == (blocks[2] is on)
            assert switch.is_on() == (blocks[1] is on)
        assert not switch.is_on()


AT_THE_END = """
import sys
import numpy as np
import falcon
falcon.accelerate(quiet=True)
class Last:
    def __init__(self):
        self.x = np.ones((400, 400))
    def __del__(self):
        print((self.x @ self.x)[0, 0], self.x.dot(self.x)[0, 0])
{held} = Last()
"""


@pytest.mark.parametrize("held", ["last", "np.last", "falcon.last", "Last.last"])
def test_a_product_while_python_ends(held):
    """NumPy multiplies: what falcon would import can no longer be."""
    status, out, err = python("-c", AT_THE_END.format(held=held))
    assert (status, out, err) == (0, "400.0 400.0\n", "")


def test_numpy_is_left_alone_if_its_loops_are_not_as_expected(off, monkeypatch):
    monkeypatch.setattr(np, "dot", np.inner)
    with falcon.accelerate(quiet=True):
        assert (np.dot(A, B) == np.inner(A, B)).all()

    class Other:
        original = staticmethod(lambda ufunc: ufunc)

        @staticmethod
        def replace(*_):
            raise RuntimeError("no loop for type 11")

    monkeypatch.setattr(switch, "_loops", Other)
    with pytest.raises(RuntimeError, match="is left alone: no loop for type 11"):
        falcon.accelerate()
    assert not switch.is_on()
    monkeypatch.setattr(switch, "_loops", None)
    with pytest.raises(RuntimeError, match="not built"):
        falcon.accelerate()


# --- processes ------------------------------------------------------------------------------


def python(*arguments, **how):
    done = support.python(*arguments, status=None, **how)
    return done.returncode, done.stdout, done.stderr


def is_on_here(_):
    return "falcon" in sys.modules and switch.is_on()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_children_inherit(off):
    with falcon.accelerate(quiet=True), multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map(is_on_here, [0]) == [True]


PARENT = """
import subprocess, sys, falcon
told = "; from falcon._accelerate.switch import is_on; x = falcon._core.options.base()"
told += "; print(is_on(), x.max_growth, x.scheme, x.threads)"
def child():
    code = "import numpy, falcon" + told if len(sys.argv) == 1 else sys.argv[1] + told
    subprocess.run([sys.executable, "-c", code], check=True)
falcon.set_config(max_growth=2.5)
falcon.accelerate(inherit=True, quiet=True)
child()
falcon.set_config(max_growth=1.0, scheme=falcon.schemes.get("strassen@winograd"))
child()
falcon.accelerate(on=False, inherit=True)
child()
"""
FIRST = {
    "numpy": "import numpy, falcon",
    "falcon": "import falcon",
    "a question": "import importlib.util as u; u.find_spec('numpy'); u.find_spec('numpy'); import "
    "numpy, falcon",
}


@pytest.mark.parametrize("first", FIRST)
def test_started_children_inherit(first):
    """Whatever they ask or import first, with the settings that differ from the environment's."""
    status, out, err = python("-c", PARENT, FIRST[first], FALCON_NUM_THREADS="1")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "True 2.5 auto 1",
        "True 1.0 strassen@winograd 1",
        "False 8.0 auto 1",
    ]


def test_a_subinterpreter_is_refused():
    """Its settings and exceptions would be lost: loops enter the main interpreter."""
    pytest.importorskip("_testcapi")
    code = """if True:
        import numpy as np, falcon
        a = np.ones((300, 300))
        try:
            falcon.accelerate()
        except RuntimeError as error:
            print(error, (a @ a == 300).all(), np.dot(a, a)[0, 0])
    """
    script = f"import _testcapi, warnings; _testcapi.run_in_subinterp({code!r})"
    status, out, _ = python("-W", "ignore", "-c", script)
    assert status == 0 and "is left alone: this is a subinterpreter" in out
    assert "main interpreter only" in out and out.endswith(" True 300.0\n")


def test_importing_falcon_switches_nothing_on():
    script = "import falcon, numpy as np; print(np.dot.__module__, falcon.accelerate.__name__)"
    status, out, err = python("-c", script, FALCON_ACCELERATE="1")
    assert (status, out, err) == (0, "numpy accelerate\n", "")


SCRIPT = """
import subprocess, sys
import numpy as np
import falcon
from falcon._accelerate.switch import is_on
child = "import sys; from falcon._accelerate.switch import is_on; print('child', is_on())"
if __name__ == "__main__":
    print(is_on(), sys.argv[1:], flush=True)
    a = np.ones((300, 300))
    a @ a
    subprocess.run([sys.executable, "-c", "import numpy; " + child], check=True)
    sys.exit(3)
"""


def test_run(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    name, path = str(tmp_path / "script.py"), os.pathsep.join(map(str, (support.ROOT, tmp_path)))
    call = "-m", "falcon", "run", "--profile", name, "--x", "1"
    status, out, err = python(*call, PYTHONPATH=path)
    assert status == 3, err
    assert out == "True ['--x', '1']\nchild True\n"
    assert "NumPy's matrix products run on falcon" in err
    assert "300 x 300 @ 300 x 300 float64" in err and "script.py:10 " in err
    verdict = " ".join(err.rpartition("\n\n")[2].splitlines())
    assert "this program gains about 1.00 x, by the cost model" in verdict


def test_run_without_a_file(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for name, why in (("missing.py", "No such file or directory: "), ("loop", "symbolic links: ")):
        status, _, err = python("-m", "falcon", "run", str(tmp_path / name))
        assert status == 2 and err.startswith("falcon run: ") and why in err and name in err
    status, _, err = python("-m", "falcon", "run", "-", FALCON_MAX_GROWTH="lots")
    assert (status, err) == (2, "falcon run: environment variable FALCON_MAX_GROWTH='lots': "
                             "max_growth is 'lots'; expected a number\n")  # fmt: skip


TOLD = """
import os, sys
print(__name__, os.path.basename(globals().get("__file__", "<stdin>")), sys.argv)
print(sys.path[0].replace(str(os.getpid()), "self"), sys.stdin.read())
try: {}["key"]
except KeyError as error: raise OSError("mine") from error
"""
LATE = """
import logging, pickle, threading
class Own: pass
def late():
    threading.main_thread().join()
    logging.basicConfig(format="own %(message)s")
    logging.warning(type(pickle.loads(pickle.dumps(Own()))))
threading.Thread(target=late).start()
"""
HOOK = "import sys; sys.excepthook = lambda _, x, at: print(at.tb_next, x.__traceback__ is at)\n"
PROGRAMS = {
    **dict.fromkeys(("x.py -- -m", ". folder", "-m x --profile", "- input", "/dev/stdin"), TOLD),
    "x.py late": LATE,
    "x.py hook": HOOK + "raise BrokenPipeError",
    "x.py syntax": "x = (",
    "x.py Ctrl-C": "import signal; signal.raise_signal(signal.SIGINT)",
    "x.py exit": "raise SystemExit('bye')",
}


@pytest.mark.skipif(sys.platform == "win32", reason="no /dev/stdin, other signals")
@pytest.mark.parametrize("words", PROGRAMS)
def test_programs_run_as_by_python(tmp_path, words):
    program, words = PROGRAMS[words], words.split()
    for file in ("x.py", "__main__.py"):
        (tmp_path / file).write_text(program)
    where = {"cwd": tmp_path, "input": program}
    status, out, err = python("-m", "falcon", "run", *words, where=where)
    err = "".join(x for x in err.splitlines(keepends=True) if not x.startswith("falcon: "))
    assert (status, out, err) == python(*words, where=where)


def test_what_is_said_once(off, capsys, monkeypatch):
    """That it is on, and what it costs where a plan costs accuracy."""
    for scheme, told in (("strassen", "float64 product grows 2.0 times"), ("classical", "")):
        monkeypatch.setattr(switch, "_was_told", False)
        with falcon.config(scheme=scheme):
            for _ in range(2):
                with falcon.accelerate():
                    pass
        err = capsys.readouterr().err
        assert err.count("falcon.accelerate(on=False)") == 1
        assert told in err and err.count("\n") == (2 if told else 1)


def test_settings_are_none_of_its_arguments(off):
    with pytest.raises(
        TypeError, match=r"no 'scheme'; settings .*: falcon.set_config\(scheme=...\)"
    ):
        falcon.accelerate(scheme="strassen")
    with pytest.raises(TypeError, match=r"takes no 'loud'$"):
        falcon.accelerate(loud=True)
    assert not switch.is_on()
