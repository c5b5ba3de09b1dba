"""Operands that are measured while their panels are formed: the sums, and what products come to."""

from dataclasses import replace

import numpy as np
import pytest

import falcon
from falcon._cpu.extension import _core
from falcon._cpu.programs import engine_scheme

from .support import same_bits

pytestmark = pytest.mark.skipif(_core is None, reason="needs the extension")
ISAS = [] if _core is None else _core.supported_isas()
SHAPES = [(150, 170, 301), (64, 96, 1100), (31, 33, 35), (5, 700, 900)]


ANY = (np.inf,) * 8  # all operands with norms are plain


def slices_of(layout, K):
    """Return the blocks of K, and the slices of each."""
    blocks, block = layout.scheme.format[1], -(-K // layout.scheme.format[1])
    return blocks, -(-block // layout.blocking[3])


def measured(layout, a, b, c):
    """Multiply operands that are plain; return the sums of both."""
    workspace = _core.Workspace(layout.nbytes + layout.plain_nbytes)
    before = c.copy()
    assert _core.gemm(layout, a, b, c, workspace=workspace, plain=(np.inf, 0, *ANY[2:])) is None
    assert same_bits(c, before)  # nothing is multiplied
    assert _core.gemm(layout, a, b, c, workspace=workspace, plain=ANY)
    lines = c.shape[::-1] if c.flags.f_contiguous and not c.flags.c_contiguous else c.shape
    counts = [2 * np.prod(slices_of(layout, a.shape[1])) * n for n in lines]
    sums = np.frombuffer(workspace, float, sum(counts), layout.nbytes).copy()
    found = [x.reshape(2, -1, n) for x, n in zip(np.split(sums, counts[:1]), lines, strict=True)]
    return found if lines == c.shape else found[::-1]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", ["f32", "f64", "f16"])
@pytest.mark.parametrize("scheme", ["strassen", "3x6x4:54", "strassen@3x4x6:54"])
def test_sums_are_those_of_the_slices(isa, kind, scheme):
    rng, dtype = np.random.default_rng(1), {"f32": "f4", "f64": "f8", "f16": "f2"}[kind]
    for M, N, K in SHAPES:
        a, b = rng.integers(-9, 9, (M, K)).astype(dtype), rng.integers(-9, 9, (K, N)).astype(dtype)
        for order in ("CCC", "FFF", "CFC", "FCF", "CCF"):
            x, y, c = (np.asarray(z, order=o) for z, o in zip((a, b, a @ b), order, strict=True))
            how = {"a_by_columns": order[0] == "F", "b_by_rows": order[1] == "C"}
            layout = _core.plan(
                *(M, N, K, kind),
                isa=isa,
                scheme=engine_scheme(falcon.schemes.get(scheme)),
                threads=2,
                c_by_columns=order[2] == "F",
                **how,
            )
            once = np.full_like(c, np.nan)
            _core.gemm(layout, x, y, once)
            c[...] = np.nan
            sums = measured(layout, x, y, c)
            assert same_bits(c, once), (M, N, K, order)
            blocks, slices = slices_of(layout, K)
            block = -(-K // blocks)
            step = min(layout.blocking[3], block)
            for z, found in ((a, sums[0]), (b.T, sums[1])):
                for at in range(blocks * slices):
                    start, some = min(at // slices * block, K), at % slices
                    end = min(start + block, K)
                    part = z[:, min(start + some * step, K) : min(start + (some + 1) * step, end)]
                    np.testing.assert_array_equal(found[0, at], (part.astype("f8") ** 2).sum(1))
                    np.testing.assert_array_equal(found[1, at], part.sum(1))


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_sums_do_not_depend_on_threads(kind):
    rng, dtype = np.random.default_rng(2), {"f32": "f4", "f64": "f8"}[kind]
    for order in "CF":
        a, b = (np.asarray(rng.random(x), dtype, order) for x in ((400, 900), (900, 300)))
        found = []
        for threads in (1, 2, 5):
            layout = _core.plan(
                *(400, 300, 900, kind),
                scheme=engine_scheme(falcon.schemes.get("3x6x4:54")),
                threads=threads,
                a_by_columns=order == "F",
                b_by_rows=order == "C",
            )
            found.append(measured(layout, a, b, np.zeros((400, 300), dtype)))
        assert all(same_bits(x, y) for some in found for x, y in zip(some, found[0], strict=True))


def line(x, axis, scale):
    x = x.copy()
    x[(7, slice(None)) if axis == 0 else (slice(None), 7)] *= x.dtype.type(scale)
    return x


def entry(x, value):
    x = x.copy()
    x[11, 13] = value
    return x


def faint(x):
    """Numbers 1 and -1 whose mean, along rows, is too small to be seen in a part of a row."""
    signs = np.where(np.arange(63) < 43, 1.0, -1.0)
    rng = np.random.default_rng(4)
    return np.concatenate([rng.permuted(np.tile(signs, (len(x), 1)), axis=1) for _ in range(8)], 1)


def alike(x):
    """Lines of which some are larger, but as large as those to which schemes add them."""
    return x * np.where(np.arange(504) % 84 == 7, 5, 1)


UNITS = np.where(np.random.default_rng(5).random(504) < 0.5, 2.0, 0.5)
REPEATED = np.tile(UNITS[:126], 4)  # the same in each block of K
# Those of blocks differ, and half of the steps are larger than others.
OPPOSED = np.repeat(np.sqrt([2, 0.5, 0.5, 2]), 126)
LARGER = np.where(np.arange(504) % 63 < 32, 4.0, 1.0)


# Of 504 lines and steps: blocks of schemes are multiples of 84 lines, and of 63 steps.
DATA = {
    "normal": (lambda a, b: (a, b), True),
    "whole numbers": (lambda a, b: (np.rint(9 * a), np.rint(9 * b)), True),
    "a small mean": (lambda a, b: (a + 0.1, b), True),
    "a mean": (lambda a, b: (a + 1, b), False),
    "a mean of b in a part of K": (lambda a, b: (a, b + (np.arange(504) < 252)[:, None]), False),
    "means that cancel out": (
        lambda a, b: (a, b + np.where(np.arange(504) < 252, 1, -1)[:, None]),
        False,
    ),
    "a mean of all of K alone": (lambda a, b: (faint(a), b), False),
    "the same of b": (lambda a, b: (a, faint(b).T), False),
    "rows in several groups": (lambda a, b: (alike(a.T).T, b), False),
    "columns in several groups": (lambda a, b: (a, alike(b)), False),
    "units of columns of a": (lambda a, b: (a * UNITS, b / UNITS[:, None]), True),
    "units alike in all blocks": (lambda a, b: (a * REPEATED, b / REPEATED[:, None]), True),
    "units of some steps": (
        lambda a, b: (a * (LARGER * OPPOSED), b * (LARGER / OPPOSED)[:, None]),
        True,
    ),
    "one sign": (lambda a, b: (abs(a), abs(b)), False),
    "a row somewhat larger": (lambda a, b: (line(a, 0, 1.25), b), True),
    "a column somewhat smaller": (lambda a, b: (a, line(b, 1, 0.9)), True),
    "a column smaller": (lambda a, b: (a, line(b, 1, 0.75)), False),
    "a row": (lambda a, b: (line(a, 0, 1e3), b), False),
    "a column": (lambda a, b: (a, line(b, 1, 1e-3)), False),
    "a row of zeros": (lambda a, b: (line(a, 0, 0), b), False),
    "squares that overflow": (lambda a, b: (line(a, 0, 1e30), b), False),
    "squares that underflow": (lambda a, b: (a * 1e-30, b), False),
    "Inf": (lambda a, b: (entry(a, np.inf), b), False),
    "NaN": (lambda a, b: (a, entry(b, np.nan)), False),
}


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("sampled", [True, False])
def test_products_do_not_depend_on_how_operands_are_measured(doors, kind, sampled):
    rng = np.random.default_rng(3)
    change, is_plain = DATA[kind]
    a, b = (x.astype("f4") for x in change(*rng.standard_normal((2, 504, 504))))
    if not sampled:  # all operands look plain: norms and sums alone say what they are
        doors.numbers(sampled_mean=np.inf, sampled_spread=np.inf)
    seen = doors.plain()
    with np.errstate(all="ignore"):
        found = []
        for before in (False, True):
            if before:
                doors.measured_before()
            for scheme in ("strassen", "3x4x6:54"):
                plan = replace(falcon.plan(a, b, scheme=scheme, backend="cpu"), guarded=True)
                found.append(plan(a, b))
        assert same_bits(*found[::2])
        assert same_bits(*found[1::2])
    assert seen == [is_plain] * 2
