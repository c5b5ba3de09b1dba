"""Products modulo p are those of Python's integers, for every modulus, type, layout and scheme."""

import tracemalloc
from functools import partial
from itertools import product as every

import numpy as np
import pytest

import falcon
from falcon._backends import BACKENDS, host_engine

from ..modes import DIRECTED, rounding

MODULI = (2, 3, 4, 6, 127, 128, 251, 257, 1009, 2**15 - 19, 2**15 + 3, 2**20 - 3, 2**20 + 7,
          2**26 - 5, 2**26, 2**31 - 2, 2**31 - 1, 2**31, 2**32 - 5, 3**30, 2**53 - 111, 2**53 + 5,
          2**61 - 1, 2**62 - 57, 2**62)  # fmt: skip
FEW = 2, 1009, 2**20 + 7, 2**31 - 1, 2**61 - 1
INTEGERS = [np.dtype(x) for x in "bBhHiIqQ"]


def whole(random, shape, dtype="i8"):
    """Return integers over the whole range of a type."""
    info = np.iinfo(dtype)
    native = np.dtype(dtype).newbyteorder("=")
    return random.integers(info.min, info.max, shape, native, endpoint=True).astype(dtype)


def exact(a, b, p, c=None, alpha=1, beta=0):
    """Return the product by Python's integers."""
    found = alpha * (np.asarray(a).astype(object) @ np.asarray(b).astype(object))
    return np.asarray((found if c is None else found + beta * np.asarray(c).astype(object)) % p)


def same(found, wanted):
    assert found.shape == wanted.shape
    assert np.array_equal(found, wanted)


# --- values ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", DIRECTED)
def test_every_rounding_mode(mode):
    random = np.random.default_rng(4)
    for size, p in every((4, 200), (2, 7, 251, 65521, 2**26 - 5, 2**61 - 1)):
        a, b = random.integers(-(10**6), 10**6, (2, size, size))
        wanted, calls = exact(a, b, p).astype("i8"), []
        with rounding(mode):
            for threads, backend in ((1, "auto"), (3, "auto"), (2, "numpy")):
                how = {"modulus": p, "threads": threads, "backend": backend}
                for _ in range(2):  # the second one is recalled
                    calls.append(falcon.matmul(a, b, **how))
                calls.append(falcon.gemm(a, b, check="verify", **how))
            calls.append(falcon.gemm(a, falcon.pack(b, modulus=p)))
            right, wrong = (bool(falcon.verify(a, b, wanted + x, modulus=p)) for x in (0, 1))
        for found in calls:
            same(found, wanted)
        assert right and not wrong


@pytest.mark.parametrize(("by", "said"), [(7, "not from 0 to 6"), (1, r"first: c\[1\]")])
def test_wrong_products_do_not_pass_as_verified(doors, by, said):
    """Numbers that are no residues, which are right modulo p, do not either."""

    def shift(out):
        out[1, 2] += by

    doors.wrong(shift)
    for call in (falcon.gemm, falcon.matmul):
        with pytest.raises(falcon.VerificationError, match=said):
            call(ONES, ONES, modulus=7, check="verify")


@pytest.mark.parametrize("p", MODULI)
def test_every_modulus(p):
    """Integers of all values; and residues at the ends, where sums are largest."""
    random = np.random.default_rng(p)
    for M, K, N in ((1, 1, 1), (7, 5, 3), (33, 300, 40), (130, 1100, 70)):
        a, b = whole(random, (M, K)), whole(random, (K, N), "u8")
        c = falcon.gemm(a, b, modulus=p, dtype="i8")
        assert c.dtype == np.int64
        same(c, exact(a, b, p))
        for x, y in every((p - 1, p // 2, (p + 1) // 2), (p // 2, -(p // 2))):
            c = falcon.matmul(np.full((M, K), x), np.full((K, N), y), modulus=p)
            assert (c == K * x * y % p).all()


@pytest.mark.parametrize("p", MODULI)
def test_sums_of_a_million_products(p):
    K = 10**6
    for x, y in ((p - 1, p - 1), (p // 2, -(p // 2))):
        c = falcon.gemm(np.full((3, K), x), np.full((K, 2), y), modulus=p)
        assert (c == K * x * y % p).all()
    a = np.random.default_rng(0).integers(-p, 2 * p, (1, K))
    same(falcon.gemm(a, a.T, modulus=p), exact(a, a.T, p))


def test_random_calls():
    """Any modulus, sizes, types, order and alpha, beta and out, drawn at once."""
    for seed in range(300):
        random = np.random.default_rng(seed)
        p = int(2 ** random.uniform(1, 62))
        M, K, N = (int(2 ** random.uniform(0, 6)) for _ in range(3))
        a, b, c = (whole(random, shape, random.choice(INTEGERS))
                   for shape in ((M, K), (K, N), (M, N)))  # fmt: skip
        if random.random() < 0.5:
            a, b = np.asfortranarray(a), b[::-1, ::-1]
        alpha, beta = (
            int(x) for x in random.integers(-(2**62), 2**62, 2) * random.integers(0, 2, 2)
        )
        out = np.full((2 * M, N), -1, "i8")[::2] if random.random() < 0.5 else None
        kind = {} if out is not None else {"dtype": "i8"}
        if seed % 3:
            found = falcon.gemm(a, b, c, alpha=alpha, beta=beta, modulus=p, out=out, **kind)
            same(found, exact(a, b, p, c, alpha, beta))
        else:
            same(falcon.matmul(a, b, modulus=p, out=out, **kind), exact(a, b, p))


@pytest.mark.parametrize("left", INTEGERS, ids=str)
def test_types(left):
    """The result is of the common type if that holds p - 1; else of what is asked for."""
    random = np.random.default_rng(1)
    for right, p in every(INTEGERS, (2, 100, 251, 60000, 2**31 - 1, 2**61 - 1)):
        a, b = whole(random, (9, 20), left), whole(random, (20, 11), right)
        common = np.result_type(left, right)
        wanted = exact(a, b, p)
        if common.kind in "iu" and np.iinfo(common).max >= p - 1:
            c = falcon.matmul(a, b, modulus=p)
            assert c.dtype == common
            same(c, wanted)
        else:
            with pytest.raises(TypeError, match=r"ask for dtype='u?int"):
                falcon.matmul(a, b, modulus=p)
        packed = falcon.pack(b, modulus=p, dtype="i8")
        assert packed.backend == host_engine().name
        for dtype in ("i4" if p <= 2**31 else "i8", "u8", np.min_scalar_type(p - 1)):
            for x, call in every((b, packed), (falcon.gemm, falcon.matmul)):
                for how in ({"out": np.empty((9, 11), dtype)}, {"dtype": dtype}):
                    c = call(a, x, modulus=p, **how)
                    assert c.dtype == dtype
                    same(c, wanted)
            assert falcon.plan(a, b, modulus=p, dtype=dtype)(a, b).dtype == dtype


# --- layout ---------------------------------------------------------------------------------


@pytest.mark.parametrize("p", FEW)
def test_strides(p):
    random = np.random.default_rng(2)
    a, b = whole(random, (40, 60)), whole(random, (60, 50))
    wide = np.zeros((80, 180), "i8")
    wide[1::2, ::3] = a
    lefts = a, np.asfortranarray(a), wide[1::2, ::3], a[::-1, ::-1][::-1, ::-1], a.astype(">i8")
    for x, y in every(lefts, (b, np.asfortranarray(b), b.astype(">i8"))):
        same(falcon.matmul(x, y, modulus=p), exact(a, b, p))
    rows = np.broadcast_to(a[:1], (40, 60))
    same(falcon.matmul(rows, b, modulus=p), exact(rows, b, p))
    unsigned = (a.view("u8"), b.view("u8"))
    same(falcon.matmul(*(x.astype(">u8") for x in unsigned), modulus=p), exact(*unsigned, p))
    a.flags.writeable = False
    same(falcon.matmul(a.tolist(), b.tolist(), modulus=p), exact(a, b, p))


@pytest.mark.parametrize("p", FEW)
def test_out(p):
    random = np.random.default_rng(3)
    a, b, c = (whole(random, (30, 30)) for _ in range(3))
    room = np.full((60, 90), -7)
    out = room[::-2, 5:65:2]
    assert falcon.gemm(a, b, c, beta=-1, modulus=p, out=out) is out
    same(out, exact(a, b, p, c, 1, -1))
    out[...] = -7
    assert (room == -7).all()
    for name in "abc":  # written over an operand, and over the half of one
        held = {"a": a.copy(), "b": b.copy(), "c": c.copy()}
        falcon.gemm(*held.values(), beta=3, modulus=p, out=held[name])
        same(held[name], exact(a, b, p, c, 1, 3))
    for shift in (1, 15):
        room = np.zeros((30 + shift, 30), "i8")
        room[:30] = a
        falcon.gemm(room[:30], b, room[:30], beta=1, modulus=p, out=room[shift:])
        same(room[shift:], exact(a, b, p, a, 1, 1))
    for dtype in (np.min_scalar_type(p - 1), "O", ">i8", *(("f8", "c16") if p <= 2**53 else ())):
        for call in (falcon.matmul, falcon.gemm):
            found = call(a, b, modulus=p, out=np.empty((30, 30), dtype))
            assert found.dtype == dtype
            same(found, exact(a, b, p))


@pytest.mark.parametrize("p", FEW)
def test_batches_and_vectors(p):
    random = np.random.default_rng(4)
    shapes = [((5, 4, 6), (6, 3)), ((5, 4, 6), (5, 6, 3)), ((2, 1, 4, 6), (5, 6, 3)),
              ((6,), (6,)), ((6,), (6, 3)), ((4, 6), (6,)), ((5, 4, 6), (6,)), ((6,), (5, 6, 3)),
              ((4, 6), (5, 6, 3)), ((0, 4, 6), (6, 3)), ((5, 4, 0), (0, 3))]  # fmt: skip
    for left, right in shapes:
        a, b = whole(random, left), whole(random, right)
        wanted = exact(a, b, p)
        found = falcon.matmul(a, b, modulus=p)
        assert type(found) is type(np.matmul(a, b))
        same(np.asarray(found), wanted)
        if wanted.ndim:
            out = np.empty((*wanted.shape, 2), "u8")[..., 1]
            assert falcon.matmul(a, b, out, modulus=p) is out
            same(out, wanted)
    stack = whole(random, (4, 8, 8))
    wanted = exact(stack, stack, p)
    same(falcon.matmul(stack, stack, stack[::-1], modulus=p), wanted)


@pytest.mark.parametrize("p", FEW)
def test_empty_and_scaled(p):
    random = np.random.default_rng(5)
    c = whole(random, (4, 3))
    none = np.empty((4, 0), "i8"), np.empty((0, 3), "i8")
    same(falcon.gemm(*none, modulus=p), np.zeros((4, 3)))
    same(falcon.gemm(*none, c, beta=-5, modulus=p), exact(*none, p, c, 1, -5))
    assert falcon.gemm(c[:0], c.T, modulus=p).shape == (0, 4)
    assert falcon.matmul(c, c.T[:, :0], modulus=p).shape == (4, 0)
    a, b = whole(random, (4, 9)), whole(random, (9, 3))
    factors = (0, 1, -1, p, p - 1, 2**62, -(2**100), np.int8(-3), np.uint64(2**64 - 1), 2.0)
    for alpha, beta in every(factors, factors):
        found = falcon.gemm(a, b, c, alpha=alpha, beta=beta, modulus=p)
        same(found, exact(a, b, p, c, int(alpha), int(beta)))


def test_repeated_calls_keep_their_modulus():
    """A call like an earlier one runs at once; another modulus, or none, is another call."""
    random = np.random.default_rng(6)
    a, b = whole(random, (70, 70)), whole(random, (70, 70))
    for _ in range(3):
        for call in (falcon.gemm, falcon.matmul):
            for p in (7, 1009, 2**31 - 1, 2**61 - 1):
                same(call(a, b, modulus=p), exact(a, b, p))
                same(call(a, b, modulus=np.int64(p)), exact(a, b, p))
            np.testing.assert_array_equal(call(a, b), a @ b)
        x = whole(random, (70, 70))
        same(falcon.matmul(x.T, x, modulus=1009), exact(x.T, x, 1009))


def test_what_calls_keep_is_released():
    random = np.random.default_rng(9)
    falcon.release_workspace()
    tracemalloc.start()
    try:
        for n in range(80, 110):
            a = whole(random, (n, n))
            for _ in range(3):  # the second call is kept
                falcon.matmul(a, a, modulus=1009)
        kept, _ = tracemalloc.get_traced_memory()
        falcon.release_workspace()
        assert kept - tracemalloc.get_traced_memory()[0] > 30 * 4 * 80**2
    finally:
        tracemalloc.stop()
    same(falcon.matmul(a, a, modulus=1009), exact(a, a, 1009))


# --- options --------------------------------------------------------------------------------


OPTIONS = [{"backend": "numpy"}, {"threads": 1}, {"threads": 3}, {"check": "verify"},
           {"check": "none"}, {"scheme": "classical"}, {"scheme": "strassen"}, {"max_growth": 1.0},
           {"workspace_limit": "1MiB"}, {"reproducible": True}]  # fmt: skip


@pytest.mark.parametrize("p", FEW)
def test_options(p):
    random = np.random.default_rng(7)
    a, b, c = (whole(random, x) for x in ((90, 200), (200, 110), (90, 110)))
    product = exact(a, b, p)
    with_c = (3 * product - 2 * c.astype(object)) % p
    for options in OPTIONS if BACKENDS["cpu"].why_unavailable() is None else OPTIONS[:-1]:
        same(falcon.gemm(a, b, c, alpha=3, beta=-2, modulus=p, **options), with_c)
        same(falcon.matmul(a[None], b, modulus=p, **options)[0], product)


# --- errors ---------------------------------------------------------------------------------

ONES = np.ones((3, 3), "i8")


@pytest.mark.parametrize("function", [falcon.gemm, falcon.matmul])
@pytest.mark.parametrize(
    "operands, options, error, pattern",
    [
        ((ONES, ONES), {"modulus": 1}, ValueError, "modulus is 1; expected an integer >= 2"),
        ((ONES, ONES), {"modulus": -7}, ValueError, "modulus is -7; expected an integer >= 2"),
        (
            (ONES, ONES),
            {"modulus": 2**62 + 1},
            ValueError,
            r"modulus is 4611686018427387905; .*2\*\*62",
        ),
        ((ONES, ONES), {"modulus": 7.0}, TypeError, "modulus is 7.0; expected an integer"),
        ((ONES, ONES), {"modulus": True}, TypeError, "modulus is True; expected an integer"),
        ((ONES, ONES), {"modulus": np.array(7)}, TypeError, "modulus is array.7.; expected"),
        ((ONES, ONES), {"modulus": "7"}, TypeError, "modulus is '7'; expected an integer"),
        ((ONES * 1.0, ONES), {"modulus": 7}, TypeError, "a has dtype float64"),
        ((ONES, ONES * 1j), {"modulus": 7}, TypeError, "b has dtype complex128"),
        ((ONES, ONES > 0), {"modulus": 7}, TypeError, "b .*bool"),
        ((ONES, ONES.astype(object)), {"modulus": 7}, TypeError, "b .*object"),
        ((ONES, ONES), {"modulus": 1009, "dtype": "i1"}, TypeError, "'u?int16'"),
        ((ONES, ONES), {"modulus": 7, "dtype": "f8"}, TypeError, "'u?int8'"),
        ((ONES, ONES), {"modulus": 257, "out": np.empty((3, 3), "u1")}, TypeError, "'u?int16'"),
        ((ONES, ONES), {"modulus": 2**25, "out": np.empty((3, 3), "f4")}, TypeError, "hold"),
        ((ONES, ONES), {"modulus": 7, "out": np.empty((3, 3), bool)}, TypeError, "out has dtype"),
        ((ONES.astype("i1"),) * 2, {"modulus": 129}, TypeError, "'uint8'|'int16'"),
        ((ONES, ONES[:2]), {"modulus": 7}, ValueError, "shape"),
        ((ONES, ONES), {"modulus": 7, "out": np.empty((2, 3), "i8")}, ValueError, "shape"),
    ],
)
def test_errors(function, operands, options, error, pattern):
    with pytest.raises(error, match=pattern):
        function(*operands, **options)


def test_errors_of_gemm():
    for name, value in every(("alpha", "beta"), (0.5, 1j, np.nan, "2", None)):
        with pytest.raises(TypeError, match=name):
            falcon.gemm(ONES, ONES, ONES, **{"beta": 1, name: value}, modulus=7)
    with pytest.raises(TypeError, match="c has dtype float32"):
        falcon.gemm(ONES, ONES, ONES.astype("f4"), beta=1, modulus=7)
    same(falcon.gemm(ONES, ONES, ONES, alpha=2.0, modulus=5), np.full((3, 3), 1))


# --- other functions ------------------------------------------------------------------------


def test_sums_over_products():
    p = 2**31 - 1
    random = np.random.default_rng(8)
    a, b, x = (whole(random, s) for s in ((4, 5, 6), (6, 5, 3), (7, 4)))
    wanted = exact(a.transpose(0, 2, 1).reshape(4, 30), b.reshape(30, 3), p)
    same(falcon.tensordot(a, b, ([2, 1], [0, 1]), modulus=p), wanted)
    same(falcon.einsum("ijk,kjl->il", a, b, modulus=p), wanted)
    out = np.empty((7, 3), "u4")
    with pytest.raises(TypeError, match="no cast"):
        falcon.einsum("mi,ijk,kjl->ml", x, a, b, modulus=p, out=out)
    same(falcon.einsum("mi,ijk,kjl->ml", x, a, b, modulus=p), exact(x, wanted, p))
    same(falcon.multi_dot([x, wanted.astype(int), b[0, :3]], modulus=p),
         exact(exact(x, wanted, p), b[0, :3], p))  # fmt: skip
    wanted = exact(a.reshape(20, 6), b.reshape(6, 15), p).reshape(4, 5, 5, 3)
    same(falcon.dot(a, b.transpose(1, 0, 2), modulus=p), wanted)
    for text in ("ij,ij->ij", "i,j->ij", "ii->i", "ij->j"):
        arrays = [x[:4, :4], x[:4, :4]][: text.count(",") + 1]
        arrays = [z[0] for z in arrays] if text.startswith("i,") else arrays
        with pytest.raises(
            TypeError, match=r"modulus= reduces sums that are matrix products; .*->"
        ):
            falcon.einsum(text, *arrays, modulus=p)


def test_operands_of_einsum_are_reduced_before_they_are_cast():
    random = np.random.default_rng(10)
    a, b = whole(random, (5, 6), "u8"), whole(random, (6, 4))
    for dtype in ("i8", "u8", "u1"):
        found = falcon.einsum("ij,jk->ik", a, b, modulus=7, dtype=dtype, casting="unsafe")
        assert found.dtype == dtype
        same(found, exact(a, b, 7))


# --- several moduli -------------------------------------------------------------------------

SEVERAL = [2**61 - 1, 2**60 - 93, 3, 2**62], (1009, 1013), [7], [2**31 - 1, 2**31 - 1, 2**31 - 19]


@pytest.mark.parametrize("dtype", ["i1", "i8", "u8", ">u8"])
@pytest.mark.parametrize("moduli", SEVERAL, ids=str)
def test_several_moduli(moduli, dtype):
    """The axis of the moduli is the first one; operands may exceed all of them."""
    random = np.random.default_rng(11)
    shapes = [((70, 300), (300, 50)), ((2, 1, 5, 7), (3, 7, 4)), ((9,), (9, 5)), ((3, 4, 9), (9,)),
              ((9,), (9,)), ((0, 4), (4, 3)), ((3, 0), (0, 4))]  # fmt: skip
    for left, right in shapes:
        a, b = whole(random, left, dtype), whole(random, right, dtype)
        for options in (
            {},
            {"backend": "numpy"},
            {"check": "verify"},
            {"workspace_limit": "250KiB"},
        ):
            out = np.full((len(moduli), *np.matmul(a, b).shape, 2), -1)[..., 1]
            assert falcon.matmul(a, b, out, modulus=moduli, **options) is out
            found = falcon.matmul(a, b, modulus=moduli, dtype="u8", **options)
            assert found.dtype == np.uint64
            for p, x, y in zip(moduli, found, out, strict=True):
                same(x, exact(a, b, p))
                same(np.asarray(y), exact(a, b, p))


def test_several_moduli_over_an_operand():
    stack = whole(np.random.default_rng(12), (3, 8, 8))
    moduli, held = (5, 2**61 - 1, 7), np.stack([stack] * 3)
    wanted = [exact(stack, stack[0], p) for p in moduli]
    falcon.matmul(held[1], held[0, 0], held, modulus=moduli)
    same(held, np.stack(wanted))


def test_errors_of_several_moduli():
    for call in (falcon.gemm, falcon.plan, lambda *_, **how: falcon.pack(ONES, **how),
                 lambda *_, **how: falcon.gram(ONES, **how), falcon.dot, falcon.tensordot,
                 partial(falcon.einsum, "ij,jk"),
                 lambda *x, **how: falcon.multi_dot(x, **how)):  # fmt: skip
        with pytest.raises(TypeError, match="takes one modulus"):
            call(ONES, ONES, modulus=[5, 7])
    for moduli, error in (([], ValueError), ([5, None], ValueError), ([5, 1], ValueError),
                          ([5, 7.0], TypeError), ([5, [7]], TypeError)):  # fmt: skip
        with pytest.raises(error, match=r"modulus is .*; expected"):
            falcon.matmul(ONES, ONES, modulus=moduli)
    with pytest.raises(ValueError, match="out has shape"):
        falcon.matmul(ONES, ONES, ONES.copy(), modulus=[5, 7])
    with pytest.raises(TypeError, match="no type of integers up to 2305843009213693950"):
        falcon.matmul(ONES.astype("i4"), ONES.astype("i4"), modulus=[5, 2**61 - 1])
    with pytest.raises(ValueError, match="packed for modulus=5"):
        falcon.matmul(ONES, falcon.pack(ONES, modulus=5), modulus=[5, 7])


def test_functions_without_a_modulus():
    with pytest.raises(TypeError, match="gram takes no modulus"):
        falcon.gram(ONES, modulus=7)
    with pytest.raises(TypeError, match="no setting 'modulus'"):
        falcon.set_config(modulus=7)
    with pytest.raises(TypeError, match="modulus=7 needs plain numeric arrays"):
        falcon.matmul(3, ONES, modulus=7)
