"""`falcon.torch.convert_` and `revert_`: parameters stay, panels follow them, results agree."""

import copy
import io
import pickle
import sys
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest

import falcon
from falcon._core.options import FIELDS, LINEAR
from falcon._tools.timing import Estimate

from ..support import python
from .support import DTYPES, check_gradients, config, exact, integers, layer

torch = pytest.importorskip("torch")
convert = pytest.importorskip("falcon.torch.convert")
packed = pytest.importorskip("falcon.torch.packed")
nn, func = torch.nn, torch.func
convert_, revert_ = falcon.torch.convert_, falcon.torch.revert_


@pytest.fixture
def packs(doors):
    """The shapes that were packed."""

    def seen(b, options, *_, **__):
        assert options["threads"] == torch.get_num_threads()
        return tuple(b.shape)

    return doors.watched(packed, "make_packed", seen=seen)


def test_its_options_are_those_that_layers_take():
    assert {x.name for x in fields(falcon.torch.LinearConfig)} & FIELDS.keys() == {*LINEAR}
    for name in LINEAR:
        with pytest.raises((TypeError, ValueError), match=f"{name} is "):
            falcon.torch.LinearConfig(**{name: -2.5})


def test_a_misspelt_option_is_guessed():
    with pytest.raises(
        TypeError, match=r"'measured' \(did you mean 'measure'\?\); its options are"
    ):
        falcon.torch.LinearConfig(measured=False)
    with pytest.raises(TypeError, match=r"keyword argument 'min_rows'"):
        falcon.torch.LinearConfig("auto", min_rows=9)
    held = falcon.torch.LinearConfig("strassen", rows=9)
    assert pickle.loads(pickle.dumps(held)) == copy.copy(held) == held


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("scheme", ["classical", "strassen", "2x3x3:15"])
@pytest.mark.parametrize("bias", [True, False])
def test_exact_on_integers(dtype, scheme, bias, products):
    made = layer(dtype=dtype, bias=bias)
    (row,) = convert_(made, config(scheme=scheme, max_growth=64)).rows
    assert (row["shape"], row["min_m"], row["packed"]) == ((32, 48), 4, True)
    assert scheme in row["scheme"]
    with torch.no_grad():
        for shape in ((48,), (3, 48), (5, 48), (2, 7, 48), (0, 48)):
            x = integers(*shape, dtype=dtype)
            y = made(x)
            assert (y.dtype, y.shape) == (dtype, (*shape[:-1], 32))
            assert torch.equal(y.double(), exact(x, made))
    assert [type(b) for b in products] == [falcon.PackedOperand] * 2


def test_parameters_and_state_dict_stay():
    model = nn.Sequential(layer(), nn.ReLU(), layer(32, 16))
    before, names = [*model.parameters()], [*model.state_dict()]
    convert_(model, config())
    assert isinstance(model[0], nn.Linear)
    assert all(x is y for x, y in zip(before, model.parameters(), strict=True))
    assert [*model.state_dict()] == names
    assert not [*model.buffers()]
    plain = nn.Sequential(layer(), nn.ReLU(), layer(32, 16))
    plain.load_state_dict(model.state_dict())
    model.load_state_dict(plain.state_dict())
    assert revert_(model) is model
    assert [type(x) for x in model] == [nn.Linear, nn.ReLU, nn.Linear]
    assert vars(model[0]).keys() == vars(plain[0]).keys()


def in_place(made):
    with torch.no_grad():
        made.weight.mul_(-1)


def optimizer(made, **options):
    made.weight.grad = torch.ones_like(made.weight)
    torch.optim.SGD([made.weight], lr=1.0, **options).step()


@torch.no_grad()
def out(made):
    falcon.gemm(made.weight.clone(), -torch.eye(48).double(), out=made.weight)


def negated(made):
    return {"weight": -made.weight.detach(), "bias": made.bias.detach()}


CHANGES = {
    "in_place": in_place,
    "optimizer": optimizer,
    "fused": lambda made: optimizer(made, fused=True),  # it raises no counter
    "compiled step": lambda made: torch.compile(optimizer, backend="eager")(made, fused=True),
    "out": out,
    "loaded": lambda made: made.load_state_dict(negated(made)),
    "assigned": lambda made: made.load_state_dict(negated(made), assign=True),
    "replaced": lambda made: setattr(made, "weight", nn.Parameter(-made.weight.detach())),
    "data": lambda made: setattr(made.weight, "data", -made.weight.data),
    # These raise no counter: a sample of the entries is compared.
    "data, in place": lambda made: made.weight.data.mul_(-1),
    "storage": lambda made: made.weight.untyped_storage().copy_((-made.weight).untyped_storage()),
    "numpy": lambda made: np.negative(x := made.weight.detach().numpy(), out=x),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit")  # in torch's own code
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_changed_weight_is_packed_again(change, compiled, packs):
    made, x = layer(), integers(9, 48)
    convert_(made, config())
    run = torch.compile(made, fullgraph=True, backend="aot_eager") if compiled else made
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(run(x), exact(x, made))
    assert packs == [(48, 32)]
    before = made.weight.detach().clone()
    CHANGES[change](made)
    assert not torch.equal(made.weight, before)
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(run(x), exact(x, made))
    assert packs == [(48, 32)] * 2


def test_adapters_that_peft_merges_are_noticed(monkeypatch):
    """A change of one entry, which no sample shows; PEFT is imported after the conversion."""
    made, x = layer(), integers(9, 48)
    convert_(made, config())

    class BaseTunerLayer:
        def get_base_layer(self):
            return made

    class Lora(BaseTunerLayer):
        def merge(self):
            made.weight.data[3, 5] += 1.0

        def unmerge(self):
            made.weight.data[3, 5] -= 1.0

    lora = Lora()
    monkeypatch.setattr(packed, "_watched", set())
    monkeypatch.setitem(sys.modules, "peft", None)
    utils = SimpleNamespace(BaseTunerLayer=BaseTunerLayer)
    monkeypatch.setitem(sys.modules, "peft.tuners.tuners_utils", utils)
    with torch.no_grad():
        for name in ("merge", "merge", "unmerge"):
            getattr(lora, name)()
            for _ in range(2):
                assert torch.equal(made(x), exact(x, made))


def again(module, made, **options):
    file = io.BytesIO()
    module.save(made, file)
    file.seek(0)
    return module.load(file, **options)


def saved(made):
    return again(torch, made, weights_only=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), saved])
def test_copies_have_panels_of_their_own(copied, packs):
    model, x = nn.Sequential(layer()), integers(9, 48)
    convert_(model, config())
    other = copied(model)
    assert other[0]._panels.nbytes == 0
    assert other[0]._handle.shape != model[0]._handle.shape
    with torch.no_grad():
        other[0].weight.mul_(3)
        assert torch.equal(other(x), exact(x, other[0]))
        assert torch.equal(model(x), exact(x, model[0]))
    assert len(packs) == 2
    assert len(pickle.dumps(model)) < len(pickle.dumps(nn.Sequential(layer()))) + 2000


def test_to_drops_the_panels():
    model = nn.Sequential(layer(dtype=torch.float32))
    convert_(model, config())
    assert model[0]._panels.nbytes > 0
    model.to(torch.float64)
    assert model[0]._panels.nbytes == 0
    assert copy.deepcopy(model).to("meta")[0]._handle.device.type == "meta"  # no mix of devices
    x = integers(9, 48)
    with torch.no_grad():
        assert torch.equal(model(x), exact(x, model[0]))
    assert model[0]._panels.nbytes > 0


def test_tied_weights_share_panels(packs):
    model = nn.ModuleList([layer(bias=False), layer(bias=False), layer(bias=False)])
    model[2].weight = model[0].weight
    report = convert_(model, config())
    assert len(packs) == 2
    assert [row["reason"] for row in report.rows] == ["", "", "shares panels"]
    assert report.rows[2]["extra_bytes"] == 0
    assert model[0]._panels.of(model[0].weight) is model[2]._panels.of(model[2].weight)
    in_place(model[0])
    x = integers(9, 48)
    with torch.no_grad():
        assert torch.equal(model[0](x), exact(x, model[2]))
        assert torch.equal(model[2](x), exact(x, model[2]))
    assert len(packs) == 3


def test_panels_go_with_the_layer():
    model = nn.Sequential(layer())
    convert_(model, config())
    number = model[0]._handle.shape[-1]
    assert number in packed._kept
    revert_(model)
    assert number not in packed._kept
    assert not [x for x in packed._packed.values() if x.operand.shape == (48, 32)]


def test_gradients_do_not_use_panels(products):
    made = layer()
    convert_(made, config())
    check_gradients(made)
    assert len(products) == 3
    assert not any(isinstance(b, falcon.PackedOperand) for b in products)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(dynamic, products):
    model = nn.Sequential(layer(), nn.ReLU(), layer(32, 16))
    convert_(model, config())
    run = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for rows in (9, 12, 2):
        x = integers(rows, 48)
        with torch.no_grad():
            assert torch.equal(run(x), exact(exact(x, model[0]).relu(), model[2]))
    assert [type(b) for b in products] == [falcon.PackedOperand] * 4
    run(x).sum().backward()
    assert model[0].weight.grad is not None


@pytest.mark.parametrize("bias", [True, False])
def test_opcheck(bias):
    made = layer(bias=bias)
    convert_(made, config())
    for x in (integers(9, 48), integers(3, 4, 48).transpose(0, 1), integers(2, 48)):
        operands = x, made.weight.detach(), made.bias, made._handle
        with torch.no_grad():
            torch.library.opcheck(torch.ops.falcon.linear_packed.default, operands)


def test_a_number_of_another_process_is_harmless():
    made, x = layer(), integers(9, 48)
    with torch.no_grad():
        y = torch.ops.falcon.linear_packed(x, made.weight, made.bias, torch.empty(0, 2**40))
        assert torch.equal(y, exact(x, made))
        other = layer(40, 40)
        convert_(other, config())
        y = torch.ops.falcon.linear_packed(x, made.weight, made.bias, other._handle)
        assert torch.equal(y, exact(x, made))


def test_inference_mode_autocast_vmap():
    x = integers(9, 48, dtype=torch.float32)
    made = layer(dtype=torch.float32)
    convert_(made, config())
    with torch.inference_mode():
        assert torch.equal(made(x).double(), exact(x, made))
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16):
            assert made(x).dtype is torch.bfloat16
        batch = integers(3, 9, 48, dtype=torch.float32)
        assert torch.equal(torch.vmap(made)(batch).double(), exact(batch, made))
        weights, _ = func.stack_module_state([copy.deepcopy(made), made])
        call = torch.vmap(lambda weights: func.functional_call(made, weights, (x,)))
        assert torch.equal(call(weights)[1].double(), exact(x, made))
    with pytest.raises(RuntimeError, match="must have the same dtype"):  # torch's own
        made(x.double())


def exported(model, x, **options):
    return torch.export.export(model, (x,), **options)


PROGRAMS = {
    "export": lambda model, x: exported(model, x, strict=True).module(),
    "reloaded": lambda model, x: again(torch.export, torch.no_grad()(exported)(model, x)).module(),
    "fx": lambda model, x: copy.deepcopy(torch.fx.symbolic_trace(model)),
    "jit.trace": lambda model, x: again(torch.jit, torch.jit.trace(model, x)),
    "jit.script": lambda model, x: torch.jit.script(model),
}


@pytest.mark.filterwarnings("ignore:.*(torch.jit|LeafSpec)")
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program, products):
    model, x = nn.Sequential(layer(), layer(32, 16)), integers(9, 48)
    convert_(model, config())
    made, expected = PROGRAMS[program](model, x), exact(exact(x, model[0]), model[1])
    products.clear()
    with torch.no_grad():
        assert torch.equal(made(x), expected)
    assert len(products) == (0 if program == "jit.script" else 2)
    found = torch.autograd.grad(made(x).sum(), [*made.parameters()])
    right = torch.autograd.grad(expected.sum(), [*model.parameters()])
    assert all(map(torch.equal, found, right))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("dynamo", [True, False])
def test_onnx(dynamo, tmp_path):
    pytest.importorskip("onnxscript")
    onnx = pytest.importorskip("onnx")
    made, x = layer(dtype=torch.float32).eval(), integers(9, 48, dtype=torch.float32)
    convert_(made, config())
    given = exported(made, x) if dynamo else made
    torch.onnx.export(given, (x,), tmp_path / "made.onnx", dynamo=dynamo, input_names=["x"])
    run = onnx.reference.ReferenceEvaluator(onnx.load(tmp_path / "made.onnx")).run
    (found,) = run(None, {"x": x.numpy()})
    assert np.array_equal(found, exact(x, made).detach().numpy())


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated")
def test_what_only_torch_can_do():
    made, x = nn.Sequential(layer(dtype=torch.float32)), integers(9, 48)
    convert_(made, config())
    with torch.no_grad(), falcon.config(memory_limit=1):
        assert torch.equal(made.double()(x), exact(x, made[0]))
        made[0].bias = nn.Parameter(integers(1, 32))
        assert torch.equal(made(x), exact(x, made[0]))
    with pytest.raises(TypeError, match=r"leaves a FalconLinear unquantized.*revert_"):
        torch.ao.quantization.quantize_dynamic(made)


def test_bfloat16_without_ml_dtypes():
    code = """if True:
        import sys, torch, pytest
        sys.modules["ml_dtypes"] = None
        import falcon.torch
        model, x = torch.nn.Linear(300, 300), torch.ones(300, 300, dtype=torch.bfloat16)
        falcon.torch.convert_(model, falcon.torch.LinearConfig(measure=False))
        assert type(model.bfloat16()) is falcon.torch.FalconLinear
        assert torch.equal(model(x), torch.nn.functional.linear(x, model.weight, model.bias))
        missing = "bfloat16 needs the package ml_dtypes: pip install ml_dtypes"
        report = falcon.torch.convert_(model, example=x)
        assert report.rows[0]["reason"] == missing
        assert str(report).splitlines()[0] == f"1 of 1 layers are torch's: {missing}"
        for product in (falcon.torch.linear, falcon.matmul):
            with pytest.raises(TypeError, match=missing):
                product(x, x)
    """
    python("-c", code)


@pytest.mark.parametrize("rows", [9, 1])
def test_a_transformer_layer_agrees(rows):
    """Its fast path reads weights without calling the layers."""
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(48, 4, 96, batch_first=True, dtype=torch.float64).eval()
    x = torch.randn(2, rows, 48, dtype=torch.float64)
    with torch.no_grad():
        expected = model(x)
        report = convert_(model, config(scheme="strassen"))
        torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-12)
    names = {row["name"]: row["reason"] for row in report.rows}
    assert names["linear1"] == ""
    assert "NonDynamicallyQuantizableLinear" in names["self_attn.out_proj"]
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-12)  # gradients: the slow path


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_batch_invariance(dtype):
    torch.manual_seed(0)
    made = nn.Linear(1000, 600, dtype=dtype)  # by bfloat16 parts, where these are fast
    (row,) = convert_(made, config(batch_invariant=True, rows=700)).rows
    assert row["scheme"] == "classical" and row["min_m"] == 1
    x = torch.randn(700, 1000).to(dtype)
    with torch.no_grad():
        whole = made(x)
        for rows in (1, 2, 4, 5, 17, 31, 33, 64, 257, 699):
            assert torch.equal(made(x[:rows]), whole[:rows])
            assert torch.equal(made(x[-rows:]), whole[-rows:])
        x[3] = float("nan")
        assert torch.equal(made(x)[4:], whole[4:])


def test_small_layers_are_batch_invariant_too():
    made = nn.Linear(30, 20)
    (row,) = convert_(made, config(batch_invariant=True)).rows
    assert row["reason"] == "" and row["packed"]
    x = torch.randn(9, 30)
    with torch.no_grad():
        assert torch.equal(made(x[0]), made(x)[0])


# --- what is converted, and the report ------------------------------------------------------


def test_memory_limit():
    model = nn.Sequential(*[layer(48, 48) for _ in range(4)])
    one = convert_(model, config()).rows[0]["extra_bytes"]
    report = convert_(model, config(memory_limit=int(2.5 * one)))
    assert report.extra_bytes == 2 * one
    assert [row["packed"] for row in report.rows] == [True, True, False, False]
    assert report.rows[3]["reason"] == "memory_limit leaves no room for panels"
    assert type(model[3]) is nn.Linear
    assert convert_(model, config(memory_limit="1TiB")).extra_bytes == 4 * one


@pytest.mark.parametrize("rows", [300, 60_000])
def test_panels_are_made_where_they_are_predicted_to_gain(rows):
    made = layer(1200, 1280, torch.float32)
    how = config(rows=rows, max_growth=8.0)
    with torch.no_grad():
        panels = packed.Panels(how.how(torch.float32)).of(made.weight)
    best, plain = (x.total for x in falcon.plan((rows, 1200), panels).candidates)
    (row,) = convert_(nn.Sequential(made), how).rows
    assert row["packed"] == (best <= plain)
    assert (row["extra_bytes"] > 0) == row["packed"]
    x = integers(4, 1200).float()
    with torch.no_grad():
        assert torch.equal(made(x), exact(x, made).float())


@pytest.mark.parametrize(
    ("named", "gains", "scheme_is_none", "is_packed", "min_m"),
    [
        (4, [[1.3, 1.2], [1.1]], False, True, 4),
        (4, [[1.3, 1.2], [0.9]], False, True, 40),
        (4, [[1.2, 1.2], [1.1]], False, False, 4),
        (4, [[0.9, 1.2], [0.9]], False, False, 40),
        (4, [[1.01, 1.0]], True, False, None),
        (None, [[1.3, 1.2], [1.2]], False, True, 16),
        (None, [[1.3, 1.2], [1.05]], False, True, 40),  # not for sure
    ],
)
def test_the_fastest_is_taken(named, gains, scheme_is_none, is_packed, min_m, doors, products):
    measured = iter(gains)
    doors.conversion(gains=lambda *_: [Estimate(x, x - 0.1, x + 0.1, 5) for x in next(measured)])
    made = layer()
    (row,) = convert_(made, config(measure=True, min_m=named)).rows
    assert next(measured, None) is None
    assert row["measured"] and row["gain"] == max(gains[0])
    assert row["interval"] == (row["gain"] - 0.1, row["gain"] + 0.1)
    found = row["scheme"] is None, row["packed"], row["min_m"]
    assert found == (scheme_is_none, is_packed, min_m)
    assert row["reason"] == ("gains too little: 1.01" if scheme_is_none else "")
    x = integers(50, 48)
    with torch.no_grad():
        assert torch.equal(made(x), exact(x, made))
    kinds = [falcon.PackedOperand if is_packed else torch.Tensor]
    assert [type(b) for b in products] == ([] if scheme_is_none else kinds)


def test_speeds_are_measured():
    made, state = layer(128, 128), torch.get_rng_state()
    with torch.device("meta"):
        (row,) = convert_(made, config(measure=True)).rows
    assert row["measured"] and torch.equal(torch.get_rng_state(), state)
    assert 0 < row["interval"][0] <= row["gain"] <= row["interval"][1] < np.inf


def test_arguments_are_checked():
    with pytest.raises(TypeError, match=r"config is a dict; expected a LinearConfig"):
        convert_(layer(), {"rows": 64})
    with pytest.raises(TypeError, match="model is a int"):
        convert_(3)
    for error, message, options in (
        (TypeError, "rows is None; expected an integer", {"rows": None}),
        (TypeError, r"rows is 1\.5", {"rows": 1.5}),
        (TypeError, "measure is 'no'; expected True or False", {"measure": "no"}),
        (ValueError, "min_m is 0", {"min_m": 0}),
        (ValueError, "memory_limit is 'much'", {"memory_limit": "much"}),
        (ValueError, r"max_growth is 0\.5", {"max_growth": 0.5}),
        (ValueError, "needs 'classical'", {"batch_invariant": True, "scheme": "strassen"}),
        (ValueError, "there is no scheme 'strasen'", {"scheme": "strasen"}),
    ):
        with pytest.raises(error, match=message):
            config(**options)
