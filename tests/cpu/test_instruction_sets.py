"""Every instruction set and kernel that falcon reports multiplies: the engine names what ran."""

from importlib.util import find_spec

import numpy as np
import pytest

from .support import gemm, require_cpu

require_cpu()
from falcon._core.dtypes import BY_ARITHMETIC, ENGINE, PAIRS  # noqa: E402
from falcon._cpu import _core, backend, extension  # noqa: E402  (absent where the extension is)

OWN = [x for x in ENGINE if not x.is_complex and find_spec(x.module)]  # ml_dtypes may be absent
ROWS = (*OWN, *PAIRS, *BY_ARITHMETIC.values())


def ran(row, isa):
    """Multiply whole numbers of a type, which must be right; return the name of the kernel."""
    left, right = row.pair or (row, row)
    rng = np.random.default_rng(1)
    a = rng.integers(0, 4, (70, 90)).astype(left.numpy)
    b = rng.integers(0, 4, (90, 100)).astype(right.numpy)
    exact = a.astype(int) @ b.astype(int)
    sums = np.int32 if np.issubdtype(left.numpy, np.integer) else np.float32
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


def test_the_reported_kernels_run():
    reported = backend.describe()
    assert reported["in use"] == extension.isa()
    for row in OWN:
        assert reported[f"{row.engine} kernel"] == ran(row, extension.isa())
