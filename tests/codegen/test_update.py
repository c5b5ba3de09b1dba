"""Combine H as a stream of updates: executed literally, it must form what W says."""

from fractions import Fraction

import numpy as np
import pytest

import falcon
from falcon.codegen import updates
from falcon.codegen.update import PRODUCT, Schedule
from falcon.schemes.additions import SharedSums


def replayed(made, products, blocks):
    """Run the updates as an engine does: a completed sum can be read until its product is done."""
    slots = [None] * made.n_slots
    finished = {}
    for product, steps in zip(made.order, made.steps, strict=True):
        sums = {PRODUCT: products[product]}
        for x in steps:
            assert (slots[x.slot] is None) == x.first
            value = (0 if x.first else slots[x.slot]) + x.coefficient * sums[x.source]
            slots[x.slot] = None if x.last else value
            if x.last and x.slot < blocks:
                assert x.slot not in finished
                finished[x.slot] = value
            elif x.last:
                sums[x.slot] = value
    assert all(x is None for x in slots)
    return [finished[x] for x in range(blocks)]


def names():
    return [x for x in falcon.schemes.names() if not x.endswith("-adds")]


@pytest.mark.parametrize("name", names())
def test_updates_form_what_w_says_in_as_few_additions(name):
    scheme = falcon.schemes.get(name)
    made = updates(scheme)
    blocks = scheme.m * scheme.n
    products = np.random.default_rng(1).integers(-99, 100, scheme.rank).tolist()
    expected = np.tensordot(products, scheme.W.reshape(scheme.rank, -1), 1)
    assert replayed(made, products, blocks) == expected.tolist()
    assert sorted(made.order) == list(range(scheme.rank))
    additions = sum(not x.first for steps in made.steps for x in steps)
    assert additions == scheme.shared_sums[2].additions
    # Few slots at a time, though sums may be many.
    assert made.n_slots - blocks <= max(2, scheme.rank // 4)


def test_a_sum_that_is_needed_once_has_no_slot():
    sums = SharedSums(3, ((0, 1, -1), (3, 2, 2)), (((4, 3),), ((0, 1),)))
    made = Schedule(sums).made()
    assert made.n_slots == 2
    assert replayed(made, [5, 7, 11], 2) == [3 * (5 - 7 + 22), 5]


def test_a_sum_of_sums_passes_on_within_its_last_product():
    """t = a + b, u = t - c; both are outputs and needed again, by fractions too."""
    sums = SharedSums(
        3, ((0, 1, 1), (3, 2, -1)), (((3, 1),), ((4, Fraction(1, 2)),), ((3, 1), (4, 1)))
    )
    made = Schedule(sums).made()
    assert made.n_slots <= 5
    assert replayed(made, [4, 6, 2], 3) == [10, 4, 18]
