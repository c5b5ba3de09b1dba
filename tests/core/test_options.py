"""Options: environment, `falcon.config`, argument, in this order; and the number of threads."""

import inspect
import os
import pickle
import re
import time
from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest

import falcon
from falcon._core import environment, keywords, options
from falcon._core.options import FIELDS, Options, settings, thread_count
from falcon._tools import cpus
from falcon._tools.checks import parse_bytes

from ..support import python

VARIABLES = {
    "FALCON_BACKEND": ("numpy", "backend", "numpy"),
    "FALCON_SCHEME": ("strassen", "scheme", "strassen"),
    "FALCON_MAX_GROWTH": ("3.5", "max_growth", 3.5),
    "FALCON_NUM_THREADS": ("3", "threads", 3),
    "FALCON_WORKSPACE_LIMIT": ("2MiB", "workspace_limit", 2 * 2**20),
    "FALCON_MEMORY_LIMIT": ("2MiB", "memory_limit", 2 * 2**20),
    "FALCON_CHECK": ("none", "check", "none"),
    "FALCON_VERBOSE": ("yes", "verbose", True),
}
ONES = np.ones((64, 64))


@pytest.fixture
def fresh(monkeypatch, doors):
    """No variables of falcon in the environment, and none read yet."""
    for name in (*VARIABLES, "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    doors.environment()
    environment.openmp_threads.cache_clear()
    yield monkeypatch
    environment.openmp_threads.cache_clear()


@pytest.mark.parametrize("variable", VARIABLES)
def test_environment(fresh, variable):
    text, name, value = VARIABLES[variable]
    fresh.setenv(variable, text)
    assert getattr(settings(), name) == value
    fresh.setenv(variable, "changed later")
    assert getattr(settings(), name) == value, "the environment is read once"


@pytest.mark.parametrize(
    "variable, text",
    [("FALCON_NUM_THREADS", "many"), ("FALCON_NUM_THREADS", "0"), ("FALCON_NUM_THREADS", ""),
     ("FALCON_MAX_GROWTH", "0.5"), ("FALCON_MAX_GROWTH", "nan"), ("FALCON_MAX_GROWTH", "abc"),
     ("FALCON_CHECK", "always"), ("FALCON_WORKSPACE_LIMIT", "-1"),
     ("FALCON_WORKSPACE_LIMIT", "1 parsec"), ("FALCON_VERBOSE", "maybe"),
     ("FALCON_OVERSUBSCRIBE", "maybe")],
)  # fmt: skip
def test_a_bad_variable_is_named(fresh, variable, text):
    fresh.setenv(variable, text)
    environment.oversubscribes.cache_clear()
    said = f"environment variable {variable}='{text}': .*(expected|int|float)"
    with pytest.raises(ValueError, match=said):
        falcon.plan(ONES, ONES)


def test_config_nests_and_restores(fresh):
    with falcon.config(scheme="strassen", workspace_limit=10) as outer:
        assert outer.scheme == "strassen"
        with falcon.config(scheme="classical"):
            assert settings().scheme == "classical"
            assert settings().workspace_limit == 10
        assert settings() == outer
        with pytest.raises(ZeroDivisionError), falcon.config(scheme="classical"):
            _ = 1 / 0
        assert settings() == outer
    assert settings() == Options()


def test_arguments_come_before_config():
    with falcon.config(scheme="strassen", max_growth=2.0, threads=3, backend="numpy"):
        assert falcon.plan(ONES, ONES).scheme.name == "strassen"
        assert falcon.plan(ONES, ONES).threads == 3
        assert falcon.plan(ONES, ONES, threads=2).threads == 2
        assert falcon.plan(ONES, ONES, scheme="winograd").scheme.name == "winograd"
        assert falcon.plan(ONES, ONES, scheme="classical").scheme is None
        plan = falcon.plan(ONES, ONES, scheme="auto", threads=None, max_growth=None)
        assert (plan.scheme.name, plan.threads) == ("strassen", 3)


@pytest.mark.parametrize(
    "changes, error, pattern",
    [
        (
            {"shceme": "auto"},
            TypeError,
            r"config\(\) has no setting 'shceme' \(did you mean 'scheme'\?\); known: arithmetic",
        ),
        ({"scheme": None}, TypeError, "scheme is of type NoneType; expected a name or a Scheme"),
        ({"max_growth": True}, TypeError, "max_growth is True; expected a number"),
        ({"check": None}, ValueError, "check is None; expected one of 'none', 'finite', 'verify'"),
    ],
)
def test_bad_settings(changes, error, pattern):
    before = settings()
    with pytest.raises(error, match=pattern), falcon.config(**changes):
        pass
    assert settings() == before


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1e6", "1 MiB 2", "1PiB", "0x10"])
def test_parse_bytes_refuses(text):
    with pytest.raises(ValueError, match="expected a number of bytes such as"):
        parse_bytes(text)


def test_thread_count(fresh):
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert 1 <= thread_count() <= available
    fresh.setenv("OMP_NUM_THREADS", "5,2")
    assert 1 <= thread_count() <= available, "it is read once"
    environment.openmp_threads.cache_clear()
    assert thread_count() == 5
    for nonsense in ("", "0", "-1", "all"):
        fresh.setenv("OMP_NUM_THREADS", nonsense)
        environment.openmp_threads.cache_clear()
        assert 1 <= thread_count() <= available
    fresh.setenv("OMP_NUM_THREADS", "5")
    environment.openmp_threads.cache_clear()
    with falcon.config(threads=4):
        assert thread_count() == 4
        assert thread_count(7) == 7


def test_cpu_quota(fresh):
    fresh.setattr(cpus, "cpu_quota", lambda: 1)
    time.sleep(2 * cpus._CPUS_SECONDS)  # the quota is cached for so long
    assert thread_count() == 1
    fresh.setattr(cpus, "cpu_quota", lambda: 10**6)
    time.sleep(2 * cpus._CPUS_SECONDS)
    assert 1 <= thread_count() < 10**6


def test_verbose_logs_a_fresh_plan(caplog):
    caplog.set_level("INFO", "falcon")
    shapes = (61, 62), (62, 63)
    with falcon.config(verbose=True):
        falcon.plan(*shapes, scheme="strassen")
        falcon.plan(*shapes, scheme="strassen")
    assert len(caplog.records) == 1
    assert "strassen on backend" in caplog.text


# --- options as keywords ----------------------------------------------------------------------


TAKEN = {
    **dict.fromkeys((falcon.gemm, falcon.matmul), options.KEYWORDS),
    **{falcon.pack: options.PACKING, falcon.plan: options.PLANNING, falcon.tune: options.TUNING},
}


@pytest.mark.parametrize("function", TAKEN)
def test_options_are_keywords_with_documentation(function):
    names = TAKEN[function]
    parameters = inspect.signature(function).parameters
    assert set(names) == parameters.keys() & FIELDS.keys()
    assert "{options}" not in function.__doc__
    for name in names:
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert f"\n    {name} : " in function.__doc__


def test_config_documents_every_option():
    for name in options.SETTINGS:
        assert f"\n    {name} : " in falcon.config.__doc__


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        (keywords.CallOptions, options.KEYWORDS),
        (keywords.PlanningOptions, options.PLANNING),
        (keywords.PackingOptions, options.PACKING),
        (keywords.TuningOptions, options.TUNING),
        (keywords.Settings, options.SETTINGS),
    ],
)
def test_the_types_for_editors_are_those_of_the_fields(declared, names):
    """Type checkers cannot derive them: a type is what the documentation states, or None."""
    types = declared.__annotations__
    assert set(types) == set(names)
    for name in names:
        option = FIELDS[name]
        stated = option.metadata["text"].split("\n")[0]
        kinds = {"str"} if stated.startswith("{") else set(stated.split(" or "))
        defers = declared is not keywords.Settings and option.default != "auto"
        kinds |= {"None"} if defers or option.default is None else set()
        declared_as = re.sub("Check|Overflow", "str", types[name].__forward_arg__)
        declared_as = re.sub(r"Literal\[(.*?)\]", r"\1", declared_as).replace("'", '"')
        declares = set(declared_as.split(" | "))
        assert declares == kinds, name


def test_a_flag_and_a_variable_are_read_alike():
    for name, option in FIELDS.items():
        texts = {
            "float": "2.5",
            "float | None": "0.5",
            "bool": "1",
            "bool | None": "1",
            "bool | str": "rows",
        }
        text = texts.get(option.type, "3")
        if name in options.SETTINGS and name not in ("arithmetic", "check", "overflow"):
            value = options.parsed(name, text)
            variables = options.as_variables({"backend": None, name: value})
            assert variables == {option.metadata["variable"]: str(value)}
            assert options.parsed(name, str(value)) == value


def test_options_know_which_are_keywords():
    names = options.KEYWORDS
    with falcon.config(threads=2, check="none"):
        found = options.merge_keywords(
            "gemm", names, {"threads": 2, "scheme": "auto", "centre": None}
        )
        assert found.given == {"threads"} and not settings().given
        assert found != settings() and replace(found, given=frozenset()) == settings()
    assert "given" not in FIELDS and {x.name for x in fields(Options)} == {*FIELDS, "given"}
    made = options.merge_keywords(
        "gemm", names, {"centre": True, "threads": 3, "arithmetic": "native"}
    )
    again = pickle.loads(pickle.dumps(made))
    assert again == made and hash(again) == hash(made) and again.given == made.given


def test_equal_options_have_equal_pickles_in_every_process():
    """Of which Dask makes the keys of tasks."""
    code = """if True:
        import hashlib, pickle, falcon
        how = dict(scheme="strassen", threads=1, max_growth=9, workspace_limit=10**9)
        plan = falcon.plan((300, 300), (300, 300), backend="numpy", **how)
        assert len(plan.options.given) == 5
        print(hashlib.sha256(pickle.dumps(plan)).hexdigest())
    """
    assert len({python("-c", code, PYTHONHASHSEED=x).stdout for x in "123"}) == 1


@pytest.mark.parametrize("function", [falcon.gemm, falcon.matmul, falcon.plan])
def test_an_unknown_keyword_is_named(function):
    with pytest.raises(
        TypeError, match=r"keyword argument 'treads' \(did you mean 'threads'\?\); its options"
    ):
        function(ONES, ONES, treads=2)
    with pytest.raises(TypeError, match=r"pack\(\) got an unexpected keyword argument 'check'"):
        falcon.pack(ONES, check="none")


@pytest.mark.parametrize(
    ("call", "meant"),
    [(partial(falcon.gram, dtype="f4"), None), (partial(falcon.matmul, ONES, alpha=2), None),
     (partial(falcon.pack, a=ONES), None), (partial(falcon.plan, ONES, ONES, beta=2), None),
     (partial(falcon.matmul, ONES, dtpye="f4"), "dtype"),
     (partial(falcon.gemm, ONES, alphas=2), "alpha"), (partial(falcon.gram, weight=[1]), "weights"),
     (partial(falcon.tensordot, ONES, axess=1), "axes"),
     *((partial(falcon.gram, **{word: True}), "centred") for word in ("centre", "centered"))],
)  # fmt: skip
def test_only_words_that_a_function_takes_are_suggested(call, meant):
    with pytest.raises(TypeError, match="unexpected keyword argument") as told:
        call(ONES)
    found = re.findall(r"did you mean '(\w+)'", str(told.value))
    assert found == ([] if meant is None else [meant])
