"""`falcon.grade` on a GPU: whole calls there are graded too."""

from falcon._grade import command
from falcon._grade.command import Side


def test_products_on_the_device(cupy):
    found = dict(command._by_backend("gpu"))
    assert {"backend gpu, float32, classical", "backend gpu, float64, strassen"} <= {*found}
    assert not any(found.values()), found


def test_a_fault_on_the_device_is_named(cupy, monkeypatch):
    function = Side.function

    def careless(side):
        def multiply(a, b):
            c = function(side)(a, b)
            c[..., 1, 1] += 1
            return c

        return multiply

    monkeypatch.setattr(Side, "function", careless)
    found = dict(command._by_backend("gpu"))
    assert found and all("whole numbers: 1 of 16384 entries" in x for x in found.values())
