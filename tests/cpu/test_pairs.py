"""uint8 by int8 and int8 by uint8: the engine through the binding, bit for bit modulo 2^32."""

import numpy as np
import pytest

from falcon._core.dtypes import PAIRS

from .support import layout, require_cpu, run_script
from .test_types import KERNELS, over

require_cpu()
from falcon._cpu import _core  # noqa: E402  (absent where the extension is)


@over([x for x in KERNELS if x.values[0] in PAIRS])
def test_panels_of_two_types_are_those_of_bs_own(row, isa):
    own, found = _core.kernel_info(row.right.engine, isa), _core.kernel_info(row.engine, isa)
    for what in ("isa", "nr", "vlen", "kr", "kc", "panel", "acc"):
        assert found[what] == own[what]


@pytest.mark.parametrize("row", PAIRS, ids=str)
def test_a_c_of_elements_of_two_types_is_refused(row):
    a, b = np.ones((4, 4), row.left.numpy), np.ones((4, 4), row.right.numpy)
    planned = layout(a, b, np.ones((4, 4), np.int32))
    for c in (a.copy(), b.copy(), np.ones((4, 4))):
        with pytest.raises(ValueError, match="c does not fit"):
            _core.gemm(planned, a, b, c)
    with pytest.raises(ValueError, match="b does not fit"):
        _core.gemm(planned, a, np.ones((4, 4), np.int16), np.ones((4, 4), np.int32))
    with pytest.raises(ValueError, match="write their accumulators alone"):
        _core.plan(4, 4, 4, row.engine)


def test_a_packed_scheme_without_room_for_the_other_type_is_refused():
    """Sums of 142 elements of int8 fit 16 bits, of uint8 they do not."""
    code = """
import numpy as np, falcon
from falcon.schemes import Scheme, get
s, p = get("strassen"), np.array([[1, 70], [0, 1]])
inverse = np.array([[1, -70], [0, 1]])
steep = Scheme(s.U @ p.T, inverse.T @ s.V, s.W, "steep")
rng = np.random.default_rng(0)
a, b = rng.integers(0, 256, (40, 40), np.uint8), rng.integers(-128, 128, (40, 40), np.int8)
packed = falcon.pack(b, dtype="int32", scheme=steep)
assert packed.panels == np.int8, packed
exact = b.astype("i4") @ b.astype("i4")
np.testing.assert_array_equal(falcon.gemm(b, packed), exact)
try:
    falcon.gemm(a, packed)
except TypeError as error:
    print(error)
np.testing.assert_array_equal(
    falcon.gemm(a, b, dtype="int32", scheme=steep), a.astype("i4") @ b.astype("i4"))
"""
    said = run_script(code, FALCON_ISA="generic")
    for words in ("a has dtype uint8", "products of int8 in int32", "steep adds up", "pack a b"):
        assert words in said
