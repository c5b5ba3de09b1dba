"""The report's last line: what a whole forward pass gains by the layers that were converted."""

import pytest

import falcon
from falcon._core.timing import Record

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
    assert "60 rows: 4e+03 ms" in str(report)
    assert str(report).endswith("\ngain of the pass 1.60 (1.00 to 2.00): undecided")
    assert max(map(len, str(report).splitlines())) <= 100
    assert type(model.first) is FalconLinear
    assert "forward" not in vars(model.first)
    assert convert_(model, config()).forward is None


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
    doors.conversion(_gains=lambda *_: [0.9, 0.9])
    found = convert_(Two().eval(), falcon.torch.LinearConfig(), example=torch.randn(3, 20, 48))
    assert (found.forward.share, found.forward.gain) == (0, 1)


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
