"""`falcon.check` on a GPU: its steps multiply there too."""

from falcon._check import steps
from falcon._check.case import BATCH, NOT_FINITE, PACKED
from falcon._check.result import CheckResult


def outcome(products):
    result = CheckResult()
    steps.run_cases("a step", products, "", result)
    return result.rows[0], result.failures


def test_products_on_the_device(cupy):
    row, failures = outcome(steps.of_backend("gpu"))
    assert failures == [] and row.state == "ok"
    assert row.about == "4 types" and row.products >= 24
    assert 0 < row.worst < 1


def test_values_batches_and_packed_operands(cupy):
    for how in ({"values": NOT_FINITE}, {"form": BATCH}, {"form": PACKED}):
        products = list(steps.whole_calls(["gpu"], **how))
        row, failures = outcome(products)
        assert failures == [] and row.products == 4
        assert {str(x.operand) for x in products} == {"float32", "float64"}


def test_a_fault_on_the_device_is_named(cupy, monkeypatch):
    asnumpy = cupy.asnumpy

    def careless(x):
        host = asnumpy(x).copy()
        host[..., 1, 1] += 1
        return host

    monkeypatch.setattr(cupy, "asnumpy", careless)
    _, failures = outcome(steps.whole_calls(["gpu"], values=NOT_FINITE))
    assert {x["backend"] for x in failures} == {"backend gpu"}
    assert {x["type"] for x in failures} == {"float32", "float64"}
