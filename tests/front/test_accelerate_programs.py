"""NumPy's own products on falcon: on and off, by blocks and threads, in workers and programs."""

import contextlib
import itertools
import multiprocessing
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import falcon
from falcon._accelerate import switch

from .. import support

if switch._loops is None:
    pytest.skip("falcon was built without NumPy's headers", allow_module_level=True)

A, B = (np.random.default_rng(i).standard_normal((300, 300)) for i in (1, 2))


@pytest.fixture
def off():
    falcon.accelerate(on=False)
    yield
    falcon.accelerate(on=False)


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


@pytest.mark.parametrize("at_once", [False, True])
def test_a_block_takes_back_its_own_call_alone(off, at_once):
    """Calls of two threads, and their blocks, in every order; left at once, or in the end."""
    for asked in itertools.product((False, True), repeat=2):
        for order in itertools.permutations((0, 0, 1, 1)):
            falcon.accelerate(on=False)
            switches, waiting, left = [None, None], [], []
            for i in order:
                if switches[i] is None:
                    switches[i] = falcon.accelerate(asked[i], quiet=True)
                    waiting.append(i)
                    continue
                waiting.remove(i)
                with switches[i] if at_once else contextlib.nullcontext():
                    if not at_once:
                        left.append(switches[i])
                        left[-1].__enter__()
                    assert switch.is_on() == asked[i]
                if at_once:
                    assert switch.is_on() == (asked[waiting[-1]] if waiting else False)
            for entered in left:
                entered.__exit__()
            assert not switch.is_on()


@pytest.mark.parametrize("on", [False, True])
def test_a_call_stays_that_no_block_takes_back(off, on):
    one = falcon.accelerate(not on, quiet=True)
    falcon.accelerate(on, quiet=True)
    with falcon.accelerate(not on, quiet=True):
        pass
    assert switch.is_on() == on
    for _ in range(2):  # begun again, it takes back no second call
        with one:
            assert switch.is_on() != on
        assert switch.is_on() == on
    for _ in range(100):
        falcon.accelerate(quiet=True)
    assert len(switch._calls) < 3


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
    with pytest.raises(TypeError, match="takes no 'loud'; its options are"):
        falcon.accelerate(loud=True)
    assert not switch.is_on()
