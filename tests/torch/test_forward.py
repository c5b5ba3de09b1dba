"""The report's last line: what a whole forward pass gains by the layers that were converted."""

from contextlib import nullcontext

import pytest

import falcon
from falcon._tools.timing import Estimate, Record

torch = pytest.importorskip("torch")
convert = pytest.importorskip("falcon.torch.convert")
forward = pytest.importorskip("falcon.torch.forward")
nn, convert_, FalconLinear = torch.nn, falcon.torch.convert_, falcon.torch.FalconLinear


class Two(nn.Module):
    """Two layers; the second one gets a row per batch only."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(48, 32), nn.Linear(32, 16)

    def forward(self, x, scale=1.0):
        self.seen = type(self.first), torch.is_grad_enabled(), scale
        return self.last(self.first(x)[:, 0]) * scale


def config(**options):
    known = {"measure": False, "min_m": 8, "rows": 64, "scheme": "strassen"}
    return falcon.torch.LinearConfig(**{**known, **options})


@pytest.fixture
def turns(doors):
    """Seconds as if falcon took 2, 2.5 and 4, torch 4; the classes of the first layer then."""
    kinds = []

    def interleave(sides, *_, **__):
        for side in sides:
            side.time(1)
            kinds.append((side.name, model.seen[0]))
        return [Record("falcon", (2.0, 2.5, 4.0)), Record("torch", (4.0, 4.0, 4.0))]

    model = Two().eval()
    doors.turns(interleave, of="falcon.torch.forward")
    return model, kinds


def test_both_are_timed(turns):
    model, kinds = turns
    report = convert_(model, config(), example=torch.randn(3, 20, 48))
    assert kinds == [("falcon", FalconLinear), ("torch", nn.Linear)]
    found = report.forward
    assert (found.rows, found.seconds) == (60, 4.0)
    assert (found.gain, found.low, found.high) == (1.6, 1.0, 2.0)
    assert 0 < found.share < 1
    assert "60 rows: 4.00 s with" in str(report)
    gain, error, holds, advice = str(report).splitlines()[-4:]
    assert gain == "gain of a pass of 60 rows 1.60 (1.00 to 2.00): undecided"
    assert holds == "calls of other rows gain more or less: a list of examples times several"
    assert error == (f"error of the pass against float64: {found.error_of_torch:.3g} with torch's "
                     f"layers, {found.error:.3g} with falcon's")  # fmt: skip
    assert "not surely faster: falcon.torch.revert_(model)" in advice and "min_gain=1.0" in advice
    assert max(map(len, str(report).splitlines())) <= 100
    assert type(model.first) is FalconLinear
    assert "forward" not in vars(model.first)
    assert convert_(model, config()).forward is None


def test_several_examples(doors):
    """All of them must gain what is asked for."""
    ratios = iter([4.0, 2.1, 1.5, 4.0, 2.1, 1.5])
    ours = Record("falcon", (1.0,) * 5)
    doors.turns(lambda *_, **__: [ours, Record("torch", (next(ratios),) * 5)],
                of="falcon.torch.forward")  # fmt: skip
    model, examples = Two().eval(), [torch.randn(x, 20, 48) for x in (3, 2, 1)]
    report = convert_(model, config(), example=examples)
    assert [x.rows for x in report.forwards] == [60, 40, 20]
    assert (report.forward.rows, report.forward.gain) == (20, 1.5)
    text = str(report)
    assert [x for x in text.splitlines() if x.startswith("gain of")] == [
        f"gain of a pass of {rows} rows {gain:.2f}: faster"
        for rows, gain in ((60, 4.0), (40, 2.1), (20, 1.5))
    ]
    assert "a list of examples" not in text and "not surely" not in text
    assert not convert_(model, config(), example=examples, min_gain=2.0).rows[0]["scheme"]
    assert type(model.first) is nn.Linear
    with pytest.raises(ValueError, match="example is an empty list"):
        convert_(model, config(), example=[])


def test_a_pass_that_other_programs_disturbed_gains_nothing_for_sure(doors):
    why = "this process had 10% of a CPU"
    records = [Record("falcon", (2.0,) * 5, why), Record("torch", (4.0,) * 5, why)]
    doors.turns(lambda *_, **__: records, of="falcon.torch.forward")
    model, example = Two().eval(), torch.randn(3, 20, 48)
    report = convert_(model, config(), example=example)
    assert (report.forward.verdict, report.forward.disturbed) == ("undecided", why)
    assert f"\nother programs disturbed it ({why}); run it again" in str(report)
    convert_(model, config(), example=example, min_gain=1.0)
    assert type(model.first) is nn.Linear


def test_the_time_that_is_left_is_that_of_each_part(doors, turns):
    parts = []

    class Noted(nullcontext):
        def part(self, total, unit):
            parts.append([total, unit, 0])

        def say(self, text):
            pass

        def step(self, _=None):
            parts[-1][2] += 1

    doors.conversion(Progress=Noted)
    convert_(turns[0], config(), example=torch.randn(3, 20, 48))
    assert parts == [[2, "shapes", 2], [2, "layers", 2], [5, "rounds", 0]]


@pytest.fixture
def fast(doors):
    """No time is taken."""
    records = [Record("falcon", (2.0,) * 5), Record("torch", (4.0,) * 5)]
    doors.turns(lambda *_, **__: records, of="falcon.torch.forward")


@pytest.mark.parametrize("seconds, verdict", [((2.0,) * 5, "faster"), ((5.0,) * 5, "slower")])
def test_what_is_not_surely_faster_is_reverted_if_asked(seconds, verdict, doors):
    records = [Record("falcon", seconds), Record("torch", (4.0,) * 5)]
    doors.turns(lambda *_, **__: records, of="falcon.torch.forward")
    model, example = Two().eval(), torch.randn(3, 20, 48)
    report = convert_(model, config(), example=example)
    assert report.forward.verdict == verdict
    assert ("not surely faster" in str(report)) == (verdict == "slower")
    for least in (1.0, 1.9, 2.1):
        report = convert_(model, config(), example=example, min_gain=least)
        is_kept = least <= report.forward.gain
        assert (type(model.first) is FalconLinear) == is_kept
        assert [x["scheme"] for x in report.rows] == ["strassen" if is_kept else None] * 2
        assert all(x["extra_bytes"] > 0 or not is_kept for x in report.rows)
        assert ("reverted: min_gain" in str(report)) == (not is_kept)
        assert is_kept or "not surely" not in str(report)
    with pytest.raises(TypeError, match="it needs an example"):
        convert_(model, config(), min_gain=1.0)


class Branches(nn.Module):
    """Returns a mapping with a tuple in it, and integers."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x):
        made = self.first(x) * self.scale
        return {"made": (made, made.argmax()), "twice": 2 * made}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_error_of_the_pass(dtype, fast, monkeypatch):
    torch.manual_seed(0)
    model, x = Branches().eval().to(dtype), torch.randn(40, 64).to(dtype)
    found = convert_(model, config(), example=(x,)).forward
    assert found.wider == ("float64" if dtype is torch.float32 else "float32")
    y = nn.functional.linear(x.double(), model.first.weight.double(), model.first.bias.double())
    with torch.no_grad():
        error = (model(x)["twice"].double() - y).norm() / y.norm()
    assert 0.5 * error <= found.error <= 2 * error
    assert 0 < found.error_of_torch <= 2 * torch.finfo(dtype).eps
    assert model.first.weight.dtype is dtype and model.scale.dtype is dtype
    right = FalconLinear.forward
    monkeypatch.setattr(FalconLinear, "forward", lambda layer, x: right(layer, x) * 1.125)
    wrong = convert_(model, config(), example={"x": x}).forward
    assert wrong.error_of_torch == found.error_of_torch and 0.11 < wrong.error < 0.14


def test_no_wider_type(fast):
    x = torch.randn(40, 64)
    found = convert_(Branches().eval().double(), config(), example=x.double()).forward
    assert (found.wider, found.error) == ("", None) and "error" not in str(found)
    model = Branches().eval()
    own = model.first.register_forward_pre_hook(lambda _, x: (x[0].float(),))
    found = convert_(model, config(), example=x).forward
    assert (found.wider, found.error) == ("float64", None)
    assert str(found).endswith(
        "against float64: unknown, as the model fails there or returns no floats"
    )
    own.remove()


@pytest.mark.parametrize("example", ["tuple", "mapping"])
def test_any_arguments(example, turns):
    model, x = turns[0], torch.randn(3, 20, 48)
    convert_(
        model, config(), example={"tuple": (x, 2.0), "mapping": {"x": x, "scale": 2.0}}[example]
    )
    assert model.seen[1:] == (False, 2.0)


def test_few_rows_are_no_share(turns):
    found = convert_(turns[0], config(min_m=64), example=torch.randn(3, 20, 48)).forward
    assert found.share == 0


def test_a_real_pass():
    found = convert_(Two().eval(), config(), example=torch.randn(3, 20, 48)).forward
    assert 0 < found.low <= found.gain <= found.high


def test_without_converted_layers_nothing_is_gained(doors):
    doors.conversion(gains=lambda *_: [Estimate(0.9, 0.8, 1.0, 5)] * 2)
    found = convert_(Two().eval(), falcon.torch.LinearConfig(), example=torch.randn(3, 20, 48))
    assert (found.forward.share, found.forward.gain) == (0, 1)
    assert (found.forward.wider, found.forward.error) == ("", None)
    assert "0.90 (0.80 to 1.00)" in str(found) and "surely" not in str(found)
    assert str(found).endswith("gain of a pass of 60 rows 1.00: as fast")


def test_the_fast_path_of_a_transformer():
    """It reads weights without calling the layers, and does so while they are timed."""
    model = nn.TransformerEncoderLayer(48, 4, 96, batch_first=True).eval()
    assert convert_(model, config(), example=torch.randn(2, 20, 48)).forward.share == 0


def test_a_model_that_fails_stays_as_it_was():
    model = Two().eval()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        convert_(model, config(), example=torch.randn(3, 20, 47))
    assert type(model.first) is type(model.last) is nn.Linear
    assert "forward" not in vars(model.first)


def test_a_layers_own_forward_is_put_back():
    model = nn.Sequential(nn.Linear(5, 4))
    model[0].forward = own = lambda x: x
    _, calls = forward.watch(model, {"0": model[0]}, torch.ones(3, 5))
    assert [x[:2] for x in calls] == [("0", 3)]
    assert vars(model[0])["forward"] is own
