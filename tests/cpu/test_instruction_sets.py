"""Every instruction set and kernel that falcon reports multiplies: the engine names what ran."""

import math
import re
from importlib.util import find_spec

import numpy as np
import pytest

from falcon._backends import BACKENDS
from falcon._core.dtypes import BY_ARITHMETIC, ENGINE, ENGINE_NAMES, PAIRS
from falcon._cpu import _core, extension, peak, sources
from falcon.codegen.program import Op

from .support import SOURCES, gemm

OWN = [x for x in ENGINE if not x.is_complex and find_spec(x.module)]  # ml_dtypes may be absent
ROWS = (*OWN, *PAIRS, *BY_ARITHMETIC.values())


def ran(row, isa):
    """Multiply whole numbers of a type, which must be right; return the name of the kernel."""
    left, right = row.pair or (row, row)
    rng = np.random.default_rng(1)
    a = rng.integers(0, 4, (70, 90)).astype(left.numpy)
    b = rng.integers(0, 4, (90, 100)).astype(right.numpy)
    exact = a.astype(int) @ b.astype(int)
    sums = np.int32 if row.is_exact else np.float32
    c = np.zeros((70, 100), left.numpy if left.itemsize == 8 else sums)
    profile = gemm(a, b, c, isa=isa, kind=row.engine, profile=True)
    np.testing.assert_array_equal(c, exact)
    return profile["kernel"]


def own_kernels(isa):
    """Row -> name, for the types that an instruction set has kernels for."""
    found = {}
    for row in ROWS:
        try:
            info = _core.kernel_info(row.engine, isa)
        except ValueError:  # float32 by parts, without AMX
            continue
        if info["isa"] == isa:
            found[row] = info["name"]
    return found


@pytest.mark.parametrize("isa", _core.supported_isas())
def test_the_kernels_of_an_instruction_set_run(isa):
    expected = own_kernels(isa)
    assert expected
    assert {row: ran(row, isa) for row in expected} == expected


def test_every_type_has_a_kernel_and_every_kernel_a_type():
    """The tables from which the build makes the engine's, each type with kernels somewhere."""
    assert {x for isa in sources.ISAS for x in isa.types} == {*_core.DTYPES} == {*ENGINE_NAMES}
    assert tuple(x.name for x in sources.ISAS) == _core.ISA_NAMES
    assert {*sources.OPCODES} == {"store", *(x.value for x in Op)}
    for isa in sources.isas_for():
        if isa.name in _core.supported_isas():
            own = {x for x in _core.DTYPES if info(x, isa.name) == isa.name}
            assert own == {*isa.types}


def test_every_instruction_set_is_looked_for_and_named():
    """Kernels that nothing looks for would never run; those that name another pass for it."""
    if not (SOURCES / "src").is_dir():
        pytest.skip("the C sources are not part of this installation")
    looked_for = re.findall(r"FALCON_\w+", (SOURCES / "src/machine/cpuid.c").read_text("utf-8"))
    for isa in sources.ISAS:
        name = f"FALCON_{isa.name.upper()}"
        assert name in looked_for
        for source in isa.sources:
            text = (SOURCES / source).read_text("utf-8")
            assert re.findall(r"^#define ISA_ID (\w+)$", text, re.M) == [name], source


def info(dtype, isa):
    try:
        return _core.kernel_info(dtype, isa)["isa"]
    except ValueError:  # float32 by parts, without AMX
        return None


def test_the_reported_kernels_run():
    reported = BACKENDS["cpu"].describe()
    assert reported["in use"] == extension.isa()
    for row in OWN:
        assert reported[f"{row.engine} kernel"] == ran(row, extension.isa())


# --- the measured peak -----------------------------------------------------------------------


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
