"""Fewer additions for a scheme: a program per factor, by randomised greedy search."""

from __future__ import annotations

import random

import numpy as np

from . import _core, masks
from .masks import Format

Pair = tuple[int, int, int]
Programs = tuple[list[Pair], list[Pair], list[Pair]]


def reduce(
    terms: np.ndarray,
    dims: Format,
    rounds: int,
    rng: random.Random,
    programs: Programs | None = None,
) -> tuple[int, Programs]:
    """Search for programs with few additions for U, V and W of a scheme in masks.

    The program of W is one for W as R rows of m*n entries; run backwards (Tellegen's principle) it
    forms C from the products, with ``R - m*n`` additions more.

    Returns
    -------
    additions : int
        Of all three combinations together.
    programs : three lists of (x, y, ratio)
        Temporaries ``x + ratio * y``, each of which replaces its pair wherever it occurs.
    """
    total = len(terms) - dims[0] * dims[2]
    found: list[list[Pair]] = []
    for mode, factor in enumerate(masks.arrays_of(terms, dims)):
        additions, pairs = _core.share(
            factor.reshape(len(terms), -1),
            rounds=rounds,
            seed=rng.getrandbits(64),
            pairs=programs[mode] if programs else (),
        )
        total += additions
        found.append(pairs)
    return total, (found[0], found[1], found[2])
