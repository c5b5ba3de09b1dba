"""Every scheme of the catalogue, in every permutation, run through `falcon.gemm` and compared with
exact arithmetic.
"""

import numpy as np
import pytest

import falcon
from falcon import schemes

NAMES = schemes.names()
# Compositions and images of the named ones, as a user would ask for them.
MORE = ["strassen@strassen", "winograd@hopcroft-kerr", "1x2x1:2@2x2x3:11", "3x3x6", "2x3x1"]


def images(name):
    found = {}
    for image in schemes.symmetries(schemes.get(name)):
        found.setdefault((image.format, image.U.tobytes()), image)
    return list(found.values())


@pytest.mark.parametrize("name", [*NAMES, *MORE])
@pytest.mark.parametrize(
    "dtype", ["int64", "int32", "uint8", "int16", "float32", "float64", "complex128"]
)
def test_products_are_exact(name, dtype):
    """Integers are of the whole range and wrap; no sum of small whole floats is rounded."""
    kind, low, high, backend, extra = dtype, -4, 4, "auto", -1
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        low, high, backend, extra = info.min, info.max, "numpy", 1
    else:
        kind = "int64"
    for seed, scheme in enumerate(images(name)):
        M, K, N = (3 * x + (x > 1) * extra for x in scheme.format)  # the format divides no size
        assert backend == "numpy" or float(scheme.e_max) * 16 * K < 2**24
        random = np.random.default_rng(seed)
        a, b = (random.integers(low, high, x, kind, endpoint=True) for x in ((M, K), (K, N)))
        c = falcon.gemm(a.astype(dtype), b.astype(dtype), scheme=scheme, backend=backend)
        assert c.dtype == dtype
        np.testing.assert_array_equal(c, a @ b)
