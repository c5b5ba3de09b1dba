"""Arrays of other libraries in host memory, and torch's: results are theirs."""

import numpy as np
import pytest

import falcon
from falcon._front.adapters import host

RANDOM = np.random.default_rng(0)
A, B = RANDOM.standard_normal((70, 50)), RANDOM.standard_normal((50, 60))
FUNCTIONS = [falcon.gemm, falcon.matmul, falcon.plan]


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


@pytest.mark.parametrize("library", ["dlpack", "torch"])
def test_integers_that_overflow(library):
    made = Exchanged if library == "dlpack" else pytest.importorskip("torch").from_numpy
    a = np.full((3, 4), 100, np.int8)
    x, y = made(a), made(a.T.copy())
    with pytest.raises(OverflowError, match="is 40000, beyond int8"):
        falcon.matmul(x, y, overflow="raise")
    wide = falcon.matmul(x, y, overflow="widen")
    assert type(wide) is type(x)
    found = wide.values if library == "dlpack" else wide.numpy()  # NumPy 1 exports no read-only one
    assert found.dtype == np.int32
    assert (found == 40000).all()
    long = made(np.full((2, 2), 2**40))
    with pytest.raises(OverflowError, match="beyond int64"):  # it has no integers of Python
        falcon.matmul(long, long, overflow="widen")
