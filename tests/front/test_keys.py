"""Calls with equal keys are equal Problems: what was bound for one of them is right for all."""

from functools import cache

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import falcon
from falcon._backends import host_engine

RNG = np.random.default_rng(0)
whole = lambda shape, kind: RNG.integers(-3, 4, shape, "i1").astype(kind)  # noqa: E731
packed = cache(lambda shape, kind: falcon.pack(whole(shape, kind)))
turned = lambda x: x if x.ndim < 2 else x.swapaxes(-1, -2)  # noqa: E731
LAYS = {
    "C": lambda x: x, "F": lambda x: turned(turned(x).copy()), "view": lambda x: x[:],
    "odd": lambda x: as_strided(x, strides=np.where(np.equal(x.shape, 1), x.itemsize, x.strides)),
    "padded": lambda x: np.concatenate([x, x], -1)[..., : x.shape[-1]],
    "step": lambda x: np.repeat(x, 2, -1)[..., ::2], "reversed": lambda x: x[::-1].copy()[::-1],
    "broadcast": lambda x: as_strided(x, strides=(0, *x.strides[1:])),
    "swapped": lambda x: x.astype(x.dtype.newbyteorder()),
    "misaligned": lambda x: np.frombuffer(b"." + x.tobytes(), x.dtype, offset=1).reshape(x.shape),
}  # fmt: skip
TWINS = {"view": turned, "buffer": lambda a: turned(np.asarray(memoryview(a))),
         "copy": lambda a: turned(a).copy("K")[:], "fold": lambda a: a.reshape(-1, a.shape[-1]).T,
         "copied fold": lambda a: a.reshape(-1, a.shape[-1]).T.copy("K")[:]}  # fmt: skip
MATRICES = ["20x33 33x20", "33x20 20x20", "20x20 20x20", "20x1 1x20", "1x20 20x3", "70x70 70x70"]
BATCHES = ["20 20x3", "20x3 3", "20 20", "4x20x33 33x20", "4x1x20 20x20", "4x20x1 4x1x20",
           "1x20x33 4x33x20", "2x4x20x20 20x20", "4x20x20 4x20x20", "1x70x70 4x70x70"]  # fmt: skip
# NumPy's loops run no scheme of float16.
HALF = "f4" if host_engine().is_library else "f2"
FIELDS = {
    "shapes": MATRICES, "kind": ["f8", "f4", "l", "q", "i1", "c16", HALF],
    "b_kind": ["", "", "", "f8", "q"], "a": [*LAYS], "b": [*LAYS], "c": [*LAYS],
    "into": ["C", "F", "padded", "step", "reversed", "odd", "swapped"], "out_kind": ["", "c16"],
    "out": ["", "", "new", "c", "over"], "alpha": [1, 1, 2, 3], "beta": [0, 0, 1, 2],
    "twin": ["", "", *TWINS], "packed": [False, False, False, True],
    "how": [{}, {}, {"threads": 1}, {"max_growth": 9.0}, {"scheme": "strassen"}, {"check": "none"},
            {"scheme": "classical"}, {"backend": "numpy"},
            {"reproducible": not host_engine().is_library}],
}  # fmt: skip


def made(s, function):
    """Return the call that fields describe, and its result."""
    x, y = (tuple(map(int, x.split("x"))) for x in s["shapes"].split())
    a, how = LAYS[s["a"]](whole(x, s["kind"])), s["how"]
    b = source = LAYS[s["b"]](whole(y, s["b_kind"] or s["kind"]))
    if s["packed"] and not s["b_kind"] and len(y) == 2 and not {"scheme", "backend"} & {*how}:
        source = (b := packed(y, s["kind"])).source
    elif s["twin"] and len(x) > 1:
        b = source = TWINS[s["twin"]](a)
    exact = [x.astype({"i": "i8", "f": "f8", "c": "c16"}[x.dtype.kind]) for x in (a, source)]
    kind, right, out, c = np.result_type(a, source), np.matmul(*exact), None, None
    if function is falcon.gemm:
        c = LAYS[s["c"]](whole(right.shape, kind)) if s["beta"] else None
        how = {**how, "alpha": s["alpha"], "beta": s["beta"], "c": c}
        right = s["alpha"] * right + (0 if c is None else s["beta"] * c.astype(right.dtype))
    if s["out"]:
        out = LAYS[s["into"] if right.ndim else "C"](np.zeros(right.shape, s["out_kind"] or kind))
        there = {"c": c, "over": a}.get(s["out"])
        if there is not None and there.shape == out.shape and there.dtype.newbyteorder("=") == kind:
            out = there if there.flags.writeable and 0 not in there.strides else out
    before = None if out is None else out.copy()

    def call():
        if out is not None:
            out[...] = before
        return function(a, b, out=out, **how).copy()

    return call, right.astype(kind)


@pytest.mark.parametrize("function", [falcon.gemm, falcon.matmul])
def test_calls_with_equal_keys(function, doors):
    pairs = []
    fields = FIELDS if function is falcon.gemm else {**FIELDS, "shapes": MATRICES + BATCHES}
    draw = lambda name: fields[name][RNG.integers(len(fields[name]))]  # noqa: E731
    for _ in range(600):
        usual = RNG.permutation([*fields][1:])[: RNG.integers(5, 13)]
        one = {name: draw(name) for name in fields} | {name: fields[name][0] for name in usual}
        name = RNG.choice([*fields])
        pairs.append([made(x, function) for x in (one, one | {name: draw(name)})])
    doors.forget()
    for call, right in [x for pair in pairs for x in pair]:
        first, *later = [call() for _ in range(3)]
        np.testing.assert_array_equal(first, right)
        assert all(x.dtype == first.dtype and x.tobytes() == first.tobytes() for x in later)
    keyed, same = doors.keyed(), []
    for (one, _), (other, _) in pairs:
        (key, problems, _), (of_other, others, _) = keyed(one), keyed(other)
        same += [problems == others] * (key is not None and key == of_other)
    assert all(same) and len(same) > 100
