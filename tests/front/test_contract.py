"""`falcon.dot`, `tensordot`, `einsum` and `multi_dot` do what NumPy's do.

Values are small whole numbers, so that every order of summation gives the same bits.
"""

import string
import tracemalloc
from functools import partial

import numpy as np
import opt_einsum
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import falcon

many = settings(max_examples=200, suppress_health_check=list(HealthCheck),
                derandomize=True)  # fmt: skip
DTYPES = ["float32", "float64", "complex64", "complex128", "int8", "uint16", "int64", "bool"]


def whole(shape, dtype="float64", seed=0, layout=0):
    """An array of small whole numbers; by rows, by columns, or with strides of no order."""
    x = np.asarray(np.random.default_rng(seed).integers(0, 3, shape))
    x = (x + 1j * (x % 2)).astype(dtype) if np.dtype(dtype).kind == "c" else x.astype(dtype)
    if layout == 1:
        return np.asfortranarray(x)
    if layout == 2 and x.ndim:
        return np.repeat(x, 2, 0)[::2][::-1]
    return x


def assert_same(found, expected):
    assert type(found) is type(expected)
    found, expected = np.asarray(found), np.asarray(expected)  # Python's numbers have no dtype
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(found, expected)


def outcome(function, *arguments, **options):
    try:
        return function(*arguments, **options)
    except (ValueError, TypeError, IndexError) as error:
        return error


def assert_agree(function, reference, *arguments, **options):
    expected = outcome(reference, *arguments, **options)
    found = outcome(function, *arguments, **options)
    if isinstance(expected, Exception):
        kinds = (ValueError, IndexError, TypeError)
        assert isinstance(found, next(x for x in kinds if isinstance(expected, x)))
    else:
        assert_same(found, expected)


# --- einsum ---------------------------------------------------------------------------------

SUMS = [
    "ij,jk->ik", "ij,jk->ki", "ji,kj", "ij,jk", "bij,bjk->bik", "bij,bjk->kbi", "bij,jk->bik",
    "ijk,kl->ijl", "ikj,kl->ijl", "ijkl,klmn->ijmn", "ijkl,lkmn->nmji", "i,i->", "i,i", "ij,ij->",
    "bi,bi->b", "ij,j->i", "i,ij->j", "i,j->ij", "ij,ij->ij", "ii,ij->j", "iij,jk->ik", "ij,jk->k",
    "ij,kl->", "ii->i", "ii", "ij->j", "ij->ji", "...ij,...jk->...ik", "...ij,jk", "i...,...i",
    "ij...,jk...->ik...", ",ij->ij", ",", "ij,jk,kl->il", "ij,jk,kl,lm", "ab,cb,cd,ad->",
    "i,i,i->i", "bij,bjk,kl->bil", "ij,ij,jk->ik", "A b,bA",
]  # fmt: skip


@pytest.mark.parametrize("text", SUMS)
@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums(text, size, dtype):
    sizes = {x: size + (x in "bkA") for x in string.ascii_letters}
    terms = text.replace(" ", "").split("->")[0].split(",")
    arrays = []
    for i, term in enumerate(terms):
        shape = [sizes[x] for x in term.replace("...", "")]
        if "..." in term:
            at = term.index("...")
            shape[at:at] = [1, 2][i % 2 :]
        arrays.append(whole(shape, dtype, i, i % 3))
    assert_agree(falcon.einsum, np.einsum, text, *arrays)
    assert_agree(falcon.einsum, np.einsum, text, *arrays, optimize=False)


@st.composite
def sums(draw):
    """Subscripts, shapes with 0 and with 1 where others have more, dtypes, layouts."""
    letters = "abcde"
    sizes = {x: draw(st.integers(0, 4)) for x in letters}
    terms = draw(st.lists(st.text(letters, max_size=4), min_size=1, max_size=4))
    arrays = []
    for i, term in enumerate(terms):
        single = {x for x in term if draw(st.integers(0, 5)) == 0}
        shape = [1 if x in single else sizes[x] for x in term]
        if draw(st.integers(0, 40)) == 0:
            shape = shape[1:] if draw(st.booleans()) else [x + 1 for x in shape]
        arrays.append(whole(shape, draw(st.sampled_from(DTYPES)), i, draw(st.integers(0, 2))))
    text = ",".join(terms)
    if draw(st.booleans()):
        used = sorted({*"".join(terms)})
        kept = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
        text += "->" + "".join(kept) + draw(st.sampled_from([""] * 20 + ["z", *kept[:1]]))
    return text, arrays


@pytest.mark.skipif(np.__version__ < "2", reason="NumPy 1 promotes scalars by their values")
@many
@given(sums(), st.sampled_from(["K", "C", "F", "A"]), st.data())
def test_any_sum(drawn, order, data):
    text, arrays = drawn
    before = [x.copy() for x in arrays]
    assert_agree(falcon.einsum, np.einsum, text, *arrays, order=order)
    expected = outcome(np.einsum, text, *arrays)
    if not isinstance(expected, Exception):
        dtype = data.draw(st.sampled_from([*DTYPES, expected.dtype.name]))
        results = [whole(expected.shape, dtype, layout=1) for _ in range(2)]
        casting = data.draw(st.sampled_from(["safe", "same_kind", "no"]))
        done = [
            outcome(f, text, *arrays, out=x, casting=casting)
            for f, x in zip((falcon.einsum, np.einsum), results, strict=True)
        ]
        assert isinstance(done[0], Exception) == isinstance(done[1], Exception)
        if done[1] is results[1]:
            assert done[0] is results[0]
            np.testing.assert_array_equal(*results)
    for x, y in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(x, y)


def test_lists_of_labels():
    a, b = whole((2, 3)), whole((3, 4), seed=1)
    for arguments in (
        (a, [0, 1], b, [1, 2]),
        (a, [30, 1], b, [1, 2]),
        (a, [0, 1], b, [1, 2], [2, 0]),
        (a, [..., 1], b, [1, 5], [5, ...]),
        (a, ["i", 1]),
        (a, [0, 1], b, [1, 2], [3]),
    ):
        assert_agree(falcon.einsum, np.einsum, *arguments)


def test_empty_operands_stay_out_of_numpys_einsum(monkeypatch):
    """It writes beyond the memory of empty results (NumPy 2.4, valgrind: "a,b->ab")."""
    cases = [("ab,c", (9, 0), (9,)), ("eac,f,acf->a", (0, 1, 2), (0,), (1, 2, 0)),
             ("ab->b", (0, 3)), ("ab->", (0, 3)), ("ab->ba", (3, 0)),
             ("aab->b", (2, 2, 0))]  # fmt: skip
    sums = [(text, [whole(x, dtype) for x in shapes])
            for text, *shapes in cases for dtype in (*DTYPES, "float16", object)]  # fmt: skip
    expected = [np.asarray(np.einsum(text, *arrays)) for text, arrays in sums]
    outer = np.tensordot(whole((5, 3)), whole((0,)), 0)

    def refuse(text, *arrays, **_):
        raise AssertionError(text)

    monkeypatch.setattr(np, "einsum", refuse)
    for (text, arrays), wanted in zip(sums, expected, strict=True):
        assert_same(np.asarray(falcon.einsum(text, *arrays)), wanted)
    assert_same(falcon.tensordot(whole((5, 3)), whole((0,)), 0), outer)


@pytest.mark.parametrize("optimize", [True, "greedy", "optimal", ["einsum_path", (1, 2), (0, 1)],
                                      ["einsum_path", (0, 1, 2)], ("greedy", 10**6)])  # fmt: skip
def test_paths(optimize):
    arrays = [whole((5, 4)), whole((4, 6), seed=1), whole((6, 2), seed=2)]
    assert_agree(falcon.einsum, np.einsum, "ij,jk,kl->li", *arrays, optimize=optimize)


def test_dtype_and_casting():
    a, b = whole((3, 4), "int8"), whole((4, 5), "int8", 1)
    for dtype in ("int32", "float64", "int8", "bool", "complex64", bool):
        for casting in ("safe", "same_kind", "unsafe", "no"):
            for text in ("ij,jk->ik", "ij,jk->ijk", "ij,jk,ij->k"):
                given = (a, b, a)[: text.count(",") + 1]
                assert_agree(falcon.einsum, np.einsum, text, *given, dtype=dtype, casting=casting)
    out = np.zeros((3, 5), "int8")
    assert falcon.einsum("ij,jk->ik", a * 1.0, b, out=out, casting="unsafe") is out
    np.testing.assert_array_equal(out, a @ b)
    big = np.full((1, 2), 100, "int8")  # cast first: nothing wraps
    assert falcon.einsum("ij,kj->", big, big, dtype="int32") == 20000
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    for text in ("ij,jk->ik", "ij,jk->ijk", "ij,jk->k"):
        product = falcon.einsum(text, a.astype(bfloat16), b.astype(bfloat16))
        assert product.dtype == bfloat16
        np.testing.assert_array_equal(product.astype(int), np.einsum(text, a, b))


def test_what_only_numpy_adds_up_and_casts():
    large = np.array([2**62, 2**62 - 1], object)  # Python's integers stay so
    for text, operands in (("i->", [large]), ("i,i->", [large] * 2), ("ij->j", [large[:, None]])):
        assert_same(falcon.einsum(text, *operands), np.einsum(text, *operands))
    mixed = [x.astype(object) if i == 1 else x for i, x in enumerate([whole((3, 3))] * 3)]
    for text in ("ij,jk,kl->il", "ij,jk,kl->", "ij,kl,jk->il"):
        for optimize in (True, False):
            found = falcon.einsum(text, *mixed, optimize=optimize)
            assert_same(found, np.einsum(text, *mixed))
    swapped = whole((3, 3)).astype(">f8")
    for text in ("ij->ji", "ii->i", "ji", "ij->i", "ii"):  # views are not cast
        for how in ({"casting": "no"}, {"dtype": "i4"}):
            assert_agree(falcon.einsum, np.einsum, text, swapped, **how)
    for how in ({"dtype": "f4"}, {"out": np.zeros((3, 3))}):
        with pytest.warns(np.exceptions.ComplexWarning):
            found = falcon.einsum("ij,jk", swapped + 2j, swapped, casting="unsafe", **how)
        np.testing.assert_array_equal(found, swapped @ swapped)
    x, y = whole((*[1] * 28, 3, 4)), whole((4, *[1] * 27, 3), seed=1)  # 58 labels
    for axes in (0, 1, ([28, 29], [28, 0]), ([], [])):
        assert_agree(falcon.tensordot, np.tensordot, x, y, axes)


def test_matrices_are_multiplied_without_copies():
    """Sums of more than 3 MiB are multiplied as they lie: there is memory for the result alone."""
    x, y = whole((12, 10, 80, 50)), whole((50, 80, 7), seed=1)
    turned, out = x.transpose(1, 0, 2, 3), np.empty((12, 10, 7))
    for text, first, second, target in [
        ("abcd,dce->abe", x, np.asfortranarray(y), None),
        ("abcd,cde->abe", x, y.transpose(1, 0, 2).copy(), out),
        ("abcd,abce->abde", x, x, None),
        ("abcd,cdf->fab", turned.copy().transpose(1, 0, 2, 3), whole((80, 50, 2)), None),
        ("dcba,dce->bae", x.T.copy().T.transpose(3, 2, 1, 0), y.copy(), None),
    ]:
        wanted = np.einsum(text, first, second)
        falcon.einsum(text, first, second, out=target)  # whatever is imported at first
        tracemalloc.start()
        found = falcon.einsum(text, first, second, out=target)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        np.testing.assert_array_equal(found, wanted)
        assert peak < 2 * found.nbytes * (target is None) + 200_000, text
    assert falcon.einsum("ij,jk->ki", whole((3, 4)), whole((4, 5))).flags.c_contiguous


CALLS = {
    "ij,jk->ik": [(4, 5), (5, 3)], "ij,jk": [(20, 30), (30, 4)], "ji,kj->ki": [(4, 5), (3, 4)],
    "i,j->ij": [(4,), (5,)], "bij,bjk->bik": [(3, 4, 5), (3, 5, 6)], "ij,ij->": [(4, 5), (4, 5)],
    "ij->ji": [(4, 5)], "ii": [(4, 4)], "ij,jk,kl->il": [(4, 5), (5, 6), (6, 3)],
    "aij,ij->a": [(3, 4, 5), (4, 5)],
    0: [(2, 3), (4,)], 1: [(4, 5), (5, 3)], 2: [(3, 4, 5), (4, 5, 2)], 3: [(2, 3, 4), (2, 3, 4)],
    ((1, 0), (0, 1)): [(3, 4, 5), (4, 3, 2)],
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int8", "bool", ">f8"])
def test_a_sum_like_one_seen_before(call, dtype, doors):
    doors.forget()
    entered = doors.entered("contract")
    is_einsum = type(call) is str
    mine, reference = (
        (partial(x.einsum, call) if is_einsum else partial(x.tensordot, axes=call))
        for x in (falcon, np)
    )
    for layout in (0, 2):
        for seed in (0, 1, 2):
            arrays = [whole(x, dtype, seed + 9 * i, layout) for i, x in enumerate(CALLS[call])]
            entered.clear()
            assert_same(mine(*arrays), reference(*arrays))
            if seed and dtype != ">f8":  # by their form alone
                assert not entered
    lists = [x.tolist() for x in arrays]
    assert_same(mine(*lists), reference(*lists))
    if is_einsum:
        with pytest.raises(ValueError):
            mine(arrays[0][..., None], *arrays[1:])


def test_options_reach_the_products():
    a, b = whole((60, 40)), whole((40, 50), seed=1)
    found = falcon.einsum("ij,jk->ik", a, b, scheme="strassen", backend="numpy", threads=1)
    np.testing.assert_array_equal(found, a @ b)
    with pytest.raises(TypeError, match=r"multi_dot\(\) got an unexpected"):
        falcon.multi_dot([a, b], schema="strassen")
    for call in (
        lambda **o: falcon.einsum("ij,jk->ik", a, b, **o),
        lambda **o: falcon.tensordot(a, b, 1, **o),
        lambda **o: falcon.multi_dot([a, b], **o),
        lambda **o: falcon.dot(a, b, **o),
    ):
        with pytest.raises(ValueError, match="nonsense"):
            call(scheme="nonsense")
        with pytest.raises(TypeError, match="schema"):
            call(schema="strassen")


def test_overlapping_out():
    a = whole((3, 4, 4))
    expected = np.einsum("bij,bjk->bki", a, a)
    assert falcon.einsum("bij,bjk->bki", a, a, out=a) is a
    np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize("call, message", [
    (("ij,jk->ik", [[1.0]]), "number of operands, 1"),
    (("i$,jk->ik", [[1.0]], [[1.0]]), "'\\$' in the subscripts"),
    (("ij,jk->ik", np.ones((2, 3)), np.ones((4, 3))), "3\\): Size of label 'j' for operand 1"),
    (("ij,jk->ik", np.ones(2), np.ones((4, 3))), "'ij' .* number of indices for operand 0"),
    (("ij->iz", np.ones((2, 2))), "character 'z' did not appear"),
    (("ij->ii", np.ones((2, 2))), "character 'i' appeared more"),
    (("ii", np.ones((2, 3))), "label 'i' for operand 0"),
    (("...i->i", np.ones((2, 3))), "needs '...'"),
    (("ij",), "at least one operand"),
])  # fmt: skip
def test_errors_of_einsum(call, message):
    with pytest.raises(ValueError, match=message):
        falcon.einsum(*call)
    for call in ("", 0), ("ij->ji", np.ones((2, 3))), ("ij,jk", np.ones((2, 3)), np.ones((3, 2))):
        with pytest.raises(ValueError, match="casting is 'blah'; expected one of no, equiv"):
            falcon.einsum(*call, casting="blah")
        with pytest.raises(TypeError, match="bad_type"):
            falcon.einsum(*call, dtype="bad_type")
    with pytest.raises(ValueError, match="order is 'X'"):
        falcon.einsum("ii", np.ones((2, 2)), order="X")
    with pytest.raises(ValueError, match="optimize is 'X'"):
        falcon.einsum("i,i,i", *np.ones((3, 2)), optimize="X")
    with pytest.raises(ValueError, match=r"out has shape \(3,\); expected \(\)"):
        falcon.einsum("ii", np.ones((2, 2)), out=np.ones(3))
    with pytest.raises(TypeError, match="operand 1 is a PackedOperand"):
        falcon.einsum("ij,jk", np.eye(2), falcon.pack(np.eye(2)))


# --- dot, tensordot, multi_dot --------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", [0, 1, 2])
def test_dot(dtype, layout):
    shapes = [(), (3,), (4, 3), (3, 4), (2, 4, 3), (5, 3, 2), (0, 3), (3, 0), (2, 0, 3), (2, 3, 0)]
    for one in shapes:
        for two in shapes:
            a, b = whole(one, dtype, 0, layout), whole(two, dtype, 1, layout)
            assert_agree(falcon.dot, np.dot, a, b)
            expected = outcome(np.dot, a, b)
            if isinstance(expected, np.ndarray):
                out = np.empty_like(expected)
                assert falcon.dot(a, b, out) is out
                np.testing.assert_array_equal(out, expected)
    assert_agree(falcon.dot, np.dot, 3, [1.5, 2])
    np.testing.assert_array_equal(falcon.dot(np.eye(3), falcon.pack(np.eye(3))), np.eye(3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensordot(dtype):
    a, b = whole((2, 3, 4), dtype), whole((4, 3, 5), dtype, 1, 1)
    cases = [(2, 0), (1, 2), ([1, 2], [1, 0]), ([2, 1], [0, 1]), ([-1], [-3]), ([], []), (1, 1),
             ((0, 0), (1, 1)), ([5], [1]), ([1], [0, 1]), ([0], [0])]  # fmt: skip
    for axes in (0, 1, 2, 3, *cases):
        assert_agree(falcon.tensordot, np.tensordot, a, b, axes)
    assert_agree(falcon.tensordot, np.tensordot, a, whole((4, 3)), axes=1)
    assert_agree(falcon.tensordot, np.tensordot, a, a, 3)
    assert_agree(falcon.tensordot, np.tensordot, 3, 4, 0)
    assert_agree(falcon.tensordot, np.tensordot, a[:0], b[..., :0], 1)
    assert_agree(falcon.tensordot, np.tensordot, a[..., :0], b[:0], 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", [
    [(3, 4), (4, 5)], [(3, 4), (4, 5), (5, 2)], [(3,), (3, 5), (5, 2)], [(3, 4), (4, 5), (5,)],
    [(3,), (3, 4), (4,)], [(3,), (3,)], [(9, 2), (2, 8), (8, 1), (1, 7), (7, 3)],
    [(0, 2), (2, 3), (3, 4)], [(2, 0), (0, 3), (3, 4)], [(2, 3)], [(2, 3, 4), (4,), (4,)],
    [(3, 4), (4,), (4, 3)], [(3, 4), (5, 3)],
])  # fmt: skip
def test_multi_dot(shapes, dtype):
    if dtype == "int8" and len(shapes) > 4:
        return  # wraps in either order
    arrays = [whole(x, dtype, i, i % 3) for i, x in enumerate(shapes)]
    assert_agree(falcon.multi_dot, np.linalg.multi_dot, arrays)
    expected = outcome(np.linalg.multi_dot, arrays)
    if isinstance(expected, np.ndarray):
        out = np.empty_like(expected)
        assert falcon.multi_dot(arrays, out=out) is out
        np.testing.assert_array_equal(out, expected)


def test_a_chain_is_multiplied_in_the_cheapest_order():
    sizes = [30, 35, 15, 5, 10, 20, 25]  # the example of Cormen et al.: ((1 (2 3)) ((4 5) 6))
    from falcon._front.contract import _cheapest

    splits = _cheapest(sizes)
    assert (splits[0, 5], splits[0, 2], splits[3, 5]) == (2, 0, 4)


# --- other libraries ------------------------------------------------------------------------


def test_opt_einsum(monkeypatch):
    arrays = [whole((4, 5)), whole((5, 6), seed=1), whole((6, 3), seed=2)]
    for text in ("ij,jk,kl->li", "ij,jk,kl->", "ij,jk,kl->ijl"):
        expected = np.einsum(text, *arrays)
        np.testing.assert_array_equal(
            opt_einsum.contract(text, *arrays, backend="falcon"), expected
        )
        assert_same(falcon.einsum(text, *arrays), expected)
        assert_same(falcon.einsum(text, *arrays, optimize="dp"), expected)
