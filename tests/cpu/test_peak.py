"""The measured peak: there for every instruction set and dtype, and refused for what is none."""

import math

import pytest

from .support import require_cpu

require_cpu()
from falcon._cpu import _core, peak  # noqa: E402  (absent where the extension is)


@pytest.mark.parametrize("isa", _core.supported_isas())
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("threads", [1, 2])
def test_peak(isa, dtype, threads):
    found = _core.peak(dtype, threads, isa, 0.0)
    assert math.isfinite(found)
    assert found > 1e7  # no processor with these kernels is slower, however busy


@pytest.mark.parametrize(
    "arguments",
    [("f8",), ("f32", 0), ("f32", 1, "abacus"), ("f32", 1, None, -1.0),
     ("f32", 1, None, float("nan"))],
)  # fmt: skip
def test_refused(arguments):
    with pytest.raises(ValueError):
        _core.peak(*arguments)


def test_table():
    found = peak.measure(1, seconds=0.0)
    assert {x.isa for x in found} == set(_core.supported_isas())
    table = peak.format_peaks(found).splitlines()
    assert len(table) == 1 + len(found) == 1 + 2 * len(_core.supported_isas())
