"""The cost model on a GPU, the choice that it makes, and the rates that it uses."""

import json
from dataclasses import asdict, replace
from itertools import combinations, pairwise

import numpy as np
import pytest

import falcon
from falcon._backends import device_backend
from falcon._core.dtypes import dtype_of
from falcon._core.options import Options
from falcon._gpu import model, rates, workspaces
from falcon.decision import machine
from falcon.decision import rates as decide

from ..doors import Problem, forget_calls, named_row
from .conftest import forget

# Figures of an H200's order: 50 TFLOP/s in float32, 4 TB/s, 50 MB of L2.
RATES = rates.DeviceRates(50e12, 50e12, 50e12, 4e12, 3e-6, 132, 50 * 2**20)


def predicted(size, scheme, dtype="float32", *, packed=False, rates=RATES):
    problem = Problem(size, size, size, dtype_of(dtype), packed=packed, device=0)
    (method,) = device_backend().candidates(problem, (scheme and falcon.schemes.get(scheme),), None)
    return dict(model.seconds(problem, method, rates))


def test_stages(cupy, monkeypatch):
    classical, strassen = predicted(16384, None), predicted(16384, "strassen")
    assert list(strassen) == ["norms", "combine A", "combine B", "multiply", "combine H"]
    assert strassen["multiply"] / classical["multiply"] == pytest.approx(7 / 8, rel=0.02)
    # 1 GiB of A is read and 7/4 of it written.
    assert strassen["combine A"] == pytest.approx(2.75 * 2**30 / 4e12, rel=0.1)
    # A and B are read once more, and a packed B is not.
    assert strassen["norms"] == pytest.approx(2 * 2**30 / 4e12, rel=0.1)
    assert predicted(16384, "strassen", packed=True)["norms"] == pytest.approx(
        strassen["norms"] / 2, rel=0.1
    )
    assert predicted(16384, "strassen", packed=True)["combine B"] == 0
    slow = replace(RATES, batched=25e12)
    assert predicted(16384, "strassen", rates=slow)["multiply"] > 1.9 * strassen["multiply"]
    assert predicted(16384, None, rates=slow) == classical
    # Seven planes for fourteen products: as many as Strassen has.
    assert predicted(16384, "2x4x2:14")["combine H"] == pytest.approx(strassen["combine H"])


def test_the_choice(cupy, doors):
    doors.rates(RATES)

    def plan(size, **options):
        return falcon.plan((size, size), (size, size), "float32", backend="gpu", **options)

    assert plan(512).scheme is None
    assert "below 2048" in plan(512).why
    chosen = plan(8192, workspace_limit=2**31)
    assert chosen.scheme is not None
    assert sum(x for _, x in chosen.seconds) == min(x.total for x in chosen.candidates if x.allowed)
    assert "slower" in chosen.explain()
    for x in chosen.candidates[1:]:
        assert x.refused and x.method.workspace <= 2**31
    assert plan(8192, max_growth=1.0).scheme is None
    assert "growth 2.00 > max_growth 1.00" in plan(8192, max_growth=1.0).explain(999)
    assert plan(8192, max_growth=2.0, workspace_limit=2**31).growth <= 2.0
    assert plan(8192, scheme="classical").why == "requested"
    slow = replace(RATES, bandwidth=1e11)
    doors.rates(slow)
    assert plan(4096).scheme is None
    assert plan(4096).why == "no scheme is predicted to be faster"


@pytest.mark.parametrize(("dtype", "gain"), [("float32", 1.02), ("bfloat16", 1.08)])
def test_the_least_gain(cupy, monkeypatch, doors, dtype, gain):
    """16 bits need more: what they gain is a small difference of large times."""
    for above in (False, True):
        factor = gain * (1.01 if above else 0.99)

        def seconds(problem, method, rates, factor=factor):
            return (("multiply", 1.0 if method.scheme is None else 1.0 / factor),)

        doors.rates(RATES)
        monkeypatch.setattr(model, "seconds", seconds)
        plan = falcon.plan((8192, 8192), (8192, 8192), dtype, backend="gpu")
        assert (plan.scheme is not None) == above


def measured(dtype, device=0, arithmetic="native"):
    """The rates that the decision uses for a device: stored, or measured."""
    gpu, options = device_backend(), Options(arithmetic=arithmetic)
    problem = Problem.of_sizes((1, 1, 1), dtype_of(dtype), options, device=device)
    return decide.rates(gpu, problem, [gpu], named_row(problem, options))


def test_devices_are_measured_once_and_stored(cupy, state, monkeypatch):
    found = measured("float32")
    assert found.multiprocessors == 8
    assert all(x > 0 for x in asdict(found).values())
    known = machine.profile([device_backend()], 0)
    assert known.key["gpu.device"] == "Stand-in"
    assert "gpu float32 1 threads: multiply" in str(known)
    (stored,) = json.loads(known.path.read_text())["rates"]
    assert stored == {"backend": "gpu", "dtype": "float32", "threads": 1, **asdict(found)}
    measured("float64")
    measured("float32", arithmetic="tf32")
    by_parts = measured("float32", arithmetic="bf16x6")
    assert all(x > 0 for x in asdict(by_parts).values())
    names = [x["dtype"] for x in json.loads(known.path.read_text())["rates"]]
    assert names == ["float32", "float32 by bf16x6", "float32 by tf32", "float64"]
    launched = len(state.launches)
    assert measured("float32", device=1) == found  # another of the same model
    forget()
    assert measured("float32") == found
    assert len(state.launches) == launched
    content = json.loads(known.path.read_text())
    content["rates"][0]["launch"] = 0  # no speed: the file is ignored
    known.path.write_text(json.dumps(content))
    forget()
    assert measured("float32") != found


def test_measuring_frees_its_memory_and_is_tried_again(cupy, state, doors):
    shapes = (2048, 2048), (2048, 2048), "float32"
    state.room = 2**14
    plan = falcon.plan(*shapes, backend="gpu")
    assert (plan.scheme, plan.options.scheme) == (None, "auto")
    assert "rates could not be measured: out of memory" in plan.why
    asked = state.allocated
    assert "not to be had just now" in falcon.plan(*shapes, backend="gpu").why
    state.room = None
    doors.numbers(asked_again=0.0)
    workspaces.release()
    assert "measured" not in falcon.plan(*shapes, backend="gpu").why
    assert state.freed == state.allocated > asked


def test_blocks_of_random_data_differ(cupy):
    """Else the sums of an LCMA would be zeros, which a GPU multiplies faster."""
    size = 2048
    data = rates.random_matrix(size, size, dtype_of("float32"), 0).owner
    host = cupy.asnumpy(data).view("float32")[: size * size].reshape(size, size)
    for parts in (2, 4):
        blocks = [x for rows in np.split(host, parts) for x in np.split(rows, parts, axis=1)]
        assert all(np.mean(x == y) < 1e-3 for x, y in combinations(blocks, 2))


def test_empty_kernels_are_launched_while_the_device_is_busy(cupy, state, monkeypatch):
    """Between two events are empty kernels only; a product comes before the first."""
    events, event = [], rates.device.event

    def recorded():
        events.append((len(state.launches), len(state.products)))
        return event()

    monkeypatch.setattr(rates.device, "event", recorded)
    rates.measure(0, dtype_of("float32"))
    pairs = list(zip(events[::2], events[1::2], strict=True))[-5:]
    for (launches, before), (until, after) in pairs:
        assert (until - launches, after) == (rates._EMPTY_LAUNCHES, before)
        assert set(state.launches[launches:until]) == {"falcon_empty"}
    assert [y[0][1] - x[1][1] for x, y in pairwise(pairs)] == [rates._BUSY] * 4


def test_the_hosts_profile_knows_nothing_of_devices(cupy, monkeypatch):
    measured("float32")
    host = falcon.machine()
    assert not any(name.startswith("gpu") for name in host.key)
    assert not any(backend == "gpu" for backend, _, _ in host.rates)


# Gains over cuBLAS that an H100 had, with the rates that were measured there.
H100 = {
    "float32": rates.DeviceRates(51.2e12, 50.0e12, 51.2e12, 2.44e12, 1.4e-6, 132, 50 * 2**20),
    "float64": rates.DeviceRates(60.7e12, 57.6e12, 60.7e12, 2.69e12, 1.4e-6, 132, 50 * 2**20),
    "bfloat16": rates.DeviceRates(690e12, 640e12, 690e12, 2.50e12, 1.4e-6, 132, 50 * 2**20),
}


@pytest.mark.parametrize(
    ("dtype", "size", "scheme", "gain"),
    [
        ("float32", 4096, "strassen", 1.006),
        ("float32", 8192, "3x4x4:38", 1.160),
        ("float32", 8192, "strassen@strassen", 1.214),
        ("float32", 16384, "strassen@strassen", 1.237),
        ("float64", 4096, "strassen", 0.897),
        ("float64", 8192, "strassen@strassen", 1.065),
        ("bfloat16", 8192, "strassen", 0.734),
        ("bfloat16", 16384, "strassen", 0.981),
    ],
)
def test_gains_are_near_those_of_a_gpu(cupy, dtype, size, scheme, gain):
    """It promises less than there is, rather than more."""
    alone, stages = (predicted(size, x, dtype, rates=H100[dtype]) for x in (None, scheme))
    found = sum(alone.values()) / sum(stages.values())
    assert gain - 0.11 < found < gain + 0.03


@pytest.mark.parametrize(("size", "batch", "us"), [(512, 1, 14.6), (768, 1, 34.3), (1024, 1, 56.7),
                                                   (1536, 1, 188.2), (2048, 1, 340.8),
                                                   (512, 7, 49.4), (1024, 7, 345.1)])  # fmt: skip
def test_small_products_take_as_long_as_on_a_gpu(size, batch, us):
    """Of float32 on an H200, by cuBLAS: less than a wave is cut into smaller tiles."""
    found = model.product_seconds(size, size, size, batch, 4, 4, H200, H200.multiply)
    assert found == pytest.approx(us * 1e-6, rel=0.3 if size == 512 and batch == 1 else 0.19)


H200 = rates.DeviceRates(50.2e12, 50.3e12, 50.2e12, 3.13e12, 1.4e-6, 132, 50 * 2**20)
BY_PARTS = rates.DeviceRates(109.7e12, 104.9e12, 40e12, 3.08e12, 1.4e-6, 132, 50 * 2**20)


def test_float32_is_multiplied_by_parts_where_that_is_faster(cupy, doors):
    """With an H200's rates: from 1536^3 on, unless it is forbidden, and not if parts are slow."""
    parts = [BY_PARTS]

    def known(backend, problem, backends, operand=None):
        return H200 if operand is None else parts[0]

    doors.rates(known)

    def plan(size, dtype="float32", **options):
        return falcon.plan((size, size), (size, size), dtype, backend="gpu", **options)

    assert plan(1024).method.arithmetic is None
    chosen = plan(8192)
    assert (chosen.method.arithmetic.name, chosen.scheme is None) == ("fp16x3", False)
    assert 1.9 < chosen.growth < 8
    assert plan(8192, arithmetic="native").method.arithmetic is None
    assert plan(8192, max_growth=1.2).method.arithmetic is None
    assert plan(8192, max_growth=2.0).growth <= 2.0
    assert plan(8192, "float64").method.arithmetic is None
    assert plan(8192, scheme="strassen").method.arithmetic is None
    parts[0] = H200
    forget_calls()
    assert plan(8192).method.arithmetic is None


def test_of_an_h200_nothing_is_measured(cupy, state, monkeypatch):
    """For float32 by parts neither: that takes half of a gigabyte, which torch may hold."""
    state.name = b"NVIDIA H200"
    forget()
    monkeypatch.setattr(rates, "_measured", lambda *_: 1 / 0)
    plan = falcon.plan((8192, 8192), (8192, 8192), "float32", backend="gpu")
    assert plan.method.arithmetic.name == "fp16x3"


def test_rates_in_words():
    """Those of an H100, and of faster ones: all of them are measured."""
    told = "multiply 690754.8 GFLOP/s, in batches 2250000.0 GFLOP/s, combine 2499.2 GB/s"
    assert str(replace(RATES, multiply=690.7548e12, batched=2.25e15, bandwidth=2.49924e12)) == told
