"""`falcon.matmul` does what `numpy.matmul` does: shapes, dtypes, values, errors, out, batches.

Operands come from hypothesis: any strides (zero and negative too), byte orders, batches, sizes from
zero. Values are small whole numbers, so every dtype but float16's large sums is exact.
"""

import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import falcon
from falcon._front import fallback

from ..support import python

NUMERIC = "bBhHiIlLqQefdgFDG"
SCHEMES = ["auto", "classical", "strassen", "3x3x3:23", "2x3x4:20"]

many = settings(max_examples=200, suppress_health_check=list(HealthCheck),
                derandomize=True)  # fmt: skip


@st.composite
def operand(draw, shape, dtypes=NUMERIC):
    """An array of that shape with drawn dtype, byte order and strides."""
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    if draw(st.booleans()):
        dtype = dtype.newbyteorder()
    x = np.asarray(np.random.default_rng(draw(st.integers(0, 99))).integers(0, 6, shape))
    if dtype.kind != "u":
        x -= 2
    x = (x + 1j * (x % 5)).astype(dtype) if dtype.kind == "c" else x.astype(dtype)
    axes = draw(st.permutations(range(len(shape))))
    x = x.transpose(axes).copy().transpose(np.argsort(axes))
    for axis in range(len(shape)):
        way = draw(st.sampled_from(["as is", "as is", "reversed", "sliced", "broadcast"]))
        index = [slice(None)] * len(shape)
        if way == "reversed":
            index[axis] = slice(None, None, -1)
            x = x[tuple(index)]
        elif way == "sliced":
            index[axis] = slice(None, None, 2)
            x = np.repeat(x, 2, axis)[tuple(index)]
        elif way == "broadcast" and shape[axis]:
            index[axis] = slice(0, 1)
            x = np.broadcast_to(x[tuple(index)], shape)
    return x


size = st.integers(0, 7)


@st.composite
def shapes(draw):
    """Shapes that fit, mostly: 1-D operands, broadcast batches, zeros; now and then a misfit."""
    m, k, n = draw(size), draw(size), draw(size)
    batch = draw(st.lists(st.integers(0, 3), max_size=2))
    found = []
    for core in ((m, k), (k, n)):
        own = [1 if draw(st.integers(0, 3)) == 0 else x for x in batch]
        own = own[draw(st.integers(0, len(own))) :]
        found.append((*own, *core))
    a, b = found
    if draw(st.integers(0, 4)) == 0:
        a = (k,)
    if draw(st.integers(0, 4)) == 0:
        b = (k,)
    if draw(st.integers(0, 9)) == 0:
        b = tuple(x + 1 for x in b)
    if draw(st.integers(0, 30)) == 0:
        a = ()
    return a, b


@st.composite
def operands(draw):
    a, b = draw(shapes())
    return draw(operand(a)), draw(operand(b))


def outcome(function, *arguments, **options):
    """The result or the type of the error."""
    try:
        with np.errstate(all="ignore"):
            return function(*arguments, **options)
    except (ValueError, TypeError) as error:
        return ValueError if isinstance(error, ValueError) else TypeError


def assert_same(found, expected):
    if isinstance(expected, type) or isinstance(found, type):
        assert found is expected
        return
    assert type(found) is type(expected)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert found.dtype.isnative
    np.testing.assert_array_equal(found, expected)


@many
@given(operands(), st.sampled_from(SCHEMES), st.sampled_from([None, "verify", "none"]))
def test_agrees_with_numpy(pair, scheme, check):
    a, b = pair
    before = a.copy(), b.copy()
    if scheme not in ("auto", "classical"):
        if np.float16 == np.result_type(a, b):
            scheme = "auto"
        if 0 in (a.ndim, b.ndim):  # a scheme needs arrays: TypeError rather than ValueError
            return
    found = outcome(falcon.matmul, a, b, scheme=scheme, check=check)
    assert_same(found, outcome(np.matmul, a, b))
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])


@st.composite
def with_out(draw):
    a, b = draw(operands())
    fits = outcome(np.matmul, a, b)
    shape = (2, 2) if isinstance(fits, type) else fits.shape
    change = draw(st.integers(0, 5))
    if change == 0:
        shape = (draw(st.integers(0, 3)), *shape)
    elif change == 1 and shape:
        axis = draw(st.integers(0, len(shape) - 1))
        shape = (*shape[:axis], shape[axis] + 1, *shape[axis + 1 :])
    elif change == 2:
        shape = shape[1:]
    dtype = np.dtype(draw(st.sampled_from([*NUMERIC, "?", np.result_type(a, b).char])))
    if draw(st.integers(0, 3)) == 0:
        dtype = dtype.newbyteorder()
    spread = tuple(2 * x for x in shape)
    step = draw(st.sampled_from([2, -2]))
    index = tuple(slice(None, None, step) for _ in shape)
    if draw(st.booleans()):
        return a, b, lambda: np.zeros(spread, dtype)[index]
    return a, b, lambda: np.zeros(shape, dtype, "F")


@many
@given(with_out(), st.sampled_from(SCHEMES), st.booleans())
def test_out_agrees_with_numpy(drawn, scheme, as_tuple):
    a, b, make = drawn
    if scheme not in ("auto", "classical") and (
        np.float16 == np.result_type(a, b) or 0 in (a.ndim, b.ndim)
    ):
        scheme = "auto"
    mine, numpys = make(), make()
    found = outcome(falcon.matmul, a, b, out=(mine,) if as_tuple else mine, scheme=scheme)
    expected = outcome(np.matmul, a, b, out=numpys)
    if isinstance(expected, type):
        assert found is expected
    else:
        assert found is mine
        assert expected is numpys
        np.testing.assert_array_equal(mine, numpys)


@many
@given(st.data(), st.sampled_from(SCHEMES))
def test_out_may_overlap_the_operands(data, scheme):
    """All three cut from one buffer, batches included."""
    batch = tuple(data.draw(st.lists(st.integers(1, 3), max_size=2)))
    n = data.draw(st.integers(1, 5))
    size = int(np.prod((*batch, n, n)))
    memory = np.random.default_rng(1).integers(-9, 10, 3 * size).astype("f8")

    def cut(memory, start, transposed):
        x = memory[start : start + size].reshape(*batch, n, n)
        return x.swapaxes(-1, -2) if transposed else x

    places = [(data.draw(st.integers(0, 2 * size)), data.draw(st.booleans())) for _ in range(3)]
    copy = memory.copy()
    expected = np.matmul(cut(copy, *places[0]), cut(copy, *places[1]))
    a, b, out = (cut(memory, *place) for place in places)
    limit = data.draw(st.sampled_from([None, 10**6]))
    assert falcon.matmul(a, b, out, scheme=scheme, workspace_limit=limit) is out
    np.testing.assert_array_equal(out, expected)


class Own:
    """An array of another library that takes over NumPy's functions."""

    def __array_ufunc__(self, *arguments, **options):
        return "own"


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_what_no_scheme_can_multiply_is_left_to_numpy():
    x = np.arange(4).reshape(2, 2)
    masked = np.ma.array(x, mask=[[0, 1], [0, 0]])
    cases = [
        (x > 1, x > 1),
        (x > 1, x),
        (x.astype(object), x),
        (np.matrix(x), x),
        (masked, x),
        (x, masked),
    ]
    for a, b in cases:
        for scheme in ("auto", "classical"):
            found, expected = falcon.matmul(a, b, scheme=scheme), np.matmul(a, b)
            assert type(found) is type(expected)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
        with pytest.raises(TypeError, match="needs plain numeric arrays"):
            falcon.matmul(a, b, scheme="strassen")
    assert falcon.matmul(Own(), x) == "own"
    assert falcon.matmul(x, Own()) == "own"
    out = np.empty((2, 2), object)
    assert falcon.matmul(x, x, out=out) is out
    for bad in (x.astype("M8[s]"), x.astype("U1")):
        assert outcome(falcon.matmul, bad, x) is outcome(np.matmul, bad, x) is TypeError
    assert outcome(falcon.matmul, x, x, out=(x, x)) is ValueError
    assert outcome(falcon.matmul, x, x, out=[x]) is TypeError
    assert falcon.matmul(x, x, out=(None,)).tolist() == (x @ x).tolist()


def test_objects_that_take_long_are_told(monkeypatch):
    a = np.ones((2, 40, 30), object)
    assert falcon.matmul(a, a[0].T).shape == (2, 40, 40)
    monkeypatch.setattr(fallback, "_LONG", 2 * 40 * 30 * 40 * fallback._OBJECT * 0.99)
    with pytest.warns(RuntimeWarning, match=r"objects one by one, .* s or more") as told:
        falcon.matmul(a, a[0].T)
    assert told[0].filename == __file__
    with pytest.warns(RuntimeWarning):
        falcon.matmul(a[0], a.transpose(0, 2, 1))
    assert falcon.matmul(a, a[0, 0]).shape == (2, 40)
    assert falcon.matmul(a[0, :, 0], a).shape == (2, 30)


def test_lists_are_converted():
    assert falcon.matmul([[1, 2]], [[3], [4]]).tolist() == [[11]]
    assert falcon.matmul([1, 2], [3, 4]) == 11
    assert outcome(falcon.matmul, 2, [3, 4]) is ValueError


def test_the_limit_covers_the_buffer_of_a_batch():
    a = np.ones((5, 20, 20))
    with pytest.raises(
        ValueError, match=r"workspace_limit is 15999 bytes; a buffer of 16000 is needed"
    ):
        falcon.matmul(a, a, out=a, workspace_limit=15_999)
    falcon.matmul(a, a, out=a, workspace_limit=16_000)
    assert (a == 20).all()


def test_every_call_of_a_product_is_multiplied_alike():
    """Small calls as their plan says; also with the classical algorithm by name, where that may be
    falcon's own kernels.
    """
    random = np.random.default_rng(0)
    shapes = [(8, 2048, 2048), (4, 2048, 2048), (300, 300, 300), (400, 3000, 400), (4, 300, 300)]
    for M, K, N in [*shapes, (1, 700, 600), (700, 600, 1)]:
        a, b = (random.standard_normal(x).astype("f4") for x in ((M, K), (K, N)))
        assert (falcon.matmul(a, b) == falcon.plan(a, b)(a, b)).all()
        first, *others = (falcon.matmul(a, b, scheme="classical") for _ in range(3))
        assert all((x == first).all() for x in others)
        assert (falcon.gemm(a, b, scheme="classical") == first).all()


@pytest.mark.parametrize("how", [{"reproducible": True}, {"backend": "cpu"}, {}], ids=str)
@pytest.mark.usefixtures("engine")
def test_bits_of_the_first_call_are_those_of_later_ones(how):
    random = np.random.default_rng(0)
    shapes = [((1, 9), (9, 40)), ((7, 5, 9), (9, 1))]
    shapes += [((M, 9), (9, 1)) for M in (2, 5, 8, 33, 64)]
    for a_shape, b_shape in shapes:
        for dtype in ("f4", "f8", "c8", "c16"):
            unit = 1 + 2j if dtype[0] == "c" else 1
            a, b = ((unit * random.standard_normal(x)).astype(dtype) for x in (a_shape, b_shape))
            first, *others = (falcon.matmul(a, b, **how).tobytes() for _ in range(3))
            assert others == [first, first], (a_shape, b_shape, dtype)


# --- batches --------------------------------------------------------------------------------


@pytest.fixture
def counts(doors):
    """How many products each plan is run for at once."""
    return doors.multiplied(lambda _, count: count)


def batch_of(dtype, n, rows, columns, how):
    x = np.random.default_rng(n).integers(-5, 6, (n, 2 * rows, 2 * columns))
    x = x.astype(dtype)
    return {
        "plain": lambda: np.ascontiguousarray(x[:, :rows, :columns]),
        "strided": lambda: x[:, ::2, ::2],
        "reversed": lambda: x[::-1, :rows, :columns],
        "columns": lambda: x[:, :rows, :columns].swapaxes(1, 2).copy().swapaxes(1, 2),
    }[how]()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "dtypes",
    [*((x, x) for x in ("i1", "i4", "u2", "i8", "f2", "f4", "f8")),
     *(("f4", "f8"), ("i4", "i8"), ("f2", "f4"), ("i2", "f8"))],
)  # fmt: skip
@pytest.mark.parametrize("how", ["plain", "strided", "reversed", "columns"])
@pytest.mark.parametrize("size", [(2, 2, 2), (17, 18, 19), (120, 130, 110)])
@pytest.mark.parametrize("limit", [None, "1GiB"])
def test_a_batch_is_not_a_loop_in_python(counts, dtypes, how, size, limit):
    (M, K, N), n = size, 5
    a, b = batch_of(dtypes[0], n, M, K, how), batch_of(dtypes[1], n, K, N, "plain")
    found = falcon.matmul(a, b, workspace_limit=limit)
    np.testing.assert_array_equal(found, np.matmul(a, b))
    assert found.dtype == np.matmul(a, b).dtype
    if (dtypes[1], M) != ("i8", 120):  # an LCMA, on top of NumPy's loops
        assert 1 not in counts


@pytest.mark.usefixtures("engine")
def test_axes_of_a_batch_are_broadcast_in_one_call(counts):
    a = batch_of("i4", 6, 11, 12, "strided").reshape(2, 3, 1, 11, 12)[:, ::-1]
    b = batch_of("i4", 4, 12, 10, "plain").reshape(4, 12, 10)
    out = np.zeros((2, 3, 4, 22, 10), np.int32)[..., ::2, :]
    falcon.matmul(a, b, out=out)
    np.testing.assert_array_equal(out, np.matmul(a, b))
    assert counts == [24]


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "i4"])
@pytest.mark.parametrize("how", [{}, {"backend": "cpu"}, {"reproducible": True}], ids=str)
@pytest.mark.parametrize("is_matrix", [True, False])
@pytest.mark.usefixtures("engine")
def test_a_column_or_row_over_the_operands(dtype, how, is_matrix):
    """`out` may overlap them wherever it lies, as in NumPy."""
    rng = np.random.default_rng(0)
    for place in (0, 100, 500, 960):
        memory, x = rng.integers(-9, 9, 1100).astype(dtype), rng.integers(-9, 9, 16).astype(dtype)
        matrix, out = memory[:1024].reshape(64, 16), memory[place : place + 64]
        column, row = (x[:, None], x[None]) if is_matrix else (x, x)
        expected = matrix @ column
        found = falcon.matmul(matrix, column, out=out.reshape(expected.shape), **how)
        np.testing.assert_array_equal(found, expected)
        expected = row @ matrix.reshape(16, 64)
        found = falcon.matmul(row, matrix.reshape(16, 64), out=out.reshape(expected.shape), **how)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(5, 30, 40), (2, 3, 30, 40), (4, 1, 40), (0, 30, 40)])
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_a_batch_by_one_matrix_is_one_product(shape, dtype):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, shape).astype(dtype), rng.integers(-9, 9, (40, 50)).astype(dtype)
    for out in (None, np.empty((*shape[:-1], 50), dtype)):
        with falcon.profile() as p:
            found = falcon.matmul(a, b, out=out)
        assert out is None or found is out
        np.testing.assert_array_equal(found, np.matmul(a, b))
        sizes = f"{np.prod(shape[:-1])} x 40 @ 40 x 50"
        assert all(x.problem.startswith(sizes) and x.calls == 1 for x in p.rows())
        assert len(p.rows()) == (0 not in shape)
    gaps = np.repeat(a, 2, axis=1)[:, ::2]
    np.testing.assert_array_equal(falcon.matmul(gaps, b), np.matmul(gaps, b))


GAPS = {  # a batch with axes of size 1, and rows that lie apart; whether it is one matrix
    "rows": ((3, 1, 20, 8), np.s_[:, :, :17], False),
    "axis": ((4, 1, 2, 17, 8), np.s_[::2], False),
    "first": ((1, 3, 20, 8), np.s_[:, :, :17], False),
    "one row": ((3, 1, 20, 8), np.s_[:, :, :1], True),
    "all of one": ((1, 1, 20, 8), np.s_[:, :, ::2], True),
}


@pytest.mark.parametrize("how", GAPS)
@pytest.mark.parametrize("dtype", ["f4", "i4", "c16"])
def test_a_batch_with_axes_of_size_1_by_one_matrix(how, dtype, doors):
    shape, part, is_one = GAPS[how]
    rng = np.random.default_rng(0)
    whole, b = rng.integers(-9, 9, shape).astype(dtype), rng.integers(-9, 9, (8, 13)).astype(dtype)
    a, plain = whole[part], whole[part].copy()
    rows = doors.multiplied(lambda plan, _: plan.problem.M)
    falcon.matmul(a, b)
    assert (rows == [a.size // 8]) == is_one
    for x in (plain, a):
        for _ in range(3):
            out = np.zeros((*shape[:-1], 13), dtype)[part]
            assert falcon.matmul(x, b, out=out) is out
            np.testing.assert_array_equal(out, plain @ b)
        wider = np.zeros((2, *out.shape), dtype)  # a is broadcast to it
        np.testing.assert_array_equal(falcon.matmul(x, b, out=wider), np.array([out, out]))
        wider = np.zeros((2, *out.shape[1:]), dtype)
        if len(out) == 1:
            np.testing.assert_array_equal(falcon.matmul(x, b, out=wider), np.array([*out, *out]))


def windows(x):
    return np.lib.stride_tricks.sliding_window_view(x[0], 200, 0).swapaxes(1, 2)


TWINS = {  # batches whose first pair are twins: x and its transpose
    "one by all": lambda x: (x[0], x),
    "broadcast": lambda x: (x[:1], x),
    "all by one": lambda x: (x, x[:1]),
    "four axes": lambda x: (x[:2, None], x),
    "strided": lambda x: (x[::2], x[:2]),
    "windows": lambda x: (windows(x)[0], windows(x)[:3]),
    "every pair": lambda x: (x, x),
    "one pair, again": lambda x: (np.broadcast_to(x[0], x.shape), np.broadcast_to(x[0], x.shape)),
}


@pytest.mark.parametrize("how", TWINS)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "D"])
@pytest.mark.parametrize("options", [{}, {"scheme": "classical"}])
def test_a_batch_whose_first_pair_are_twins(how, dtype, options):
    whole = np.random.default_rng(0).integers(-3, 4, (4, 210, 40))
    a, b = TWINS[how](whole.astype(dtype))
    x, y = TWINS[how](whole)
    expected = np.matmul(x, y.swapaxes(-1, -2)).astype(dtype)
    for out in (None, None, np.empty_like(expected)):  # the second call may be recalled
        found = falcon.matmul(a, b.swapaxes(-1, -2), out, **options)
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(falcon.einsum("...ij,...kj->...ik", a, b), expected)


@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_a_packed_operand_is_what_it_was_when_packed(scheme):
    """The product by its transpose, since changed, is not symmetric."""
    x = np.random.default_rng(0).integers(-9, 9, (60, 60)).astype("f4")
    before, packed = x.copy(), falcon.pack(x, scheme=scheme)
    x[:] = 2 * x.T
    np.testing.assert_array_equal(falcon.gemm(x.T, packed), x.T @ before)


def test_ctrl_c_ends_a_batch():
    """A batch of a minute; of CPU time, as other programs compute too."""
    code = (
        "import numpy as np, falcon, signal, time;"
        "a = np.broadcast_to(np.ones((700, 7000), np.int32), (300, 700, 7000));"
        "out = np.empty((300, 700, 700), np.int32);"
        "signal.setitimer(signal.ITIMER_REAL, 1.0);"
        "signal.signal(signal.SIGALRM, signal.default_int_handler);"
        "start = time.process_time();\n"
        "try: falcon.matmul(a, a.swapaxes(1, 2), out=out)\n"
        "except KeyboardInterrupt: print(time.process_time() - start < 10)"
    )
    assert python("-c", code).stdout == "True\n"


# --- the operator @ of packed operands ------------------------------------------------------


@pytest.mark.parametrize("scheme", ["auto", "strassen"])
@pytest.mark.parametrize("shape", [(40,), (3, 40), (0, 40), (2, 1, 3, 40), (4, 0, 40)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128"])
def test_packed_operator(shape, dtype, scheme):
    rng = np.random.default_rng(3)
    x, b = rng.integers(0, 3, shape).astype(dtype), rng.integers(0, 3, (40, 6)).astype(dtype)
    packed = falcon.pack(b, scheme=scheme)
    out = np.zeros_like(x @ b)
    assert falcon.matmul(x, packed, out=out) is out
    assert_same(out, x @ b)
    assert (packed.shape, packed.ndim, packed.dtype) == (b.shape, 2, dtype)
    assert_same(x @ packed, x @ b)
    assert_same(x[..., ::-1] @ pickle.loads(pickle.dumps(packed)), x[..., ::-1] @ b)


def test_packed_operands_are_right_operands():
    packed = falcon.pack(np.eye(3))
    with pytest.raises(TypeError, match="does not support ufuncs"):
        packed @ np.eye(3)
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.matmul(np.eye(3), packed)
    with pytest.raises(ValueError, match="inner dimensions differ"):
        np.ones(4) @ packed
