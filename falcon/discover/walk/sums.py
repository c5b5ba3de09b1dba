"""Programs with few additions for a scheme, one per factor, by randomised greedy search."""

from __future__ import annotations

import random

import numpy as np

from falcon.schemes import metrics

from . import _core, masks, moves
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

    The program of W treats it as R rows of m*n entries; run backwards (Tellegen's principle) it
    forms C from the products, with ``R - m*n`` more additions.

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


def calmest(
    terms: np.ndarray, dims: Format, programs: Programs | None = None
) -> tuple[np.ndarray, Programs | None]:
    """The image of a scheme, in the same format, with the least factor e_max of the error bound.

    Rotations and transposition keep rank, non-zeros, additions and Phi, but not e_max.
    """
    factors = masks.arrays_of(terms, dims)
    # The same images of matrices whose entries are their own numbers.
    sizes = [x[0].size for x in factors]
    labels = [
        np.arange(size).reshape(1, *x.shape[1:]) + 64 * mode
        for mode, (size, x) in enumerate(zip(sizes, factors, strict=True))
    ]
    images = moves.images(factors, dims)
    origins = moves.images((labels[0], labels[1], labels[2]), dims)
    bounds = [metrics.e_max(*(x.astype(np.int64) for x in image)) for image in images]
    best = bounds.index(min(bounds))
    if programs is None:
        return masks.from_arrays(*images[best]), None
    turned = []
    for origin in origins[best]:
        mode, order = int(origin.min()) // 64, origin.ravel() % 64
        turned.append(renamed(programs[mode], np.argsort(order).tolist()))
    return masks.from_arrays(*images[best]), (turned[0], turned[1], turned[2])


def renamed(pairs: list[Pair], places: list[int]) -> list[Pair]:
    """A program for the same rows with its columns in another order: column x is `places[x]`."""
    signs = [1] * len(places)
    places = list(places)
    out = []
    for x, y, ratio in pairs:
        # Of the two variables the earlier one comes first, whatever sign the sum gets by that.
        (a, s), (b, t) = sorted(((places[x], signs[x]), (places[y], signs[y] * ratio)))
        out.append((a, b, s * t))
        places.append(len(places))
        signs.append(s)
    return out
