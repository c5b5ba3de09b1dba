"""What the profile's calls are made of is what the cost model says of them.

A profile divides measured times by these numbers, and predictions multiply by them: the two must
count alike.
"""

import numpy as np
import pytest

from falcon import schemes
from falcon._plan import Option, Rates
from falcon._problem import Problem
from falcon.decision.model import seconds

measure = pytest.importorskip("falcon._cpu.measure", reason="needs the compiled extension")

KERNEL = {"mr": 6, "vlen": 8, "kc": 320}
FLOP, LOST, UPDATE, STORE, START = 2e-11, 3e-10, 5e-11, 4e-10, 1e-5


@pytest.mark.parametrize(
    "name", [None, "strassen", "winograd", "strassen@strassen", "3x2x3:15", "3x4x4:38", "5x5x5:93"]
)
@pytest.mark.parametrize("shape", [(768, 768, 768), (1000, 515, 2049)])
@pytest.mark.parametrize("passes", [1, 2])
def test_the_profile_counts_as_the_model_does(name, shape, passes):
    M, N, K = shape
    scheme = None if name is None else schemes.get(name)
    kb = -(-K // passes)
    if passes > 1 and K % kb:
        kb, K = 500, 1000  # the profile's own calls have passes of one length
    terms = measure._terms((M, N, K, scheme), {"tiling": (M, N, kb)}, KERNEL)
    predicted = float(np.dot(terms, (FLOP, LOST, UPDATE, STORE, START)))
    rates = Rates(
        multiply=1 / FLOP,
        add=1e30,
        bandwidth=1e30,
        overlap=0.0,
        pack=(1e30, 1e30),
        tile=(KERNEL["mr"], KERNEL["vlen"]),
        slice=KERNEL["kc"],
        loss=LOST / FLOP,
        update=1 / UPDATE,
        store=1 / STORE,
        overhead=START,
    )
    option = Option("cpu", scheme, (M, N, kb), 0, True, (1, 1, K // kb))
    made = seconds(Problem(M, N, K, np.dtype("float32"), threads=1), option, rates)
    assert sum(x for _, x in made) == pytest.approx(predicted, rel=1e-9)
