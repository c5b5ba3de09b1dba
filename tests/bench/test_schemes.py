"""The speeds of the schemes of a format."""

from falcon import schemes
from falcon.bench.schemes import shape_of


def test_sizes_are_multiples_of_the_format():
    shape = shape_of(schemes.get("3x4x5:48"), 100)
    assert (shape.M, shape.K, shape.N) == (99, 100, 100)
    assert shape_of(schemes.get("3x4x5:48"), 1).M == 3
