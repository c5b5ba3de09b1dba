"""Complex products by real ones: proved, composed with schemes, counted."""

import pickle

import numpy as np
import pytest

from falcon.schemes import M3, M4, ComplexScheme, get
from falcon.schemes.algebra import classical

BY_NAME = {"argvalues": [M3, M4], "ids": ["3M", "4M"]}


@pytest.mark.parametrize("product", **BY_NAME)
def test_the_equations_of_a_complex_product_hold(product):
    """c0 = a0 b0 - a1 b1, c1 = a0 b1 + a1 b0."""
    sums = np.einsum("ra,rb,rc->cab", *product.factors)
    assert (sums == [[[1, 0], [0, -1]], [[0, 1], [1, 0]]]).all()


def test_facts():
    three, four = ComplexScheme(M3), ComplexScheme(M4)
    assert (three.rank, four.rank) == (3, 4)
    assert three.rms_growth == pytest.approx(np.sqrt(2)) and four.rms_growth == 1
    strassen = get("strassen")
    found = ComplexScheme(M3, strassen)
    assert (found.format, found.rank, found.levels) == ((2, 2, 2), 21, 1)
    assert found.name == "3M strassen" and not found.is_classical and found.is_integral
    assert found.rms_growth == pytest.approx(2 * np.sqrt(2))
    assert found.speedup_bound == pytest.approx(32 / 21)
    assert ComplexScheme(M4).is_classical and not ComplexScheme(M3).is_classical
    assert found == ComplexScheme(M3, strassen) == pickle.loads(pickle.dumps(found))
    assert hash(found) == hash(pickle.loads(pickle.dumps(found)))
    assert found != ComplexScheme(M4, strassen)


def formed(sums, inputs):
    """Evaluate shared sums on integers."""
    values = list(inputs)
    for x, y, ratio in sums.temporaries:
        values.append(values[x] + ratio * values[y])
    return np.array([sum(c * values[x] for x, c in row) for row in sums.rows])


@pytest.mark.parametrize("product", **BY_NAME)
@pytest.mark.parametrize("name", [None, "strassen", "3x2x3:15", "strassen@2x2x3:11"])
def test_shared_sums_multiply_complex_blocks(name, product):
    """Each block is a complex number: its parts are inputs 2x and 2x + 1."""
    rng = np.random.default_rng(1)
    scheme = None if name is None else get(name)
    found = ComplexScheme(product, scheme)
    m, k, n = found.format
    a, b = (rng.integers(-9, 10, (*x, 2)) for x in ((m, k), (k, n)))
    u, v, w = found.shared_sums
    c = formed(w, formed(u, a.ravel()) * formed(v, b.ravel())).reshape(m, n, 2)
    want = (a @ [1, 1j]) @ (b @ [1, 1j])
    np.testing.assert_array_equal(c @ [1, 1j], want)
    assert found.error_bound(64, 1.0) >= (scheme or classical(1, 1, 1)).error_bound(64, 1.0)
