"""The measured peak: of every instruction set and dtype; bad arguments are refused."""

import math

import pytest

from .support import require_cpu

require_cpu()
from falcon._core.dtypes import ENGINE, PAIRS  # noqa: E402
from falcon._cpu import _core, peak  # noqa: E402  (absent where the extension is)


@pytest.mark.parametrize("isa", _core.supported_isas())
@pytest.mark.parametrize("dtype", dict.fromkeys(x.engine for x in (*ENGINE, *PAIRS)))
@pytest.mark.parametrize("threads", [1, 2])
def test_peak(isa, dtype, threads):
    found = _core.peak(dtype, threads, isa, 0.0)
    assert math.isfinite(found)
    assert found > 1e6  # no processor with these kernels is slower, however busy


@pytest.mark.parametrize(
    "arguments",
    [("f8",), ("f32", 0), ("f32", 1, "abacus"), ("f32", 1, None, -1.0),
     ("f32", 1, None, float("nan"))],
)  # fmt: skip
def test_refused(arguments):
    with pytest.raises(ValueError):
        _core.peak(*arguments)


def test_every_kernel_once():
    found = [(x.isa, x.dtype) for x in peak.measure(1, seconds=0.0)]
    assert {isa for isa, _ in found} == set(_core.supported_isas())
    assert len(set(found)) == len(found)
    some = peak.measure(1, ["float64"], seconds=0.0)
    assert [x.isa for x in some] == [isa for isa, dtype in found if dtype == "float64"]
