"""Converted layers as modules of torch: what else acts on layers agrees with nn.Linear."""

import copy
import io
import sys

import numpy as np
import pytest

import falcon
from falcon._core.rates import Rates

from .support import config, exact, integers, layer

torch = pytest.importorskip("torch")
functional, nn = torch.nn.functional, torch.nn
convert_, revert_ = falcon.torch.convert_, falcon.torch.revert_


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_results_can_be_changed_in_place(dtype):
    """Autograd forbids this for views that a function returns."""
    model = nn.Sequential(layer(dtype=dtype), nn.ReLU(inplace=True))
    stock, x = copy.deepcopy(model), integers(2, 9, 48, dtype=dtype)
    convert_(model, config())
    for found, right in ((model(x), stock(x)), (falcon.torch.matmul(x, x.mT), x @ x.mT)):
        assert torch.equal(found, right)
    model(x).sum().backward()
    stock(x).sum().backward()
    assert torch.equal(model[0].weight.grad, stock[0].weight.grad)
    for b in (integers(2, 48, 5, dtype=dtype), integers(48, 5, dtype=dtype)):
        falcon.torch.matmul(x, b.requires_grad_()).mul_(2).sum().backward()


def test_a_step_of_memory_that_the_weight_shares():
    """As that of FSDP's flat parameters."""
    whole, made, x = nn.Parameter(integers(7 + 32 * 48)), layer(bias=False), integers(9, 48)
    made.weight = nn.Parameter(whole.detach()[7:].view(32, 48))
    convert_(made, config())
    whole.grad = torch.ones_like(whole)
    torch.optim.SGD([whole], lr=1.0, fused=True).step()
    with torch.no_grad():
        assert torch.equal(made(x), exact(x, made))


def test_a_model_that_is_converted_again_has_panels_of_its_weights_now():
    """Also where a layer of another model is tied to its own."""
    made, other, x = layer(), layer(), integers(9, 48)
    other.weight = made.weight
    convert_(other, config())
    convert_(made, config())
    made.weight.data.mul_(-1)
    convert_(made, config())
    with torch.no_grad():
        assert torch.equal(made(x), exact(x, made))
        assert torch.equal(other(x), exact(x, other))


def test_layers_are_timed_without_autocast(doors):
    seen = lambda *_, **__: torch.is_autocast_enabled("cpu")  # noqa: E731
    kinds = doors.watched(falcon.torch.ops, "multiply", seen=seen)
    with torch.autocast("cpu", torch.bfloat16):
        convert_(layer(dtype=torch.float32), config(measure=True))
    assert {*kinds} == {False}


def test_weights_of_inference_mode_have_no_panels():
    made, x = layer(), integers(9, 48)
    convert_(made, config())
    with torch.inference_mode():
        inside = layer()
        (row,) = convert_(inside, config()).rows
        assert row["reason"].startswith("its weight was made in inference_mode")
        made.load_state_dict(inside.state_dict(), assign=True)
        for _ in range(2):
            assert torch.equal(made(x), exact(x, made))
            made.weight.mul_(-1)
    assert made._panels.nbytes == 0


@pytest.mark.parametrize("shapes", [((9, 7), (0, 7)), ((9, 0), (5, 0)), ((0, 7), (5, 7))])
def test_gradients_of_empty_operands(shapes):
    operands = [integers(*shape).requires_grad_() for shape in shapes]
    run = torch.compile(falcon.torch.linear, backend="aot_eager", fullgraph=True)
    for f in (run, lambda x, w: torch.ops.falcon.linear(x, w, None)):
        made, right = f(*operands), functional.linear(*operands)
        assert torch.equal(made, right)
        found = (torch.autograd.grad(y.sum(), operands) for y in (made, right))
        assert all(map(torch.equal, *found))


class Twice(nn.Module):
    def forward(self, w):
        return 2 * w


def test_parametrized_layers():
    model, x = nn.Sequential(layer()), integers(9, 48)
    convert_(model, config())
    nn.utils.parametrize.register_parametrization(model[0], "weight", Twice())
    expected = exact(x, model[0])
    other = copy.deepcopy(model)
    with torch.no_grad():
        assert torch.equal(model(x), expected)
        revert_(model)
        assert type(model[0]).__name__ == "ParametrizedLinear"
        assert torch.equal(model(x), expected)
        assert torch.equal(other(x), expected)
        nn.utils.parametrize.remove_parametrizations(model[0], "weight")
        assert type(model[0]) is nn.Linear
        assert torch.equal(model(x), expected)
        nn.utils.parametrize.remove_parametrizations(other[0], "weight")
        assert type(other[0]) is falcon.torch.FalconLinear
        assert torch.equal(other(x), expected)


class Own(nn.Linear):
    pass


def test_what_is_converted():
    two = pytest.importorskip("torch.testing._internal.two_tensor").TwoTensor
    names = ("changed", "sparse", "wrapped", "taken", "filtered")
    model = nn.ModuleDict({name: layer() for name in names})
    model["changed"].forward = lambda x: x
    w = model["sparse"].weight.detach()
    model["sparse"].weight = nn.Parameter(w.to_sparse())
    model["wrapped"].weight = nn.Parameter(two(w.clone(), w.clone()))
    model["own"], model["lazy"] = Own(48, 32), nn.LazyLinear(32)
    model["meta"] = nn.Linear(48, 32, device="meta")
    model["complex"] = nn.Linear(48, 32, dtype=torch.complex64)
    model["computed"] = nn.utils.parametrizations.weight_norm(layer())
    report = convert_(model, config(), filter_fn=lambda _, name: name != "filtered")
    assert [(row["shape"], row["scheme"]) for row in report.rows[:3]] == [((32, 48), None)] * 3
    assert {row["name"]: row["reason"] for row in report.rows} == {
        "changed": "its forward is one of its own",
        "sparse": "its weight is a Parameter (torch.sparse_coo)",
        "wrapped": "its weight is a TwoTensor (torch.strided)",
        "taken": "",
        "own": "a Own, not an nn.Linear itself",
        "lazy": "a LazyLinear, not an nn.Linear itself",
        "meta": "on meta",
        "complex": "falcon multiplies no complex64",
        "computed": "a ParametrizedLinear, not an nn.Linear itself",
    }
    assert [x for x in model if isinstance(model[x], falcon.torch.FalconLinear)] == ["taken"]
    assert "1 of 9 layers on falcon" in str(report)
    assert report.extra_bytes == model["taken"]._panels.nbytes > 0


def test_only_convert_makes_layers():
    with pytest.raises(TypeError, match=r"convert_\(layer\) makes a FalconLinear of an nn\.Linear"):
        falcon.torch.FalconLinear(48, 32)


def test_flops_are_counted():
    counter = pytest.importorskip("torch.utils.flop_counter").FlopCounterMode
    made, x = layer(bias=False), integers(2, 9, 48)
    convert_(made, config())

    def flops(call):
        with counter(display=False) as counted:
            call()
        return counted.get_total_flops()

    once = 2 * 18 * 48 * 32
    assert flops(lambda: made(x)) == flops(torch.no_grad()(lambda: made(x))) == once
    assert flops(lambda: made(x.requires_grad_()).sum().backward()) == 3 * once
    assert flops(lambda: falcon.torch.matmul(x, x.mT)) == 2 * 2 * 9 * 48 * 9


def test_autocast_leaves_integers_and_float64_as_they_are():
    x, w = integers(9, 48).long(), integers(32, 48)
    with torch.autocast("cpu", torch.bfloat16):
        for operands in ((x, w.long()), (x.float(), w), (x.float(), w.float(), w[:, 0])):
            with pytest.raises(TypeError):
                falcon.torch.linear(*operands)
        with pytest.raises(TypeError, match=r"torch\.int64"):
            falcon.torch.matmul(x, x.mT)


# --- what convert_ says and leaves as it is ------------------------------------------------------


def test_passes_of_an_example_do_not_change_a_model():
    model = nn.Sequential(layer(dtype=torch.float32), nn.BatchNorm1d(32), nn.Dropout())
    model[2].eval()
    convert_(model, config(), example=torch.randn(9, 48))
    assert [x.training for x in model.modules()] == [True, True, True, False]
    assert model[1].num_batches_tracked == 0


def test_layers_that_are_called_by_keyword():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer()

        def forward(self, x):
            return self.layer(input=x)

    assert convert_(Model(), config(), example=integers(9, 48)).forward.rows == 9


def test_progress(monkeypatch, doors):
    """What is done is said while the model is timed, unless it is not wanted or nobody hears it."""
    doors.numbers(first_progress=0.01)
    for wanted, stream in ((True, io.StringIO()), (False, io.StringIO()), (True, None)):
        monkeypatch.setattr(sys, "stderr", stream)
        convert_(layer(), config(), example=integers(9, 48), progress=wanted)
        if stream is not None:
            assert ("of 5 rounds] timing the forward pass" in stream.getvalue()) == wanted


def test_layers_without_memory_for_panels_are_torchs(doors):
    model, room = nn.Sequential(layer(), layer(), layer(30)), [1]

    def seen(*_, **__):
        if not room:
            raise MemoryError
        room.pop()

    doors.watched(falcon.torch.packed, "make_packed", seen=seen)
    rows = convert_(model, config()).rows
    assert [row["reason"] for row in rows] == ["", *["no memory for panels"] * 2]
    assert [type(x) for x in model] == [falcon.torch.FalconLinear, nn.Linear, nn.Linear]
    assert sum(row["extra_bytes"] for row in rows) == model[0]._panels.nbytes


def test_a_model_stays_as_it_was_if_converting_it_fails(doors):
    model = nn.Sequential(layer(), layer(48, 24))
    doors.watched(falcon.torch.convert, "attach", seen=lambda x, _: x is model[0] or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        convert_(model, config())
    assert [type(x) for x in model] == [nn.Linear] * 2


@pytest.mark.parametrize("packed", [True, False])
def test_features_in_different_units(doors, packed):
    doors.rates(Rates(1e9, 1e13, 1e13))
    doors.packs(packed)
    rng = np.random.default_rng(1)
    units = 10 ** rng.uniform(-3, 3, 1200)
    x = (rng.standard_normal((1100, 1200)) * units).astype("f4")
    w = (rng.standard_normal((1100, 1200)) / units).astype("f4")
    exact = x.astype("f8") @ w.T
    found = falcon.torch.linear(torch.from_numpy(x), torch.from_numpy(w)).numpy()
    errors = (np.sqrt(np.mean((c - exact) ** 2)) for c in (found, x @ w.T))
    assert next(errors) <= 9 * next(errors)
