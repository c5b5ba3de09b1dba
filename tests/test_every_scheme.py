"""Every scheme of the catalogue, in every permutation, run through `falcon.gemm` and compared with
exact arithmetic. Any one changed coefficient is refused.
"""

import numpy as np
import pytest

import falcon
from falcon import Scheme, SchemeError, schemes

NAMES = schemes.names()
# Compositions and images of the named ones, as a user would ask for them.
MORE = ["strassen@strassen", "winograd@hopcroft-kerr", "1x2x1:2@2x2x3:11", "3x3x6", "2x3x1"]


def sizes(scheme, extra=1):
    """Sizes that no dimension of the format divides, as far as it is not 1."""
    return tuple(3 * x + (x > 1) * extra for x in scheme.format)


def integers(shape, dtype, seed):
    """Whole numbers over the full range of the dtype, so that every sum wraps."""
    info = np.iinfo(dtype)
    random = np.random.default_rng(seed)
    return random.integers(info.min, info.max, shape, dtype, endpoint=True)


def images(name):
    found = {}
    for image in schemes.symmetries(schemes.get(name)):
        found.setdefault((image.format, image.U.tobytes()), image)
    return list(found.values())


@pytest.mark.parametrize("name", [*NAMES, *MORE])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int16"])
def test_integers_bit_for_bit(name, dtype):
    for seed, scheme in enumerate(images(name)):
        M, K, N = sizes(scheme)
        a, b = integers((M, K), dtype, seed), integers((K, N), dtype, seed + 9)
        c = falcon.gemm(a, b, scheme=scheme, backend="numpy")
        assert c.dtype == dtype
        np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("name", [*NAMES, *MORE])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_small_whole_numbers_are_exact_in_floats(name, dtype):
    """No intermediate sum leaves the range of exact whole numbers, so nothing is rounded."""
    for seed, scheme in enumerate(images(name)):
        M, K, N = sizes(scheme, extra=-1)
        random = np.random.default_rng(seed)
        a, b = random.integers(-4, 5, (M, K)), random.integers(-4, 5, (K, N))
        expected = a @ b
        assert float(scheme.e_max) * 16 * K < 2**24
        c = falcon.gemm(a.astype(dtype), b.astype(dtype), scheme=scheme)
        assert c.dtype == dtype
        np.testing.assert_array_equal(c, expected)


def flips(scheme, most):
    """Yield (factor, changed array): coefficients negated, erased or increased by one."""
    positions = [
        (factor, index) for factor in "UVW" for index in np.ndindex(getattr(scheme, factor).shape)
    ]
    if len(positions) > most:
        chosen = np.random.default_rng(len(positions)).choice(len(positions), most, replace=False)
        positions = [positions[x] for x in sorted(chosen)]
        # Most coefficients are zero; the others are the ones that can be negated and erased.
        nonzero = [(f, tuple(x)) for f in "UVW" for x in np.argwhere(getattr(scheme, f)).tolist()]
        positions += nonzero[:: max(1, len(nonzero) // most)]
    for factor, index in positions:
        old = int(getattr(scheme, factor)[index])
        for new in {-old, 0, old + 1} - {old}:
            changed = np.array(getattr(scheme, factor))
            changed[index] = new
            yield factor, changed


@pytest.mark.parametrize("name", NAMES)
def test_any_flipped_coefficient_is_refused(name):
    scheme = schemes.get(name)
    count = 0
    for factor, changed in flips(scheme, most=150 if scheme.rank <= 15 else 40):
        arrays = {x: getattr(scheme, x) for x in "UVW"} | {factor: changed}
        with pytest.raises(SchemeError, match="Brent equation"):
            Scheme(**arrays)
        count += 1
    assert count >= min(sum(scheme.nnz), 40)
