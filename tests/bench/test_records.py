"""Record files: their schema, their warnings, and comparisons of two that allow for noise."""

import copy
import json
from pathlib import Path

import pytest

from falcon.__main__ import main
from falcon.bench import records, tables

from .support import whole_run

jsonschema = pytest.importorskip("jsonschema")


@pytest.fixture(scope="module")
def found():
    return whole_run()


@pytest.fixture
def document(found):
    return copy.deepcopy(found)


def validate(document):
    jsonschema.validate(document, records.schema(), jsonschema.Draft202012Validator)


def test_documents_keep_the_schema(document):
    jsonschema.Draft202012Validator.check_schema(records.schema())
    validate(document)
    assert document["cases"] and document["peak"]["gflops"]
    for kept in (Path(__file__).parents[2] / "docs/benchmarks").glob("*/results.json"):
        validate(records.read(kept))


def test_what_a_record_carries(document):
    case = document["cases"][0]
    assert (case["M"], case["dtype"], case["rounds"]) == (8, "float32", 5)
    assert case["speedups"]["numpy"]["median"] == pytest.approx(1.2)
    side = case["sides"]["falcon"]
    assert side["gflops"] == pytest.approx(2 * 8**3 / 1e9, abs=0.01)
    assert (side["kernel"], side["threads"], side["version"]) == ("wide", 2, "1.0")
    assert side["plan"]["scheme"] == "strassen"
    best = next(x for x in document["peers"] if x["peer"] == "numpy")
    assert best["tried"] == {}
    (mkl,) = (x for x in document["peers"] if x["peer"] == "mkl")
    assert mkl["absent"] == "mkl: not installed: pip install mkl"


def test_read(tmp_path, document):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert records.read(path) == document
    path.write_text(json.dumps({"format": "other"}), encoding="utf-8")
    with pytest.raises(ValueError, match="not a record file of format 'falcon-bench/3'"):
        records.read(path)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="is not JSON"):
        records.read(path)


def test_warnings(document):
    assert tables.doubts(document) == ([], [])
    case = document["cases"][0]
    case["speedups"]["numpy"].update(median=1.1, low=0.9, high=1.3)
    case["sides"]["numpy"]["correct"] = False
    case["failed"] = {"mkl": "MemoryError"}
    document["sessions"][0]["varies"] = 1.8
    (wrong, failed), (unknown,) = tables.doubts(document)
    assert "squares 8x8x8 float32 (numpy, 0.90 to 1.30); equal products took up to 1.8" in unknown
    assert "WRONG RESULT: numpy on squares 8x8x8 float32" in wrong
    assert failed == "mkl failed on squares 8x8x8 float32: MemoryError"


def test_no_verdict_where_other_programs_ran(document):
    for case in document["cases"]:
        case["disturbed"] = "this process had 10% of a CPU"
    validate(document)
    _, (disturbed,) = tables.doubts(document)  # more time would not decide them
    assert disturbed.startswith("other programs disturbed 4 of 4 products, whose ratios within 2 ")
    assert "squares 8x8x8 float32: this process had 10% of a CPU; squares 16x" in disturbed
    told = "undecided: 2 undecided"
    assert [won for _, won in tables.verdicts(document)] == [told] * 2
    del document["cases"][1:]
    assert tables.verdicts(document)[0][1] == "undecided: this process had 10% of a CPU"
    first, *_ = (x for x in tables.text(document).splitlines() if x.startswith("  numpy"))
    assert first.split()[3:5] == ["1.200", "±?"]


def test_undecided_ratios_are_in_no_mean(document):
    """Nor is there one where many are."""
    first, second = document["cases"][:2]
    document["cases"][2:] = [copy.deepcopy(first) for _ in range(2)]
    second["speedups"]["numpy"].update(median=22.4, low=0.6, high=44.2)
    ((_, told),) = tables.verdicts(document)
    assert told == "falcon, 1.200 times as fast as numpy (3 of 4 products)"
    first["speedups"]["numpy"].update(low=0.9)
    assert tables.verdicts(document)[0][1] == "undecided: 2 undecided, 2 faster"


def test_other_threads_than_stated_are_a_warning(document):
    """As where OPENBLAS_NUM_THREADS holds NumPy to fewer; its loops for integers have one."""
    for case in document["cases"]:
        case["sides"]["numpy"]["threads"] = 1
    assert tables.doubts(document) == ([], ["not all sides had 2 threads: numpy 1"])
    for case in document["cases"]:
        case["dtype"] = "int64"
    assert tables.doubts(document) == ([], [])


def test_table(document):
    table = tables.format_cases(document["cases"])
    first, *_ = (x for x in table.splitlines() if x.startswith("  numpy"))
    assert first.split()[3:5] == ["1.200", "±0.000"]
    assert "it over numpy" in table and "Freivalds" not in table
    assert "strassen (cpu)" in table
    means = [x.split() for x in table[table.index("geometric mean") :].splitlines()[1:4]]
    assert means[0] == ["falcon", "1.200", "±0.000"]
    assert means[1] == ["falcon", "classical", "1.100", "±0.000", "1.091", "±0.000"]
    case = document["cases"][0]
    case["note"], case["failed"] = "2 workers", {"mkl": "MemoryError"}
    case["sides"]["numpy"].update(error=None, facts={"tasks": 12, "Freivalds": "passed"})
    table = tables.format_cases([case])
    for word in ("\n2 workers\n", "  mkl failed: MemoryError", "passed"):
        assert word in table


def test_verdicts(document):
    def fastest():
        return [won for _, won in tables.verdicts(document)]

    assert tables.verdicts(document) == [
        ("squares, float32", "falcon, 1.200 times as fast as numpy"),
        ("squares, float64", "falcon, 1.200 times as fast as numpy"),
    ]
    document["machine"]["numpy_held"] = "NumPy is held to Haswell kernels"
    said = "falcon, 1.200 times as fast as numpy (NumPy is held to Haswell kernels)"
    assert fastest() == [said] * 2
    assert tables.doubts(document)[1][0] == "NumPy is held to Haswell kernels"
    for case in document["cases"]:
        case["speedups"]["numpy (best kernels)"] = case["speedups"]["numpy"]
        case["speedups"]["numpy"] = {**case["speedups"]["numpy"], "median": 1.3}
    assert fastest()[0] == "falcon, 1.200 times as fast as numpy (best kernels)"
    for case in document["cases"]:
        del case["speedups"]["numpy (best kernels)"]
        case["speedups"]["numpy"].update(median=1.01, low=0.9, high=1.3)
    assert fastest()[0] == "undecided: 2 undecided"
    kept, document["cases"] = document["cases"], document["cases"][:1]
    assert fastest()[0] == "undecided: falcon at 0.90 to 1.30 of the speed of numpy"
    document["cases"] = kept
    for case in document["cases"]:
        case["speedups"]["numpy"].update(median=1.01, low=0.97, high=1.04)
    assert fastest()[0] == "falcon and numpy, within 5 %"
    for case in document["cases"]:
        case["speedups"]["numpy"].update(median=0.5, low=0.5, high=0.5)
    assert fastest()[1] == "numpy, 2.000 times as fast as falcon"
    for case in document["cases"]:
        case["speedups"]["numpy"].update(count=1)
    assert fastest()[1] == "undecided: no product has 5 pairs"
    document["cases"] = []
    assert fastest() == []


def test_a_file_of_this_process(capsys, doors):
    doors.no_pauses()
    doors.numbers(least_cpu=0.0)  # other tests compute beside it
    asked = ("bench", "40,30,20", "--dtype", "float64", "--scheme", "strassen", "--rounds", "1")
    assert main([*asked, "--case-seconds", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    validate(found)
    assert found["cases"][0]["sides"]["falcon"]["plan"]["scheme"] == "strassen"
    assert 0 < found["cases"][0]["sides"]["numpy"]["error"] < 1e-15
    assert found["sessions"][0].pop("varies") >= 1
    assert tables.doubts(found)[1] == [
        "2 of 2 ratios are undecided, or from fewer than 5 pairs: given 40x30x20 float64 "
        "(falcon classical, one pair), given 40x30x20 float64 (numpy, one pair); a larger "
        "--case-seconds decides more"
    ]
    found["cases"][0]["label"] = "qkv"
    assert "pairs: qkv given 40x30x20 float64 (" in tables.doubts(found)[1][0]
