"""The measured peak: of every instruction set and dtype; bad arguments are refused."""

import math

import pytest

from .support import require_cpu

require_cpu()
from falcon._core.dtypes import ENGINE, PAIRS  # noqa: E402
from falcon._cpu import _core, peak  # noqa: E402  (absent where the extension is)

# Instruction sets that have no loop in peak.c for some of their types, or for all.
UNMEASURED = (
    "generic",
    "neon",
    "neon_dot",
    "neon_i8mm",
    "neon_bf16",
    "sve",
    "amx_bf16",
    "amx_int8",
)


@pytest.mark.parametrize("isa", _core.supported_isas())
@pytest.mark.parametrize("dtype", dict.fromkeys(x.engine for x in (*ENGINE, *PAIRS)))
@pytest.mark.parametrize("threads", [1, 2])
def test_peak(isa, dtype, threads):
    found = _core.peak(dtype, threads, isa, 0.0)
    assert math.isfinite(found)
    if found == 0.0:
        assert isa in UNMEASURED
        assert isa == "sve" or dtype in ("i8", "u8", "i16", "bf16", "u8i8", "i8u8")
    else:
        assert found > 1e7  # no processor with these kernels is slower, however busy


@pytest.mark.parametrize(
    "arguments",
    [("f8",), ("f32", 0), ("f32", 1, "abacus"), ("f32", 1, None, -1.0),
     ("f32", 1, None, float("nan"))],
)  # fmt: skip
def test_refused(arguments):
    with pytest.raises(ValueError):
        _core.peak(*arguments)


def test_instruction_sets():
    found = peak.measure(1, seconds=0.0)
    assert {x.isa for x in found} == set(_core.supported_isas()) - set(UNMEASURED[2:])
    for isa in _core.supported_isas():
        kinds = {x.dtype for x in found if x.isa == isa}
        if isa in ("avx2", "avx512"):
            assert {x.engine for x in ENGINE if x.name in kinds} == {x.engine for x in ENGINE}
        assert len(kinds) == sum(x.isa == isa for x in found)  # none twice
