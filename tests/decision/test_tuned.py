"""Choices that `falcon.tune` measured: stored, and used within the limits."""

import json
import time

import numpy as np
import pytest

import falcon
from falcon._core.dtypes import dtype_of
from falcon._core.options import Options
from falcon._core.problem import Problem
from falcon._core.rates import Rates
from falcon._front import tune as tune_module
from falcon._front.tune import COLUMNS, Measured, compare, rivals
from falcon._tools.timing import Record
from falcon.decision import machine as machine_module
from falcon.decision.store import Choice, Fastest

from ..doors import Candidate, digest

SHAPE = (260, 270, 280)


@pytest.fixture(autouse=True)
def known(folder, doors):
    """Nothing, whatever other tests register."""
    doors.nothing_registered()
    machine_module.replaced()
    yield
    machine_module.replaced()


def plan(**options):
    M, N, K = SHAPE
    return falcon.plan((M, K), (K, N), "float32", **options)


def remember(backend, scheme, problem=None):
    found = Fastest("", Choice(backend, scheme), "measured")
    choices = {digest(problem or plan().problem): found}
    machine_module.add(tune_module.available_backends(), choices=choices)


def test_used_unless_it_is_turned_off():
    remember("numpy", "strassen")
    found = plan()
    assert (found.backend.name, found.scheme.name) == ("numpy", "strassen")
    assert (found.tuned, found.why) == (True, "measured")
    assert plan(scheme="classical").scheme is None
    assert plan(scheme="winograd").scheme.name == "winograd"
    with falcon.config(tuned=False):
        assert plan().scheme is None
    assert plan().guarded, "as a choice, not as a scheme by name"
    remember("numpy", "of another process")
    assert plan().scheme is None


def test_the_next_process_remembers_unless_another_profile_is_pinned(doors, tmp_path):
    remember("numpy", "hopcroft-kerr[3x3x2]")
    doors.new_process()
    assert plan().scheme.format == (3, 3, 2)
    doors.environment(FALCON_PROFILE=str(tmp_path / "pinned.json"))
    doors.new_process()
    assert plan().scheme is None


def test_limits_come_first():
    remember("numpy", "strassen")
    assert plan(max_growth=1.5).scheme is None
    assert plan(workspace_limit=0).scheme is None
    if falcon.show_config("dict")["backends"]["cpu"] == "available":
        assert plan(backend="cpu").backend.name == "cpu"


def test_a_symmetric_product_of_tuned_sizes_is_guarded():
    """Sizes that were tuned for an ordinary product; columns of very different norms."""
    remember("numpy", "strassen", falcon.plan((512, 512), (512, 512), "float32").problem)
    x = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    x[:, 7] *= 1e6
    got, exact = falcon.matmul(x.T, x).astype(np.float64), x.T.astype(np.float64) @ x
    norms = np.linalg.norm(x.astype(np.float64), axis=0)
    assert np.abs((got - exact) / np.outer(norms, norms)).max() < 1e-6
    assert not falcon.plan(x.T, x).tuned


@pytest.mark.parametrize("rounds", [2, 6])
def test_tune_remembers_the_fastest(doors, rounds):
    """On a made-up clock on which NumPy's Strassen is the fastest."""

    def turns(sides, count, **_):
        assert count == rounds
        return [Record(x.name, (10.0 - i, 11.0 - i) * (count // 2)) for i, x in enumerate(sides)]

    doors.turns(turns)
    shape, ticks = (1030, 1040, 1050), []
    (found,) = falcon.tune(
        [shape], backend="numpy", rounds=rounds, candidates=3, tick=lambda: ticks.append(1)
    )
    fastest = found.measured[0]
    assert fastest.seconds == min(x.seconds for x in found.measured)
    assert len(found.measured) >= 3
    assert ticks == [1]
    assert str(found).startswith("1030 x 1050 @ 1050 x 1040 float32: ")
    chosen = falcon.plan((1030, 1050), (1050, 1040), "float32")
    assert chosen.method.label == fastest.candidate.method.label


def test_nothing_is_stored_of_a_disturbed_machine(doors):
    why = "this process had 10% of a CPU"
    doors.turns(lambda sides, *_, **__: [Record(x.name, (10.0 - i,) * 5, why)
                                         for i, x in enumerate(sides)])  # fmt: skip
    (found,) = falcon.tune([(1030, 1040, 1050)], backend="numpy")
    assert not falcon.machine().choices
    assert {x.verdict for x in found.measured} == {"undecided"}
    assert str(found) == (
        f"not stored: 1030 x 1050 @ 1050 x 1040 float32: other programs disturbed it ({why}); run "
        "it again when the machine is quiet"
    )


def test_measuring_the_machine_says_which_choices_change(monkeypatch):
    def measured(backends, rows, threads, tick, seconds):
        slow_sums = Rates(1e11, 1e6, 1e6)
        table = {(x.name, "float64", 1): slow_sums for x in backends}
        return machine_module.add(backends, rates=table), {"numpy float32": "busy"}

    monkeypatch.setattr(tune_module, "measure_all", measured)
    report = tune_module.measure_machine(["float64"], [1], print)
    assert 0 < len(report.changed) <= 6
    for line in report.changed:
        text, gain = line.removesuffix(" x as fast").rsplit(" ", 1)
        assert text.endswith("-> classical, predicted")
        assert float(gain) > 1
    said = str(report).splitlines()
    assert said[-1] == report.changed[-1]
    assert f"{len(report.changed)} of the choices for usual shapes changed" in said
    assert "not stored: numpy float32: busy" in said


@pytest.mark.parametrize("times", [(0.999,), (0.9, 0.8, 1.1)])  # by too little; undecided
def test_tune_keeps_the_choice_of_the_model_unless_clearly_slower(doors, times):
    def turns(sides, rounds, **_):
        one = [1.0] * len(times)
        return [Record(x.name, tuple(times if i else one)) for i, x in enumerate(sides)]

    doors.turns(turns)
    (found,) = falcon.tune([(1030, 1040, 1050)], backend="numpy", rounds=1)
    model = falcon.plan((1030, 1050), (1050, 1040), "float32", backend="numpy")
    assert found.measured[0].candidate.method.label == model.method.label


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shapes": [(1, 2)]}, "shape"),
        ({"shapes": [(1, 2, 0)]}, "shape"),
        ({"shapes": [(1, 2, 2.5)]}, "shape"),
        ({"shapes": [(True, 2, 2)]}, "shape"),
        ({"shapes": (64, 64, 64)}, "several in a list"),
        ({"shapes": [], "candidates": 0}, "candidates is 0"),
        ({"shapes": [], "rounds": 0}, "rounds is 0"),
        ({"shapes": [], "backend": "abacus"}, "backend is 'abacus'"),
    ],
)
def test_tune_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        falcon.tune(**options)
    with pytest.raises(TypeError, match="dtype"):
        falcon.tune([], dtype="U3")
    with pytest.raises(TypeError, match=r"rounds is None; expected an integer$"):
        falcon.tune([], rounds=None)


def test_what_was_asked_for_is_compared_with_what_auto_would_take():
    made = falcon.plan((1030, 1050), (1050, 1040), "float64", scheme="strassen", backend="numpy")
    first, *others = compare(made, rivals(made, 4), 1, seconds=0.0)
    assert first.candidate.method is made.method
    assert first.candidate.total > 0  # predicted
    assert first.ratio.median == 1.0
    assert {x.candidate.method.label for x in others} >= {"classical"}
    assert "strassen" not in {x.candidate.method.label for x in others}
    assert all(x.seconds > 0 for x in (first, *others))


def test_rivals_of_a_choice_that_was_not_compared():
    made = falcon.plan((300, 128), (128, 300), "float32")
    found = rivals(made, 4)
    assert found[0].method is made.method
    labels = [(x.method.backend, x.method.label) for x in found]
    assert len(set(labels)) == len(labels) >= 1
    assert ("numpy", "classical") in labels
    assert all(x.total > 0 for x in found)  # predicted, though nothing was compared
    integers = rivals(falcon.plan((300, 128), (128, 300), "int32"), 1)
    assert [x.total > 0 for x in integers if x.method.backend == "numpy"] in ([], [False])


def test_cells_of_a_table():
    made = falcon.plan((300, 128), (128, 300), "float32")
    for x in compare(made, rivals(made, 1), 1, seconds=0.0):
        label, backend, predicted, measured, error, ratio = x.cells
        assert (label, backend) == (x.candidate.method.label, x.candidate.method.backend)
        assert float(predicted) == pytest.approx(x.candidate.total * 1e3, rel=1e-3)
        assert float(measured) == pytest.approx(x.seconds * 1e3, rel=1e-3)
        over = x.candidate.total / x.seconds - 1
        assert float(error[:-1]) == pytest.approx(100 * over, abs=0.06)
        assert ratio == f"{x.ratio}, undecided" and len(x.cells) == len(COLUMNS)
    unknown = Measured(Candidate(made.method, ()), x.record, x.ratio, x.verdict)
    assert unknown.cells[2] == unknown.cells[4] == "-"


@pytest.mark.parametrize(
    "name", ["(" * 5000, "strassen@" * 40 + "strassen", "strassen@" * 6 + "9x9"]
)
def test_a_scheme_that_cannot_be(folder, doors, name):
    """It is ignored, and decisions go on."""
    remember("numpy", "strassen")
    (path,) = folder.glob("profile-*.json")
    path.write_text(path.read_text().replace('"strassen"', json.dumps(name)))
    doors.new_process()
    start = time.process_time()
    assert plan().scheme is None
    machine_module.replaced()
    assert plan().scheme is None
    assert time.process_time() - start < 60  # of CPU time: nothing of that size is made


def test_tune_keeps_what_was_done_until_ctrl_c(doors):
    doors.turns(lambda sides, *_, **__: [Record(x.name, (10.0 - i,) * 5)
                                         for i, x in enumerate(sides)])  # fmt: skip

    def tick():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        falcon.tune([(1030, 1040, 1050), (1100, 1100, 1100)], backend="numpy", tick=tick)
    assert len(falcon.machine().choices) == 1
    found = falcon.plan((1030, 1050), (1050, 1040), "float32")
    assert found.why.startswith("measured as the fastest by falcon.tune, 1.")


# (M, N, K), what differs from a product by two threads on the host, and the key.
KEYS = [
    ("float32", (300, 400, 500), {"device": 1, "threads": 1}, "ea9e6f4b9aac450a111a0f1f"),
    ("float32", (7, 9, 1), {}, "12d8ec4c7deaee9a965b104f"),
    ("float32", (7, 9, 1), {"headroom": 4.5}, "4959dcfd020e67fb0e71144c"),
    ("float64", (300, 400, 500), {"threads": 3}, "5ae1708a977d4945c2cb7fa9"),
    ("float64", (300, 400, 500), {"reproducible": True}, "c4a1c72e72ab155e592b2e08"),
    ("float64", (7, 9, 1), {"device": 1, "threads": 1}, "44ce9687846b8e2b3fecae6a"),
    ("complex64", (300, 400, 500), {}, "42137e072629a6f4c2c71f76"),
    ("complex64", (300, 400, 500), {"headroom": 4.5}, "89febdfeb0fa3f67e9ec5f42"),
    ("complex64", (7, 9, 1), {"threads": 3}, "e19b56d66ebfe91a06835c6e"),
    ("complex64", (7, 9, 1), {"reproducible": True}, "f0f0f0f014397d70cb3ae623"),
    ("int8", (300, 400, 500), {"device": 1, "threads": 1}, "e9c16c1cf1de16492d7c9cb0"),
    ("int8", (7, 9, 1), {}, "49f6453824c00bcad86b6d8f"),
    ("int8", (7, 9, 1), {"headroom": 4.5}, "946b816e1ab83a2606facf62"),
    ("int64", (300, 400, 500), {"threads": 3}, "9225ffd76679ec42d5782825"),
    ("int64", (300, 400, 500), {"reproducible": True}, "f1c2cee07e94eae007df0b3a"),
    ("int64", (7, 9, 1), {"device": 1, "threads": 1}, "13dc63a0bbe618034d74a565"),
    ("bfloat16", (300, 400, 500), {}, "30f893b150bed021a81b4ce1"),
    ("bfloat16", (300, 400, 500), {"headroom": 4.5}, "03a106257bf0a54aa2eae19e"),
    ("bfloat16", (7, 9, 1), {"threads": 3}, "254093becb74d1fc253e13df"),
    ("bfloat16", (7, 9, 1), {"reproducible": True}, "d3f0c14fcf940cac2e5545ae"),
    ("float16", (300, 400, 500), {"device": 1, "threads": 1}, "e898e5ace47989d688e0f5f3"),
    ("float16", (7, 9, 1), {}, "9a4d60d6f3ad085fd1eef00b"),
    ("float16", (7, 9, 1), {"headroom": 4.5}, "707a33e99d5510731954c9f4"),
    ("uint8", (300, 400, 500), {"threads": 3}, "6afdaeb8dfc85bf9ea3fae3e"),
    ("uint8", (300, 400, 500), {"reproducible": True}, "29d69b2b4b0010f1e5cb7a85"),
    ("uint8", (7, 9, 1), {"device": 1, "threads": 1}, "4ce5dc07a7de80158d8f3896"),
    ("int8 to int32", (300, 400, 500), {}, "2feeb855fb0f580e8273a7df"),
]  # fmt: skip


@pytest.mark.parametrize(("types", "sizes", "about", "key"), KEYS)
def test_keys_of_choices_stay(types, sizes, about, key):
    """Profiles that users keep hold them, and nothing else says of which problem a choice is."""
    operand, *result = (dtype_of(x) for x in types.split(" to "))
    about = {"threads": 2, "result": (*result, operand.result)[0], **about}
    assert digest(Problem.of_sizes(sizes, operand, Options(), **about)) == key
