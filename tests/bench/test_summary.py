"""The table of falcon beside NumPy and its last line, within 100 columns."""

import copy

import pytest

from falcon.__main__ import main
from falcon.bench import in_process, records, summary
from falcon.bench.workloads import Shape

from .support import whole_run


@pytest.fixture(scope="module")
def found():
    document = whole_run()
    document["peers"] = []
    return document


@pytest.fixture
def document(found):
    return copy.deepcopy(found)


def pack(cases, ratio):
    """Add a side with a packed B, which takes `ratio` of falcon's time."""
    for case in cases:
        side = copy.deepcopy(case["sides"]["falcon"])
        side["seconds"] = [ratio * x for x in side["seconds"]]
        side["extra_bytes"] = 2 * case["K"] * case["N"] * (4 if case["dtype"] == "float32" else 8)
        case["label"], case["sides"][records.PACKED] = "gate_up", side


def test_which_documents(document):
    assert summary.covers(document)
    assert not summary.covers({**document, "cases": []})
    assert not summary.covers({**document, "peers": [{"peer": "mkl"}]})
    document["cases"][0]["sides"]["torch"] = document["cases"][0]["sides"]["numpy"]
    assert not summary.covers(document)


def test_a_row_per_product(document):
    pack(document["cases"], 0.5)
    lines = summary.format_summary(document["cases"]).splitlines()
    assert lines[1].split()[:3] == ["float32,", "float64", "MxNxK"]
    first = lines[2].split()
    assert first[:3] == ["gate_up", "float32", "8x8x8"]
    assert first[5:] == ["1.200", "±0.000", "2.400", "±0.000", "1.00", "strassen"]
    assert [x.split()[:3] for x in lines if x.startswith("mean")] == [
        ["mean", "8", "rows"], ["mean", "16", "rows"], ["mean", "all", "1.200"]
    ]  # fmt: skip
    assert "*" not in "".join(lines[2:9])


def test_it_fits_a_hundred_columns(document):
    pack(document["cases"], 0.5)
    for case in document["cases"]:
        case.update(M=2048, N=152064, K=18944)
        case["sides"]["falcon"]["plan"]["scheme"] = "bf16x6 strassen@2x3x4:20-rms"
        case["sides"]["falcon"]["seconds"] = [1.0, 1.1, 1.0, 1.0, 1.4]
    case["failed"] = {"numpy": "MemoryError"}
    del case["sides"]["numpy"]
    text = f"{summary.format_summary(document['cases'])}\n{summary.answer(document)}"
    assert max(map(len, text.splitlines())) <= 100
    assert "gate_up float64: numpy failed: MemoryError" in text
    assert "±0.343" in text


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(1.0, "1.20 to 1.20 times NumPy's speed: faster"),
     (1.2, "1.00 to 1.00 times NumPy's speed: as fast, within 5 %"),
     (2.4, "0.50 to 0.50 times NumPy's speed: slower")],
)  # fmt: skip
def test_the_answer(document, ratio, said):
    for case in document["cases"]:
        case["sides"]["falcon"]["seconds"] = [ratio] * 5
        case["sides"]["numpy"]["seconds"] = [1.2] * 5
    own, last = summary.answer(document).splitlines()
    assert last == f"on this machine falcon multiplies these products at {said}"
    gain = f"{1.1 / ratio:.2f} to {1.1 / ratio:.2f} times the speed of its classical kernels"
    assert own == f"its schemes run at {gain}: {'faster' if ratio == 1 else 'slower'}"
    pack(document["cases"], 0.5)
    packed, last = summary.answer(document).splitlines()[1:]
    assert last == f"on this machine falcon multiplies these layers at {said}"
    assert packed == (
        f"with weights packed at {2.4 / ratio:.2f} to {2.4 / ratio:.2f} times NumPy's "
        f"speed: {'as fast, within 5 %' if ratio == 2.4 else 'faster'}; for 2.00 times their memory"
    )
    document["machine"]["numpy_held"] = "NumPy is held to Haswell kernels"
    assert summary.answer(document).endswith("; NumPy is held to Haswell kernels")
    document["machine"]["rates_of"] = "Intel Xeon without AMX"
    told = summary.answer(document).splitlines()
    assert "machine (Intel Xeon without AMX)" in told[0] and "falcon tune" in told[1]
    assert told[2] == own and max(map(len, told[:2])) <= 100
    first, *others = document["cases"]
    for side in first["sides"].values():
        del side["seconds"][4:]
    assert f" ({len(others)} of {len(others) + 1} products)" in summary.answer(document)
    for case in others:
        for side in case["sides"].values():
            del side["seconds"][4:]
    assert "these layers at an undecided speed: no product has" in summary.answer(document)
    assert " ±?" in summary.format_summary(document["cases"])


def test_no_scheme_is_compared_with_itself(document):
    for case in document["cases"]:
        case["sides"]["falcon"]["plan"]["scheme"] = "bf16x6 classical"
    assert len(summary.answer(document).splitlines()) == 1


def test_a_wide_interval_is_not_called_equality(document):
    for case in document["cases"]:
        case["sides"]["falcon"]["seconds"] = [1.0, 0.7, 1.1, 1.0, 0.9]
        case["sides"]["numpy"]["seconds"] = [1.0] * 5
    assert summary.answer(document).endswith("undecided speed: 4 undecided")
    del document["cases"][1:]
    assert summary.answer(document).endswith(" times NumPy's speed: undecided")
    document["cases"][0]["disturbed"] = "this process had 10% of a CPU"
    told = "falcon multiplies this product at an undecided speed: this process had 10% of a CPU"
    assert summary.answer(document).endswith(told)


def test_the_answer_is_the_last_line(capsys, monkeypatch, doors):
    doors.no_pauses()
    layers = [Shape(24, 16, 12, "qkv"), Shape(48, 16, 12, "qkv")]
    monkeypatch.setattr(in_process.compare, "given_shapes", lambda options: layers)
    for details in ((), ("-v",)):
        status = main(["bench", "--rounds", "1", "--case-seconds", "0", *details])
        assert status == 0
        out = capsys.readouterr().out
        assert "falcon multiplies these layers " in out.splitlines()[-1]
        assert ("falcon classical" in out) == bool(details)
