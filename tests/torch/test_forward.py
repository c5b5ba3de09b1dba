"""The report's last line: what a whole forward pass gains by the layers that were converted."""

import pytest

import falcon

torch = pytest.importorskip("torch")
forward = pytest.importorskip("falcon.torch.forward")
nn, convert_ = torch.nn, falcon.torch.convert_


class Two(nn.Module):
    """Two layers; the second one gets a row per batch only."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(48, 32), nn.Linear(32, 16)

    def forward(self, x, scale=1.0):
        return self.last(self.first(x)[:, 0]) * scale


def row(name, gain, interval=None, min_m=8):
    return {"name": name, "scheme": "strassen", "min_m": min_m, "gain": gain,
            "interval": interval, "measured": interval is not None}  # fmt: skip


def test_amdahls_law():
    passes = [(8.0, [("a", 64, 4.0), ("b", 64, 2.0), ("a", 2, 1.0)]),
              (10.0, [("a", 64, 4.0), ("b", 64, 4.0), ("a", 2, 1.0)])]  # fmt: skip
    rows = [row("a", 2.0, (1.0, 4.0)), {**row("b", 1.01, (1.0, 1.1)), "scheme": None}]
    found = forward.expected(passes, rows)
    assert (found.rows, found.seconds, found.measured) == (64, 9.0, True)
    assert found.share == pytest.approx((4 / 8 + 4 / 10) / 2)
    assert found.gain == pytest.approx((8 / 6 + 10 / 8) / 2)
    assert (found.low, found.high) == (1.0, pytest.approx(8 / 5))
    assert "64 rows: 9e+03 ms" in str(found) and "45 % in" in str(found)
    assert str(found).endswith("expected gain 1.29 (1.00 to 1.60)")


@pytest.mark.parametrize(
    "example", ["tensor", "tuple", "mapping"]
)  # the ways in which a model can be called
def test_of_a_model(example):
    model, x = Two().eval(), torch.randn(3, 20, 48)
    example = {"tensor": x, "tuple": (x, 2.0), "mapping": {"x": x, "scale": 2.0}}[example]
    config = falcon.torch.LinearConfig(measure=False, min_m=8, rows=64, scheme="strassen")
    report = convert_(model, config, example=example)
    found = report.forward
    assert found.rows == 60
    assert 0 < found.share < 1
    assert found.low <= found.gain <= found.high
    assert not found.measured
    assert str(report).endswith(f"({found.low:.2f} to {found.high:.2f}), predicted only")
    assert "forward" not in vars(model.first)
    assert convert_(model, config).forward is None


def test_few_rows_gain_nothing():
    model = Two().eval()
    config = falcon.torch.LinearConfig(measure=False, min_m=64, rows=64, scheme="strassen")
    found = convert_(model, config, example=torch.randn(3, 20, 48)).forward
    assert (found.share, found.gain, found.low, found.high) == (0, 1, 1, 1)


def test_the_fast_path_of_a_transformer_gains_nothing():
    """It reads weights without calling the layers, and does so while they are timed."""
    model = nn.TransformerEncoderLayer(48, 4, 96, batch_first=True).eval()
    config = falcon.torch.LinearConfig(measure=False, min_m=8, rows=64, scheme="strassen")
    assert convert_(model, config, example=torch.randn(2, 20, 48)).forward.share == 0


def test_a_model_that_fails_stays_as_it_was():
    model = Two().eval()
    model.first.forward = own = lambda x: x.missing
    with pytest.raises(AttributeError, match="missing"):
        convert_(model, example=torch.randn(3, 20, 48))
    assert vars(model.first)["forward"] is own
    assert type(model.last) is nn.Linear
    assert "forward" not in vars(model.last)
