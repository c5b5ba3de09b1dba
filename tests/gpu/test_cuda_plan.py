"""Chains of products, programs and registers: what the CUDA kernels of a scheme look like."""

import numpy as np
import pytest

import falcon
from falcon._core.dtypes import BFLOAT16, CUDA, FLOAT16
from falcon.codegen import cuda_plan
from falcon.codegen.program import Op, most_live
from falcon.decision.candidates import scheme_candidates

from .support import kernels_of

CANDIDATES = scheme_candidates().all
IMAGES = [x.scheme for x in CANDIDATES if x.outer is None or x.inner.name == "strassen"]


def evaluated(program):
    """The matrix (outputs x inputs) of a program's sums, by running it on unit vectors."""
    slots = [None] * (program.first_output + program.n_outputs)
    slots[: program.n_inputs] = np.eye(program.n_inputs)
    for x in program.instructions:
        if x.op is Op.SCALE:
            slots[x.dst] = float(x.coefficient) * slots[x.x]
        else:
            slots[x.dst] = slots[x.x] + (1 if x.op is Op.ADD else -1) * slots[x.y]
    return np.array(slots[program.first_output :])


@pytest.mark.parametrize("scheme", IMAGES, ids=lambda scheme: f"{scheme.name}-{scheme.format}")
def test_chains_add_up_to_the_scheme(scheme):
    """W of every product is its plane's, times its sign; places and groups agree."""
    found = cuda_plan.products(scheme)
    W = scheme.W.reshape(scheme.rank, -1)
    plane_of = {}
    for group in found.groups:
        for x in range(group.count):
            plane_of[group.block + x * group.length] = (group.plane + x, group.length)
    taken = set()
    for r, place in enumerate(found.places):
        plane, length = plane_of[place.block]
        assert place.length == length
        assert 0 <= place.position < length
        np.testing.assert_array_equal(W[r], place.sign * found.rows[:, plane])
        taken.add(place.block + place.position)
    assert taken == set(range(scheme.rank))
    assert found.planes == len(plane_of) == found.rows.shape[1]


@pytest.mark.parametrize("scheme", IMAGES[::7], ids=lambda scheme: f"{scheme.name}-{scheme.format}")
def test_programs_form_the_sums(scheme):
    for rows in (
        scheme.U.reshape(scheme.rank, -1),
        scheme.V.reshape(scheme.rank, -1),
        cuda_plan.products(scheme).rows,
    ):
        np.testing.assert_array_equal(evaluated(cuda_plan.streamed(rows)), rows.astype(float))
        for kind in CUDA:
            sum_bytes = kind.accumulator.itemsize
            found = cuda_plan.fit(rows, kind.itemsize, sum_bytes)
            np.testing.assert_array_equal(evaluated(found.program), rows.astype(float))
            assert found.width * kind.itemsize <= 16
            values = most_live(found.program) * found.width * sum_bytes // 4
            assert values + values // 2 + 48 <= found.registers <= 255
            assert found.registers * cuda_plan.THREADS * found.blocks <= 65536


def test_streamed_programs_keep_one_side_alive():
    scheme = falcon.schemes.get("5x5x5:93")
    a = cuda_plan.streamed(scheme.U.reshape(scheme.rank, -1))
    h = cuda_plan.streamed(cuda_plan.products(scheme).rows)
    assert most_live(a) <= scheme.m * scheme.k + 1  # the inputs, and the sum that is formed
    assert most_live(h) <= scheme.m * scheme.n + 1  # the results, and the product that is read


def test_streamed_sums_that_begin_alike_follow_one_another():
    """Where they do not, the compiler keeps what they share: `a + b` from the first to the last."""
    rows = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1], [1, -1, 0]])
    code = cuda_plan.streamed(rows).instructions
    outputs = list(dict.fromkeys(x.dst - 4 for x in code))
    assert outputs == [1, 2, 0, 3]


def test_the_16_bit_types_have_the_same_plans():
    """Which is why test_nvrtc.py compiles most schemes for one of them."""
    for name in falcon.schemes.names()[::4]:
        kernels = (kernels_of(falcon.schemes.get(name), [x]) for x in (FLOAT16, BFLOAT16))
        assert all(x.fits == y.fits for x, y in zip(*kernels, strict=True)), name
