"""`bench --prefill`: its decoder layers, and the whole command."""

import json

import pytest

from falcon.__main__ import main
from falcon.bench.workloads import model_shapes

torch = pytest.importorskip("torch")
decoder = pytest.importorskip("falcon.bench.decoder")
prefill = pytest.importorskip("falcon.bench.prefill")

SMALL = decoder.Sizes(64, 32, 96, head=16)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(prefill.Sizes, "of", lambda name: SMALL)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.mark.parametrize("name", ["Qwen2.5-7B", "llama-3.1-8b"])
def test_layers_are_those_of_the_model(monkeypatch, name):
    monkeypatch.undo()
    with torch.device("meta"):
        layer = decoder.Layer(decoder.Sizes.of(name))
    fused = {
        "qkv": (layer.q_proj, layer.k_proj, layer.v_proj),
        "o": (layer.o_proj,),
        "gate_up": (layer.gate_proj, layer.up_proj),
        "down": (layer.down_proj,),
    }
    shapes = {x.label: (x.N, x.K) for x in model_shapes(name, 1)}
    for label, parts in fused.items():
        assert shapes[label] == (sum(x.out_features for x in parts), parts[0].in_features)
    with pytest.raises(ValueError, match="--prefill takes no DeepSeek-R1: its layers are of anoth"):
        decoder.Sizes.of("DeepSeek-R1")


def test_a_decode_step_continues_a_prefill():
    model = decoder.Decoder(SMALL, 2, torch.float64)
    x = torch.randn(9, 64, dtype=torch.float64)
    whole, _ = model(x)
    first, caches = model(x[:8])
    last, caches = model(x[8:], caches)
    torch.testing.assert_close(torch.cat([first, last]), whole, rtol=1e-12, atol=1e-12)
    assert caches[1][0].shape == (2, 9, 16)
    assert not torch.allclose(model(x[torch.arange(9).flip(0)])[0].flip(0), whole)  # positions


def test_the_command(capsys):
    words = ("bench", "--prefill", "--model", "small", "--tokens", "8,16", "--rounds", "1")
    words += ("--scheme", "strassen", "--layers", "2", "--threads", "1")
    threads = torch.get_num_threads()
    try:
        assert main([*words, "--dtype", "float32,bfloat16"]) == 0
        out = capsys.readouterr().out
        assert main([*words, "--dtype", "float64", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
    finally:
        torch.set_num_threads(threads)
    for word in ("2 decoder layers", "small prefill, float32", "small prefill, bfloat16",
                 "layers.1.down_proj", "strassen", "14 of 14 layers on falcon"):  # fmt: skip
        assert word in out
    runs = [(x["workload"], x["M"]) for x in found["cases"]]
    assert runs == [("small prefill", 8), ("small decode after 8", 1), ("small prefill", 16),
                    ("small decode after 16", 1)]  # fmt: skip
    for x in found["cases"]:
        assert x["speedups"]["torch"]["median"] > 0
        for side in x["sides"].values():
            assert 0 <= side["error"] < 1e-13 and side["facts"]["tokens/s"] > 0
            assert side["facts"]["in linear layers"].endswith(" %")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--prefill"], "--prefill needs --model"),
        (["--prefill", "--model", "x", "--layers", "0"], "--layers must be at least 1"),
        (["--prefill", "--model", "x", "--dtype", "int8"], "--dtype 'int8': expected bfloat16"),
        (["--prefill", "--model", "x", "--tokens", "8,,9"], "--tokens '8,,9': expected positive"),
    ],
)
def test_refused(capsys, words, message):
    assert main(["bench", *words]) == 2
    assert message in capsys.readouterr().err
