"""The cost model on a GPU, the choice that it makes, and the profile it reads."""

import json
from dataclasses import asdict, replace

import pytest

import falcon
from falcon._core.dtypes import of
from falcon._core.problem import Problem
from falcon._gpu import backend, model, profile
from falcon.bench import gpu as bench
from falcon.bench.workloads import Shape

# Figures of an H200's order: 50 TFLOP/s in float32, 4 TB/s, 50 MB of L2.
RATES = profile.DeviceRates(50e12, 4e12, 3e-6, 16e12, 132, 50 * 2**20, 140 * 2**30)


def predicted(size, scheme, dtype="float32", rates=RATES, *, packed=False):
    problem = Problem(size, size, size, of(dtype), packed=packed, device=0)
    option = backend._option(problem, scheme and falcon.schemes.get(scheme), None)
    return dict(model.seconds(problem, option, rates))


def test_stages(cupy, monkeypatch):
    classical, strassen = predicted(16384, None), predicted(16384, "strassen")
    assert list(strassen) == ["combine A", "combine B", "multiply", "combine H"]
    assert strassen["multiply"] / classical["multiply"] == pytest.approx(7 / 8, rel=0.02)
    # 1 GiB of A is read and 7/4 of it written.
    assert strassen["combine A"] == pytest.approx(2.75 * 2**30 / 4e12, rel=0.1)
    assert predicted(16384, "strassen", packed=True)["combine B"] == 0
    # Seven planes for fourteen products: as many as Strassen has.
    assert predicted(16384, "2x4x2:14")["combine H"] == pytest.approx(strassen["combine H"])


def test_waves():
    """One tile more than the multiprocessors costs half a wave; a whole wave costs what it is."""
    one = model.product_seconds(128, 128 * 132, 4096, 1, 4, 4, RATES)
    more = model.product_seconds(128, 128 * 133, 4096, 1, 4, 4, RATES)
    two = model.product_seconds(128, 128 * 264, 4096, 1, 4, 4, RATES)
    assert 1.4 * one < more < two
    single = model.product_seconds(128, 128, 4096, 1, 4, 4, RATES)
    assert single == pytest.approx(one)


def test_operands_that_fit_the_cache_are_read_once():
    assert model.operand_bytes(1024, 1024, 1024, 7, 4, RATES) == 7 * 2 * 2**20 * 4
    large = model.operand_bytes(32768, 32768, 4096, 1, 4, RATES)
    assert large > 2 * 32768 * 4096 * 4
    assert model.operand_bytes(32768, 32768, 4096, 1, 4, replace(RATES, l2_bytes=2**40)) < large


def test_the_choice(cupy, monkeypatch):
    monkeypatch.setattr(profile, "rates", lambda *_: RATES)

    def plan(size, **options):
        return falcon.plan((size, size), (size, size), "float32", backend="gpu", **options)

    assert plan(512).scheme is None
    assert "below 1024" in plan(512).why
    chosen = plan(8192, workspace_limit=2**31)
    assert chosen.scheme is not None
    assert sum(x for _, x in chosen.seconds) == min(x.total for x in chosen.candidates if x.allowed)
    assert "slower" in chosen.explain()
    assert plan(8192, max_growth=1.0).scheme is None
    assert plan(8192, max_growth=2.0, workspace_limit=2**31).growth <= 2.0
    assert plan(8192, scheme="classical").why == "asked for"
    slow = replace(RATES, bandwidth=1e11)
    monkeypatch.setattr(profile, "rates", lambda *_: slow)
    falcon._front.planner._plans.clear()
    assert plan(2048).scheme is None


def test_growth_of_16_bit_types():
    strassen = falcon.schemes.get("strassen")
    assert backend.growth(strassen, of("bfloat16")) == pytest.approx(7**0.5)
    assert backend.growth(strassen, of("float32")) == strassen.rms_growth == 2.0


def test_profiles_are_measured_once_and_stored(cupy, state, monkeypatch):
    monkeypatch.setattr(profile, "_MEASURED_SIZE", {8: 64, 4: 64, 2: 64})
    found = profile.rates(0, of("float32"), False)
    assert found.multiprocessors == 8
    assert all(x > 0 for x in asdict(found).values())
    file = profile.path(0)
    stored = json.loads(file.read_text())
    assert stored["device"] == "Stand-in"
    assert stored["rates"]["float32"] == asdict(found)
    profile.rates(0, of("float64"), False)
    assert set(json.loads(file.read_text())["rates"]) == {"float32", "float64"}
    assert len(profile.known()) == 2
    profile.clear()
    launched = len(state.launches)
    assert profile.rates(0, of("float32"), False) == found
    assert len(state.launches) == launched
    file.write_text("{not JSON")
    profile.clear()
    assert profile.rates(0, of("float32"), False) != found


def test_the_benchmark_runs(cupy, monkeypatch, capsys):
    """Every side of `bench --gpu`, on the stand-in: its times mean nothing, its errors do."""
    monkeypatch.setattr(profile, "_MEASURED_SIZE", {8: 64, 4: 64, 2: 64})
    monkeypatch.setattr(bench, "_SPAN_SECONDS", 1e-6)
    monkeypatch.setattr(bench, "_torch_call", lambda *_: None)
    record = bench.run_shape(Shape(48, 40, 56, "layer"), "float32", 1, {"scheme": "strassen"})
    assert (record.scheme, record.packed_scheme) == ("strassen", "strassen")
    assert set(record.seconds) == {"falcon", "packed", "classical", "cublas"}
    assert all(0 < x < 1e-5 for x in record.errors.values())
    assert record.ratios["cublas"] == 1.0
    assert "48 x 40 x 56" in bench.format_records([record])
    from falcon.__main__ import main

    arguments = ["bench", "--gpu", "--shape", "32,32,32", "--rounds", "1", "--dtype", "bfloat16"]
    assert main(arguments) == 0
    assert "geometric means over cuBLAS" in capsys.readouterr().out
