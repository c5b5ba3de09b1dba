"""The example of docs/gpu.md runs, small, on the stand-in for CuPy."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np


def test_the_example_runs(cupy, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)

    def standard_normal(shape, dtype):
        return cupy.asarray(np.random.default_rng(0).standard_normal(shape).astype(dtype))

    random = SimpleNamespace(standard_normal=standard_normal)
    monkeypatch.setattr(cupy, "random", random, raising=False)
    place = {}
    exec(code.replace("8192", "100"), place)
    a, b, c = (cupy.asnumpy(place[name]) for name in "abc")
    np.testing.assert_allclose(c, a @ b, atol=1e-4)
