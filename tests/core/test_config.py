"""`config` in a block, `set_config` for the process; and the messages for their misuse."""

import gc
import sys
import threading

import numpy as np
import pytest

import falcon
from falcon._core.options import SETTINGS, settings

from .support import python

SHAPES = (64, 64), (64, 64)


@pytest.fixture
def restored():
    before = settings()
    yield
    falcon.set_config(**{name: getattr(before, name) for name in SETTINGS})


def test_set_config_is_for_all_threads(restored):
    seen, go = [], threading.Event()

    def work():
        go.wait()
        seen.append(falcon.plan(*SHAPES).method.label)

    running = threading.Thread(target=work)
    running.start()
    falcon.set_config(scheme="strassen")
    go.set()
    later = threading.Thread(target=work)
    later.start()
    running.join()
    later.join()
    assert seen == ["strassen", "strassen"]
    assert falcon.plan(*SHAPES).method.label == "strassen"


@pytest.mark.parametrize(("name", "said"), [("scheme", r"'strassen'\?"), ("backend", "gpu")])
def test_a_misspelt_name_among_the_settings(name, said):
    where = rf" \(set by FALCON_{name.upper()}, falcon.config or falcon.set_config\)"
    with falcon.config(**{name: "strasen"}):
        for given, pattern in (({}, said + where), ({name: "strasen"}, said + "$")):
            with pytest.raises(ValueError, match=pattern):
                falcon.plan(*SHAPES, **given)


@pytest.mark.filterwarnings("ignore:falcon.config.* alone changes nothing:RuntimeWarning")
def test_a_signal_while_a_block_begins():
    """Its handler may raise where a function begins or has called C: no setting stays."""

    def profiler(frame, event, _):
        nonlocal left
        if "falcon" in frame.f_code.co_filename and event in ("call", "c_return"):
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

    for count in range(1, 1000):
        left, block = count, falcon.config(scheme="strassen")
        sys.setprofile(profiler)
        try:
            with block:
                pass
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        assert settings().scheme == "auto"
        if left > 0:
            break
    assert 10 < count < 1000


def test_set_config_leaves_a_block_alone(restored):
    with falcon.config(scheme="winograd"):
        falcon.set_config(scheme="strassen", threads=1)
        assert settings().scheme == "winograd"
    assert settings().scheme == "strassen"
    assert settings().threads == 1
    assert settings().max_growth == 8.0  # and nothing of the block


def test_set_config_refuses_as_config_does(restored):
    before = settings()
    with pytest.raises(
        TypeError, match=r"set_config\(\) has no setting 'treads' \(did you mean 't"
    ):
        falcon.set_config(treads=1)
    with pytest.raises(ValueError, match="threads is 0; expected an integer >= 1"):
        falcon.set_config(max_growth=2.0, threads=0)
    assert settings() is before
    with pytest.raises(TypeError, match="has no setting 'treads'"):  # at the call, without a block
        falcon.config(treads=1)


def test_config_without_with_is_noticed():
    with pytest.warns(RuntimeWarning, match=r"config\(...\) alone changes nothing: .*set_config"):
        falcon.config(threads=1)
        gc.collect()


def test_config_decorates(recwarn):
    @falcon.config(scheme="strassen")
    def label():
        return falcon.plan(*SHAPES).method.label

    assert [label(), label()] == ["strassen", "strassen"]
    assert falcon.plan(*SHAPES).method.label == "classical"
    del label
    gc.collect()
    assert not recwarn


@pytest.mark.parametrize(
    "value, expected",
    [
        ("64MiB", 2**26),
        ("1.5G", 3 * 2**29),
        ("1000", 1000),
        (np.uint64(1000), 1000),
        (None, None),
        ("0", 0),
        (" 2 kb ", 2048),
        ("1t", 2**40),
        ("10B", 10),
    ],
)
def test_sizes(value, expected):
    with falcon.config(workspace_limit=value) as inside:
        assert inside.workspace_limit == expected
        assert inside.workspace_limit is None or type(inside.workspace_limit) is int
    if expected is not None:
        options = falcon.plan(*SHAPES, workspace_limit=value).options
        assert options.workspace_limit == expected
    options = falcon.plan(*SHAPES, max_growth=np.float32(2), threads=np.int8(1)).options
    assert (options.max_growth, options.threads) == (2.0, 1)
    assert type(options.threads) is int


@pytest.mark.parametrize("name", ["verbose", "tuned"])
def test_switches(name):
    with pytest.raises(TypeError, match=f"{name} is 'no'; expected True or False"):
        falcon.config(**{name: "no"})


GEMM = "import falcon; a = [[1.0]] * 1; print(falcon.gemm(a, a)[0, 0])"
LARGE = "import falcon, numpy as np; a = np.ones((1100, 1100)); print(falcon.gemm(a, a)[0, 0])"


def test_misspelt_variables_are_logged():
    out, err = python(GEMM, FALCON_NUM_THREDS="1", FALCON_SHCEME="auto", FALCON_HOST="other")
    assert out == "1.0\n"
    assert sorted(err.splitlines()) == [
        "falcon: environment variable FALCON_NUM_THREDS is ignored (did you mean "
        "'FALCON_NUM_THREADS'?)",
        "falcon: environment variable FALCON_SHCEME is ignored (did you mean 'FALCON_SCHEME'?)",
    ]


BLOCK = "import sys; sys.modules['falcon._cpu._core'] = None; "
WITHOUT_KERNELS = [(LARGE, {"FALCON_ISA": "avx9"}, "FALCON_ISA is 'avx9'"),
                   (BLOCK + LARGE, {}, "install a C compiler and reinstall")]  # fmt: skip


@pytest.mark.parametrize(("code", "environment", "why"), WITHOUT_KERNELS)
def test_kernels_that_do_not_run_are_logged(code, environment, why):
    out, err = python(code, **environment)
    assert out == "1100.0\n"
    assert err.startswith("falcon: its own kernels do not run (NumPy's BLAS does): ")
    assert why in err and err.count("\n") == 1
