"""Arrays of other libraries: multiplied, or a message that says what to do."""

import numpy as np
import pytest

import falcon
from falcon._front.adapters import host

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


# --- other libraries in host memory: one door ------------------------------------------------


class Exchanged:
    """An array of a library that exchanges memory by DLPack; not even `len` is known of it."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.shape, self.ndim, self.dtype = self.values.shape, self.values.ndim, self.values.dtype

    def __dlpack__(self, **how):
        return self.values.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()

    def __array_namespace__(self):
        return Namespace


class Namespace:
    @staticmethod
    def from_dlpack(x):
        return Exchanged(np.from_dlpack(x))


class Truncating(Exchanged):
    """Like JAX without x64: 64 bits become 32, and only arrays without gaps are taken."""

    def __array_namespace__(self):
        return TruncatingNamespace


class TruncatingNamespace:
    @staticmethod
    def from_dlpack(x):
        if not x.flags.c_contiguous:
            raise BufferError("strides")
        return Truncating(np.from_dlpack(x).astype(x.dtype.str.replace("8", "4")))


class OneWay(Exchanged):
    """Of a library that gives memory and takes none."""

    def __array_namespace__(self):
        return None


class Bare:
    """Of a library that has nothing but DLPack, not even a shape."""

    __dlpack__, __dlpack_device__ = Exchanged.__dlpack__, Exchanged.__dlpack_device__

    def __init__(self, values):
        self.values = values


class Held:
    """Of a library without any protocol: it needs an adapter of its own."""

    def __init__(self, values):
        self.values = values

    def to_host(self):
        return self.values


class HeldArrays(host.Numpy):
    """All that such a library needs."""

    def owns(self, x):
        return isinstance(x, Held)

    def view(self, name, x):
        return x.to_host()

    def wrap(self, x):
        return Held(x)


RESULTS = {
    "gemm": falcon.gemm, "matmul": falcon.matmul, "dot": falcon.dot,
    "tensordot": lambda a, b: falcon.tensordot(a, b, 1),
    "einsum": lambda a, b: falcon.einsum("ij,jk", a, b),
    "multi_dot": lambda a, b: falcon.multi_dot([a, b]), "gram": lambda a, _: falcon.gram(a),
}  # fmt: skip
WITH_OUT = {
    "gemm": falcon.gemm, "matmul": falcon.matmul, "dot": falcon.dot,
    "einsum": lambda a, b, out: falcon.einsum("ij,jk", a, b, out=out),
    "multi_dot": lambda a, b, out: falcon.multi_dot([a, b], out=out),
    "gram": lambda a, _, out: falcon.gram(a, transpose=True, out=out),
}  # fmt: skip
FACTS = {
    "pack": lambda a, b: falcon.pack(b).shape == (50, 60),
    "plan": lambda a, b: falcon.plan(a, b).problem == falcon.plan(A, B).problem,
    "verify": lambda a, b: bool(falcon.verify(a, b, A @ B)),
}
ELSEWHERE = {
    *("accelerate", "config", "grade", "machine", "profile", "release_workspace"),
    *("set_config", "show_config", "tune"),
    *("quantize", "scaled_matmul"),  # of types that few libraries have: tests/front/test_scaled.py
}


@pytest.fixture(params=["tensors", "exchanged", "bare", "held"])
def foreign(request, monkeypatch):
    """What makes an array of another library, the type of results, and NumPy's array of one."""
    if request.param == "exchanged":
        return Exchanged, Exchanged, lambda x: x.values
    if request.param == "bare":
        return Bare, np.ndarray, lambda x: getattr(x, "values", x)
    if request.param == "held":
        monkeypatch.setattr(host, "LIBRARIES", (HeldArrays(), *host.LIBRARIES))
        return Held, Held, lambda x: x.values
    torch = pytest.importorskip("torch", reason="torch is not installed")
    return torch.from_numpy, torch.Tensor, lambda x: x.numpy()


def writes(kind):
    """Whether `out` may be such an array: before NumPy 2.1, its views by DLPack are read-only."""
    return kind not in (Exchanged, np.ndarray) or np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def test_results_are_arrays_of_the_callers_library(foreign):
    """Of every public function; also of calls that are recalled, and with one such operand."""
    functions = {x for x in falcon.__all__ if callable(getattr(falcon, x)) and x[0].islower()}
    assert functions == {*RESULTS, *FACTS, *ELSEWHERE}
    make, kind, back = foreign
    a, b = make(A.copy()), make(B.copy())
    for name, call in RESULTS.items():
        expected = A.T @ A if name == "gram" else A @ B
        for x, y in ((a, b), (a, b), (a, B), *([(A, b)] if name != "gram" else [])):
            product = call(x, y)
            assert isinstance(product, kind), name
            np.testing.assert_allclose(back(product), expected, atol=1e-12)
    for name, call in WITH_OUT.items():
        expected = A @ A.T if name == "gram" else A @ B
        for _ in range(2):
            out = make(np.zeros(expected.shape))
            if not writes(kind):
                with pytest.raises(ValueError, match="out is read-only"):
                    call(a, b, out=out)
                continue
            assert call(a, b, out=out) is out
            np.testing.assert_allclose(back(out), expected, atol=1e-12)
    for name, call in FACTS.items():
        assert call(a, b), name


def test_calls_on_views_are_recalled(foreign, doors):
    validated = doors.validated()
    make, kind, back = foreign
    a, b, out = make(A.copy()), make(B.copy()), make(np.empty((70, 60)))
    for call in (falcon.gemm, falcon.matmul):
        for into in ({}, {"out": out}) if writes(kind) else ({},):
            given = {"scheme": "strassen", **into}
            call(a, b, **given)
            validated.clear()
            np.testing.assert_allclose(back(call(a, b, **given)), A @ B, atol=1e-12)
            assert not validated


def test_a_library_that_truncates():
    """What it would truncate stays an array of NumPy; strides do not matter."""
    a, b = np.arange(-6, 6, dtype="i4").reshape(3, 4) << 24, np.full((4, 3), 1000, "i4")
    x, y = Truncating(a), Truncating(b)
    wide, short = a.astype("i8") @ b, a @ b
    calls = (
        lambda x, y, **how: falcon.matmul(x, y, **how),
        lambda x, y, **how: falcon.gemm(x, y, **how),
        lambda x, y, **how: falcon.einsum("ij,jk->ik", x, y, **how),
    )
    for call in calls * 2:
        for found in (call(x, y, dtype="int64"), call(x, b.astype("i8")), call(a.astype("i8"), y)):
            assert type(found) is np.ndarray
            np.testing.assert_array_equal(found, wide)
        assert type(call(x, y)) is Truncating
        np.testing.assert_array_equal(call(x, y).values, short)
    found = falcon.matmul(*(Truncating(z.astype("f4")) for z in (a, b)), dtype="float64")
    np.testing.assert_array_equal(found, wide)
    strided = falcon.einsum("ij,jk->ki", x, y)
    assert type(strided) is Truncating
    np.testing.assert_array_equal(strided.values, short.T)


def test_other_forms_of_operands_and_results(foreign):
    """Of bool, by columns, vectors, scalars, batches, packed, empty."""
    make, kind, back = foreign
    found = back(falcon.matmul(make(A > 0), make(B > 0)))
    np.testing.assert_array_equal(found, (A > 0) @ (B > 0))
    by_columns = np.asfortranarray(A)
    assert falcon.plan(make(by_columns), B).problem == falcon.plan(by_columns, B).problem
    assert back(falcon.matmul(make(A[0]), B[:, 0])) == pytest.approx(A[0] @ B[:, 0])
    for x in (A[0], A[None], A[:0]):
        np.testing.assert_allclose(back(falcon.matmul(make(x), make(B))), x @ B, atol=1e-12)
    assert type(falcon.gemm(A, falcon.pack(make(B)))) is np.ndarray
    assert type(falcon.gemm(make(A), falcon.pack(B))) is kind


def test_what_a_library_does_not_take_stays_an_array_of_numpy():
    a, b = Bare(A), Bare(B)
    np.testing.assert_allclose(falcon.plan(a, b)(a, b), A @ B, atol=1e-12)
    assert type(falcon.matmul(OneWay(A), B)) is np.ndarray
    assert falcon.matmul(Exchanged(A), B.astype(object)).dtype == object
    with pytest.raises(TypeError, match="a has dtype object"):
        falcon.gemm(Held(A), B)  # without HeldArrays
    frozen = A @ B
    frozen.flags.writeable = False
    with pytest.raises((TypeError, ValueError, BufferError), match=r"read-?only|expected a NumPy"):
        falcon.gemm(A, B, out=Exchanged(frozen))


# --- torch ----------------------------------------------------------------------------------


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


def close(product, expected, torch):
    assert type(product) is torch.Tensor
    assert product.device.type == "cpu"
    torch.testing.assert_close(product, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kinds", [("int8", "uint8"), ("uint8", "int8")])
def test_tensors_of_two_types(torch, kinds):
    a, b = ((99 * x).astype("int8").astype(kind) for x, kind in zip((A, B), kinds, strict=True))
    out = torch.empty((70, 60), dtype=torch.int32)
    for dtype in (torch.int32, "int32"):
        found = falcon.gemm(torch.from_numpy(a), torch.from_numpy(b), out=out, dtype=dtype)
        np.testing.assert_array_equal(found.numpy(), a.astype("int32") @ b.astype("int32"))


def test_weights_that_require_grad_where_gradients_are_off(torch):
    weight = torch.from_numpy(B.T.copy()).requires_grad_()
    a = torch.from_numpy(A)
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            found = falcon.matmul(a, weight.T)
            assert not found.requires_grad
            close(found, a @ weight.T, torch)
    with pytest.raises(TypeError, match="requires grad"):
        falcon.matmul(a, weight.T)


@pytest.mark.parametrize("product", [falcon.gemm, falcon.matmul], ids=["gemm", "matmul"])
def test_an_out_counts_as_changed(product, torch):
    """Else autograd would take it for what it was, and falcon.torch the panels of a weight."""
    a, out = torch.ones(4, 4), torch.ones(4, 4)
    for count in (1, 2):  # the second call repeats the first one's
        product(a, a, out=out)
        assert out._version == count
    with torch.inference_mode():
        close(product(a, a, out=torch.empty(4, 4)), a @ a, torch)


@pytest.mark.filterwarnings("ignore:.*torch.jit")  # in torch's own code
def test_tensors_that_cannot_be_viewed(torch):
    a, b = torch.ones(4, 4), torch.ones(4, 4)
    for x, message in (
        (a.to_sparse(), r"a is a sparse_coo tensor of .*a.to_dense\(\)"),
        (a.clone().requires_grad_(), r"requires grad: use falcon.torch.linear .* a.detach\(\)"),
        (a.to("meta"), "a is a tensor on meta"),
    ):
        for call in FUNCTIONS:
            with pytest.raises(TypeError, match=message):
                call(x, b)
    for wrong in (torch.ones(3, 4), torch.ones(4, 4, dtype=torch.int32)):
        with pytest.raises((TypeError, ValueError), match="out has"):
            falcon.gemm(a, b, out=wrong)
    close(falcon.matmul(a > 0, b > 0), torch.ones(4, 4, dtype=torch.bool), torch)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(a, b)
        with pytest.raises(TypeError, match=r"b is a tensor with a tangent: use falcon\.torch"):
            falcon.gemm(a, dual)
    with pytest.raises(TypeError, match=r"without memory of its own.*: use falcon\.torch"):
        torch.vmap(falcon.gemm)(torch.ones(2, 4, 4), torch.ones(2, 4, 4))
    half = a.bfloat16()
    negative = torch._neg_view(half)
    assert torch.equal(falcon.gemm(negative, half), -(half @ half))
    conjugate = torch.eye(4, dtype=torch.complex64).mul(1j).conj()
    close(falcon.gemm(conjugate, conjugate), -torch.eye(4, dtype=torch.complex64), torch)
    for call in (falcon.gemm, falcon.matmul):
        with pytest.raises(TypeError, match="out is a lazily conjugated or negated tensor"):
            call(conjugate, conjugate, out=torch.zeros(4, 4, dtype=torch.complex64).conj())


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
