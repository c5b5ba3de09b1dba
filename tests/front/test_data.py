"""Sparse, masked, lazy and labelled data: arrays, or a message that says what to do."""

import numpy as np
import pytest

import falcon

RANDOM = np.random.default_rng(0)
A, B = RANDOM.standard_normal((70, 50)), RANDOM.standard_normal((50, 60))
FUNCTIONS = [falcon.gemm, falcon.matmul, falcon.plan]
CALLS = [*FUNCTIONS, lambda a, b: falcon.verify(a, b, A @ B)]


@pytest.mark.parametrize("call", CALLS)
def test_sparse(call):
    sparse = pytest.importorskip("scipy.sparse")
    for kind in (sparse.csr_array, sparse.coo_matrix):
        with pytest.raises(TypeError, match=rf"a is sparse \({kind.__name__}\): use a.toarray\(\)"):
            call(kind(A), B)
        with pytest.raises(TypeError, match=r"b is sparse .*: use b.toarray\(\)"):
            call(A, kind(B))


class Frame:
    """Like pandas' and polars' DataFrames, which do not support np.matmul."""

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def to_numpy(self):
        return self.values

    def __array_ufunc__(self, *args, **kwargs):
        raise NotImplementedError("matmul")


@pytest.fixture(params=["like", "pandas"])
def frame(request):
    return Frame if request.param == "like" else pytest.importorskip("pandas").DataFrame


def test_frames(frame):
    for function in (falcon.gemm, falcon.matmul):
        product = function(frame(A), frame(B), scheme="strassen")
        assert type(product) is np.ndarray
        np.testing.assert_allclose(product, A @ B, atol=1e-12)
        with pytest.raises(TypeError, match="a has dtype object; expected integers"):
            falcon.gemm(frame(A.astype(object)), B)
    a, b = frame(A), frame(B)
    assert falcon.plan(a, b).problem == falcon.plan(a.to_numpy(), b.to_numpy()).problem


class Marked(Frame):
    """Like pandas' frames of Float64, which hold objects, and mark what is missing."""

    def __init__(self, values, absent=0):
        super().__init__(values)
        self.absent, self.dtypes = absent, [self] * values.shape[1]
        self.na_value, self.numpy_dtype = None, values.dtype

    def to_numpy(self, dtype=object):
        return self.values.astype(dtype)

    def isna(self):
        return np.arange(self.values.size) < self.absent


class Counted(Marked):
    """Like polars', which write NaN for it."""

    def null_count(self):
        return self.absent


def of_pandas(name):
    def made(values, absent=0):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(values).astype(name)
        frame.iloc[3, :absent] = pandas.NA
        return frame

    return made


@pytest.mark.parametrize("call", [*CALLS, falcon.dot, lambda a, b: falcon.einsum("ij,jk", a, b)])
@pytest.mark.parametrize("kind", [Marked, Counted, of_pandas("Float64"), of_pandas("Int64")])
def test_frames_of_types_that_mark_missing_values(call, kind):
    a, b = np.rint(A), np.rint(B)
    found, wanted = call(kind(a), kind(b)), call(a, b)
    assert type(found) is type(wanted)
    if isinstance(found, np.ndarray):
        assert found.dtype in (float, int)
        np.testing.assert_array_equal(found, wanted)
    for x, y in ((kind(a, 2), kind(b)), (a, kind(b, 1)), (kind(a, 1), b)):
        with pytest.raises(TypeError, match=r" is a \w+ with missing values.*fill them first \("):
            call(x, y)


def test_frames_with_columns_of_several_types():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": [0.5, np.nan], "c": [True, False]})
    found = falcon.matmul(np.eye(2), frame.astype({"a": "Int64"}).drop(columns="b"))
    assert found.dtype == float and found.tolist() == [[1, 1], [2, 0]]
    found = falcon.matmul(np.eye(2), frame.drop(columns="c"))  # NaN is a float
    np.testing.assert_array_equal(found, [[1, np.nan], [2, np.nan]])
    with pytest.raises(ValueError, match="the inner dimensions"):
        falcon.matmul(np.eye(2), pandas.DataFrame(index=range(3)))


class Lazy:
    """Like Dask's collections; without a graph like arrays of xarray and pint."""

    def __dask_graph__(self):
        return self.graph


def test_lazy():
    lazy = Lazy()
    for lazy.graph, message in (
        ({}, r"b is a Dask collection, .*: use b.compute\(\)"),
        (None, "b is a Lazy, whose units or labels would be lost"),
    ):
        for call in CALLS:
            with pytest.raises(TypeError, match=message):
                call(A, lazy)


class Awkward(Frame):
    """Like awkward's arrays, which run NumPy's functions on their values without the mask."""

    def __array_function__(self, function, types, args, kwargs):
        return function(*(getattr(x, "values", x) for x in args), **kwargs)


@pytest.mark.parametrize("call", [*CALLS, lambda a, b: falcon.einsum("ij,jk", a, b)])
@pytest.mark.parametrize("kind", [Frame, Awkward])
def test_values_that_are_missing(call, kind):
    masked = np.ma.MaskedArray(A.copy(), A > 2)
    with pytest.raises(TypeError, match=" is a masked array, whose mask would be lost"):
        call(kind(masked), B)
    with pytest.raises(TypeError, match=" is a masked array, whose mask would be lost"):
        call(A.T @ A, kind(masked.T))
    call(kind(A), kind(B))


def test_masked():
    masked = np.ma.array(A, mask=A > 0)
    for call in (falcon.gemm, falcon.plan, lambda a, b: falcon.verify(a, b, A @ B)):
        with pytest.raises(TypeError, match=r"a is a masked array, .* fill it first \(a.filled"):
            call(masked, B)
    with pytest.raises(TypeError, match="c is a masked array"):
        falcon.verify(A, B, np.ma.array(A @ B))
    with pytest.raises(TypeError, match="a is a masked array"):
        falcon.plan(A, B)(masked, B)


# --- arrays with rules of their own: units, labels -------------------------------------------


class Duck:
    """No ndarray; like pint's quantities."""

    def __init__(self, values):
        self.ndim, self.shape = values.ndim, values.shape

    def __array_ufunc__(self, ufunc, *args, **kwargs):
        return f"its own {ufunc.__name__}"

    def __array_function__(self, function, types, args, kwargs):
        return f"its own {function.__name__}"


class Quantity(np.ndarray):
    """Like those of astropy and unyt."""

    __array_ufunc__, __array_function__ = Duck.__array_ufunc__, Duck.__array_function__


class Subclass(np.ndarray):
    pass


class Refuses(np.ndarray):
    __array_ufunc__ = None


KINDS = [Duck, *(lambda x, y=y: x.view(y) for y in (Quantity, Subclass, Refuses))]
OURS = [  # without a counterpart in NumPy
    lambda x: falcon.gemm(x(A), B), lambda x: falcon.gemm(A, x(B), scheme="strassen"),
    lambda x: falcon.gemm(A, B, x(A @ B), beta=1), lambda x: falcon.gemm(A, B, out=x(A @ B)),
    lambda x: falcon.gram(x(A)), lambda x: falcon.gram(A, out=x(A.T @ A)),
    lambda x: falcon.pack(x(B)), lambda x: falcon.matmul(x(A), falcon.pack(B)),
    lambda x: falcon.matmul(A, falcon.pack(B), out=x(A @ B)),
    lambda x: falcon.plan(x(A), B), lambda x: falcon.plan(A, B)(A, x(B)),
    lambda x: falcon.plan(A, B)(A, B, x(A @ B)), lambda x: falcon.verify(A, B, x(A @ B)),
    lambda x: falcon.plan(A, B).error_bound(x(A), B),
]  # fmt: skip
NUMPYS = {
    "dot": [lambda x: falcon.dot(x(A[None]), B[None]), lambda x: falcon.dot(2.0, x(A)),
            lambda x: falcon.dot(A[None], B[None], out=x(np.empty((1, 70, 1, 60))))],
    "tensordot": [lambda x: falcon.tensordot(A, x(B), 1)],
    "einsum": [lambda x: falcon.einsum("ij,jk", A, x(B)), lambda x: falcon.einsum(x(A), [0, 1]),
               lambda x: falcon.einsum("ij,jk", A, B, out=x(A @ B))],
    "matmul": [lambda x: falcon.matmul(x(A), B), lambda x: falcon.dot(A, x(B)),
               lambda x: falcon.multi_dot([A, x(B)])],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_with_rules_of_their_own_are_never_stripped(kind):
    for name, call in [*((x, y) for x in NUMPYS for y in NUMPYS[x]), *(("", y) for y in OURS)]:
        if name and kind in KINDS[:2]:
            assert call(kind) == f"its own {name}"
        elif name == "matmul" and kind is KINDS[2]:
            assert isinstance(call(kind), Subclass)
        else:
            with pytest.raises(TypeError, match=r"whose own rules .* would be lost|out is a "):
                call(kind)


def test_they_are_not_multiplied_by_a_scheme():
    for name in ("einsum", "dot"):
        with pytest.raises(TypeError, match=r"needs plain numeric arrays .* Duck \("):
            getattr(falcon, name)(*["ij,jk"][: name == "einsum"], A, Duck(B), scheme="strassen")


def test_maps_of_files_are_arrays():
    a, out = A.view(np.memmap), np.empty((70, 60)).view(np.memmap)
    for call in (falcon.gemm, falcon.matmul):
        assert type(call(a, B, scheme="strassen")) is np.ndarray
        assert call(a, B, out=out, scheme="strassen") is out
        np.testing.assert_allclose(out, A @ B, atol=1e-12)


@pytest.mark.parametrize("check", ["finite", "verify", "none"])
@pytest.mark.parametrize("scheme", ["auto", "strassen"])
def test_integers_to_half_precision_under_strict_errors(check, scheme):
    i = np.arange(1600).reshape(40, 40) * 1000
    out = np.empty((40, 40), np.float16)
    with np.errstate(all="raise"):
        for alpha in (1, -3):
            falcon.gemm(i, i, alpha=alpha, out=out, check=check, scheme=scheme)
            falcon.matmul(i[None], i, out=out[None], check=check, scheme=scheme)
    assert np.isinf(out).any()


def test_what_of_pandas_is_reached():
    """As the table of docs/accelerate.md says."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("falcon._cpu._core", reason="needs the compiled extension")
    x = pandas.DataFrame(RANDOM.standard_normal((400, 300)))
    holed = x.where(x < 3)
    reached = {
        "@": (lambda: x.T @ x, 1), "dot": (lambda: x.dot(x.T), 1), "cov": (x.cov, 1),
        "groupby": (x.groupby(np.arange(400) % 2).cov, 2), "corr": (x.corr, 0),
        "corrcoef": (lambda: np.corrcoef(x.T), 1), "holed": (holed.cov, 0),
        "corrwith": (lambda: x.corrwith(x + 1), 0),
        "nullable": (lambda: x.astype("Float64") @ x.T.astype("Float64"), 0),
    }  # fmt: skip
    for name, (call, products) in reached.items():
        with falcon.accelerate(quiet=True), falcon.profile() as seen:
            call()
        assert sum(row.calls for row in seen.rows()) == products, name
