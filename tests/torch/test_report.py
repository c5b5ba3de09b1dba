"""The report of `convert_`: equal layers of equal blocks are one line."""

import pytest

import falcon

torch = pytest.importorskip("torch")
pytest.importorskip("falcon.torch.report")
Report = falcon.torch.Report


def row(name, **changes):
    known = {
        "name": name, "shape": (64, 32), "dtype": "float32", "scheme": "strassen", "packed": True,
        "min_m": 256, "gain": 1.25, "measured": True, "interval": (1.125, 1.5), "rows": 512,
        "extra_bytes": 2**20, "reason": "", "disturbed": "",
    }  # fmt: skip
    return {**known, **changes}


def lines(*rows):
    return [x.split("  ")[0] for x in str(Report([*rows])).splitlines()[1 : 1 + len(rows)]]


def test_equal_layers_of_equal_blocks():
    rows = [row(f"encoder.layer.{i}.attention.{x}") for i in range(12) for x in "qk"]
    report = str(Report([row("first"), *rows, row("layer.0"), row("layer.1")]))
    _, *found = report.splitlines()[:6]
    assert [x.split("  ")[0] for x in found] == [
        "first", "encoder.layer.0-11.attention.q, 12 times",
        "encoder.layer.0-11.attention.k, 12 times", "layer.0", "layer.1",
    ]  # fmt: skip
    assert [x.split()[-1] for x in found] == ["1.0", "12.0", "12.0", "1.0", "1.0"]
    assert "1.25 (1.12 to 1.50)" in found[0]
    assert " 1.25  " in str(Report([row("x", interval=(1.25, 1.25))]))
    assert "27 of 27 layers on falcon, 27.0 MiB of panels" in report


def test_what_differs_has_a_line():
    some = [row(f"{i}.q") for i in (0, 1, 2, 5, 7, 8)]
    others = [row("3.q", shape=(64, 64)), row("4.q", reason="shares panels", extra_bytes=0)]
    assert lines(*some, *others)[:3] == ["0-2,5,7-8.q, 6 times", "3.q", "4.q"]
    experts = [row(f"{i}.expert.{j}.up") for i in range(3) for j in range(2)]
    assert lines(*experts)[0] == "0-2.expert.0-1.up, 6 times"


def test_a_layer_alone():
    assert lines(row("", scheme=None, min_m=None, gain=None, interval=None, measured=False))
    assert "1.25 ?" in str(Report([row("", measured=False, interval=None)]))


def test_what_is_shown_is_explained():
    text = str(Report([row("x")])).splitlines()
    assert "gain: torch's time over falcon's, for 512 rows (tokens) in a call" in text
    assert any(x.startswith("from rows: calls of so many rows or more run on falcon") for x in text)
    assert not any("?" in x for x in text)
    guess = str(Report([row("x"), row("y", measured=False, interval=None)])).splitlines()
    assert "?: predicted, over falcon without panels, on a GPU over cuBLAS" in guess
    assert "layers on falcon" in str(Report([]))


def test_gains_of_a_disturbed_machine_are_undecided():
    why = "this process had 10% of a CPU"
    text = str(Report([row("x", disturbed=why), row("y")])).splitlines()
    at = text.index("gains of 1 of 2 layers are undecided:")
    assert text[at + 1].startswith(f"other programs disturbed it ({why}); run it again when")
    assert max(map(len, text)) <= 100
