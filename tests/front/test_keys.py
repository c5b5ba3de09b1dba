"""Calls with equal keys are equal Problems, and what the first one ran serves all like it."""

import numpy as np

import falcon

from ..doors import key_of

LAYOUTS = {
    "rows": lambda x: x.copy(),
    "columns": lambda x: (
        np.asfortranarray(x) if x.ndim < 3 else x.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    ),
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "reversed": lambda x: x[..., ::-1].copy()[..., ::-1],
}
SHAPES = [((9, 8), (8, 7)), ((70, 60), (60, 50)), ((3, 9, 8), (3, 8, 7)), ((3, 9, 8), (8, 7)),
          ((9, 8), (8,)), ((8,), (8, 7)), ((2, 3, 40, 30), (3, 30, 20))]  # fmt: skip
KINDS = [("f4", "f4"), ("f8", "f8"), ("f4", "f8"), ("l", "l"), ("l", "q"), ("i1", "u1"),
         (">f4", "f4"), ("c16", "c16")]  # fmt: skip
OPTIONS = [{}, {"threads": 1}, {"scheme": "strassen"}, {"max_growth": 3.0}, {"modulus": 7}]


LIMITS = len(SHAPES), len(KINDS), len(LAYOUTS), len(LAYOUTS), len(OPTIONS), 3, 3, 3


def alike(random):
    """Yield calls as numbers: some, and all that differ from one of them in one thing."""
    for at in range(8):
        some = [int(random.integers(x)) for x in LIMITS]
        if at % 2:
            some[0], some[1], some[6] = at // 2 % 2, at // 2 % 3, 0
        yield some
        for place, limit in enumerate(LIMITS):
            yield from ([*some[:place], x, *some[place + 1 :]] for x in range(limit))


def made(recipe, random):
    """Return a, b, c, out and options of a call of gemm (with c) or matmul."""
    shape, kind, of_a, of_b, options, into, added, twins = recipe
    (a, b), options = SHAPES[shape], dict(OPTIONS[options])
    kinds = [np.dtype(x) for x in KINDS[kind]]
    if "modulus" in options and kinds[0].kind not in "iu":
        options = {}
    a = [*LAYOUTS.values()][of_a](random.integers(0, 4, a).astype(kinds[0]))
    b = [*LAYOUTS.values()][of_b](random.integers(0, 4, b).astype(kinds[1]))
    if twins and a.ndim == b.ndim == 2 and kinds[0] == kinds[1]:
        b = a.T if twins == 1 else a.copy().T
    result = np.matmul(a, b)
    out = None if into == 0 else LAYOUTS["rows" if into == 1 else "columns"](np.zeros_like(result))
    c = None
    if a.ndim == b.ndim == 2 and added and "modulus" not in options:
        options |= {"alpha": 2, "beta": 1}
        c = out if added == 1 and out is not None else np.ones_like(result)
    return a, b, c, out, options


def run(a, b, c, out, options):
    """Return the result, in new memory, and what it should be."""
    p = options.get("modulus")
    exact = np.matmul(a, b, dtype=np.result_type(a, b))
    wanted = exact % p if p else exact if c is None else 2 * exact + c
    function = falcon.gemm if c is not None else falcon.matmul
    found = function(a, b, **({} if c is None else {"c": c}), out=out, **options)
    return np.array(found), np.array(wanted)


def test_equal_keys_are_equal_problems(doors):
    random, known, equal = np.random.default_rng(0), {}, 0
    doors.forget()
    calls = [made(x, random) for x in alike(random)]
    for call in calls:
        for _ in range(2):
            if call[3] is not None:
                call[3][...] = 1
            found, wanted = run(*call)
            np.testing.assert_array_equal(found, wanted)
    problems = doors.multiplied(lambda plan, _: (plan.problem, plan.label))
    for a, b, c, out, options in calls:
        problems.clear()
        run(a, b, c, out, options)
        key = key_of(a, b, c, out, tuple(options.items())), c is None
        if key[0] is not None and problems:
            equal += key in known
            assert known.setdefault(key, problems[0]) == problems[0]
    assert equal > 30
