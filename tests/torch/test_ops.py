"""`falcon.torch.linear` and `matmul`: torch's results, gradients, tracing, autocast, vmap."""

import subprocess
import sys

import pytest

import falcon

torch = pytest.importorskip("torch")
ops = pytest.importorskip("falcon.torch.ops")

DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
functional = torch.nn.functional
# torch.compile instantiates an autograd.Function itself.
pytestmark = pytest.mark.filterwarnings("default:.*should not be instantiated")


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    """Products that are left to torch otherwise."""
    monkeypatch.setattr(ops, "LEAST_PRODUCT", 0)
    monkeypatch.setattr(ops, "LEAST_ROWS", 2)


def integers(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randint(-2, 3, shape, generator=generator).to(dtype)


def layouts(*shape, dtype):
    """One matrix of integers in several strides."""
    x = integers(*shape, dtype=dtype)
    yield x
    yield x.t().contiguous().t()
    yield torch.cat([x, x], 1)[:, : shape[1]]
    yield x.repeat_interleave(2, 0)[::2]


@pytest.fixture
def used(monkeypatch):
    """The products that falcon was asked for."""
    calls = []

    def watched(name):
        inner = getattr(falcon, name)

        def call(*operands, **options):
            calls.append(name)
            return inner(*operands, **options)

        monkeypatch.setattr(falcon, name, call)

    watched("gemm")
    watched("matmul")
    return calls


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_exact_on_integers_in_any_strides(dtype, used):
    bias = integers(48, dtype=dtype)
    count = 0
    for x in layouts(33, 64, dtype=dtype):
        for w in layouts(48, 64, dtype=dtype):
            expected = x.double() @ w.double().t() + bias.double()
            made = falcon.torch.linear(x, w, bias)
            assert made.dtype is dtype
            assert made.is_contiguous()
            assert torch.equal(made.double(), expected)
            assert torch.equal(falcon.torch.matmul(x, w.t()).double(), expected - bias.double())
            count += 2
    assert used == ["gemm"] * count


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5, 7), (7,)),
        ((7,), (7, 4)),
        ((7,), (7,)),
        ((2, 3, 5, 7), (7, 4)),
        ((2, 3, 5, 7), (3, 7, 4)),
        ((5, 7), (2, 7, 4)),
        ((2, 1, 5, 7), (3, 7, 4)),
        ((0, 7), (7, 4)),
        ((5, 0), (0, 4)),
    ],
)
def test_matmul_has_the_shapes_of_torch(left, right):
    a, b = integers(*left), integers(*right, seed=1)
    assert torch.equal(falcon.torch.matmul(a, b), torch.matmul(a, b))


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
def test_a_larger_product(dtype, used):
    x, w = integers(300, 257, dtype=dtype), integers(310, 257, dtype=dtype)
    assert torch.equal(falcon.torch.linear(x, w).double(), x.double() @ w.double().t())
    assert used == ["gemm"]


def test_small_products_are_torchs(monkeypatch, used):
    monkeypatch.undo()
    x, w = torch.rand(8, 512), torch.rand(8192, 512)
    assert torch.equal(falcon.torch.linear(x, w), functional.linear(x, w))
    assert torch.equal(torch.ops.falcon.linear(x, w, None), functional.linear(x, w))
    assert used == []


def test_inputs_are_checked():
    x, w = torch.ones(3, 4), torch.ones(5, 4)
    with pytest.raises(ValueError, match="x has shape"):
        falcon.torch.linear(x, torch.ones(5, 3))
    with pytest.raises(ValueError, match=r"bias has shape \(4,\); expected \(5,\)"):
        falcon.torch.linear(x, w, torch.ones(4))
    with pytest.raises(TypeError, match=r"w of torch\.float64"):
        falcon.torch.linear(x, w.double())
    with pytest.raises(TypeError, match=r"dtype torch\.int64"):
        falcon.torch.linear(x.long(), w.long())
    with pytest.raises(ValueError, match="do not broadcast"):
        falcon.torch.matmul(torch.ones(2, 3, 4), torch.ones(3, 4, 5))
    with pytest.raises(ValueError, match="b is a scalar"):
        falcon.torch.matmul(x, torch.tensor(1.0))


OPERANDS = [
    (integers(3, 4, 16), integers(8, 16), integers(8)),
    (integers(4, 3, 16).transpose(0, 1), integers(16, 8).t(), None),
    (integers(16, 6).t(), integers(8, 16), None),
]


@pytest.mark.parametrize("operands", OPERANDS)
def test_opcheck_linear(operands):
    torch.library.opcheck(torch.ops.falcon.linear.default, operands)


def test_opcheck_matmul():
    a, b = integers(5, 2, 4, 16), integers(2, 8, 16).mT
    torch.library.opcheck(torch.ops.falcon.matmul.default, (a, b))
    torch.library.opcheck(torch.ops.falcon.matmul.default, (a.transpose(0, 1), b[:1]))


def test_gradients():
    x = torch.rand(2, 3, 5, dtype=torch.float64, requires_grad=True)
    w = torch.rand(4, 5, dtype=torch.float64, requires_grad=True)
    bias = torch.rand(4, dtype=torch.float64, requires_grad=True)
    b = torch.rand(2, 5, 3, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(falcon.torch.linear, (x, w, bias))
    torch.autograd.gradgradcheck(falcon.torch.linear, (x, w, bias))
    torch.autograd.gradcheck(falcon.torch.matmul, (x, b))
    torch.autograd.gradcheck(falcon.torch.matmul, (x[:1], b))


def test_gradients_are_products_of_falcon(used):
    x = integers(32, 64).requires_grad_()
    w = integers(48, 64).requires_grad_()
    grad = integers(32, 48)
    falcon.torch.linear(x, w).backward(grad)
    assert torch.equal(x.grad, grad @ w)
    assert torch.equal(w.grad, grad.t() @ x)
    assert used == ["gemm"] * 3


@pytest.mark.parametrize("dynamic", (False, True))
def test_compile(dynamic, used):
    @torch.compile(fullgraph=True, backend="aot_eager", dynamic=dynamic)
    def layer(x, w, bias):
        return falcon.torch.linear(torch.relu(x), w, bias) * 2

    for rows in (6, 9):
        x, w, bias = integers(rows, 16), integers(8, 16), integers(8)
        assert torch.equal(layer(x, w, bias), 2 * functional.linear(torch.relu(x), w, bias))
        operands = [v.clone().requires_grad_() for v in (x, w, bias)]
        twins = [v.clone().requires_grad_() for v in (x, w, bias)]
        layer(*operands).sum().backward()
        (functional.linear(torch.relu(twins[0]), *twins[1:]) * 2).sum().backward()
        assert all(torch.equal(v.grad, t.grad) for v, t in zip(operands, twins, strict=True))
    assert used == ["gemm"] * 8


def test_autocast():
    x, w = integers(4, 8, dtype=torch.float32), integers(6, 8, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        made = falcon.torch.linear(x, w)
        assert made.dtype is functional.linear(x, w).dtype is torch.bfloat16
        assert falcon.torch.linear(x.double(), w.double()).dtype is torch.float64
        assert torch.compile(falcon.torch.linear, backend="eager")(x, w).dtype is torch.bfloat16
    assert torch.equal(made.float(), x @ w.t())


def test_inference_mode(used):
    with torch.inference_mode():
        x, w, bias = integers(4, 8), integers(6, 8), integers(6)
        assert torch.equal(falcon.torch.linear(x, w, bias), functional.linear(x, w, bias))
    assert used == ["gemm"]


@pytest.mark.parametrize("axes", [(0, None, None), (1, 0, 0), (None, 2, None), (None, None, 1)])
def test_vmap(axes):
    operands = [integers(4, 8), integers(6, 8), integers(6)]
    operands = [
        v if axis is None else torch.stack([v, 2 * v, v - 1], axis)
        for v, axis in zip(operands, axes, strict=True)
    ]
    expected = torch.vmap(functional.linear, in_dims=axes)(*operands)
    assert torch.equal(torch.vmap(falcon.torch.linear, in_dims=axes)(*operands), expected)
    operands = [v.requires_grad_() for v in operands]
    made = torch.vmap(falcon.torch.linear, in_dims=axes)(*operands)
    assert torch.equal(made, expected)


@pytest.mark.parametrize(
    ("left", "right", "axes"),
    [
        ((5, 3, 4, 8), (3, 8, 6), (0, None)),
        ((5, 2, 4, 8), (2, 8, 6), (1, 0)),
        ((5, 3, 4, 8), (2, 8, 6), (None, 0)),
        ((2, 4, 8), (2, 5, 8, 6), (0, 0)),
    ],
)
def test_vmap_of_matmul(left, right, axes):
    a, b = integers(*left), integers(*right)
    expected = torch.vmap(torch.matmul, in_dims=axes)(a, b)
    assert torch.equal(torch.vmap(falcon.torch.matmul, in_dims=axes)(a, b), expected)


def test_it_is_imported_when_it_is_asked_for():
    code = "import sys, falcon; assert 'torch' not in sys.modules; falcon.torch.linear"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_gradient_asked_of_matmul_points_here():
    x = torch.ones(3, 3, requires_grad=True)
    with pytest.raises(TypeError, match=r"falcon\.torch"):
        falcon.matmul(x, x)
