"""`falcon.check` on a GPU: its steps multiply there too."""

from falcon._front.check import calls
from falcon._front.check.trial import Trial


def test_products_on_the_device(cupy):
    trial = Trial("backend gpu")
    calls.of_backend("gpu", trial)
    assert trial.failures == [] and not trial.is_skipped
    assert trial.about == "4 types" and trial.products >= 24
    assert 0 < trial.worst < 1


def test_values_batches_and_packed_operands(cupy):
    for step in (calls.not_finite, calls.batches, calls.packed):
        trial = Trial("a step")
        step(trial)
        assert trial.failures == []
        assert "gpu" in {x.backend for x in calls.places()}


def test_a_fault_on_the_device_is_named(cupy, monkeypatch):
    place = calls.place_of("gpu")

    def careless(x):
        host = place.get(x).copy()
        host[..., 1, 1] += 1
        return host

    monkeypatch.setattr(cupy, "asnumpy", careless)
    trial = Trial("NaN and Inf")
    calls.not_finite(trial)
    assert {x.where["backend"] for x in trial.failures} == {"backend gpu"}
    assert {x.where["type"] for x in trial.failures} == {"float32", "float64"}
