"""`falcon.torch.linear` and `matmul`: torch's results, gradients, tracing, autocast, vmap."""

import itertools

import pytest

import falcon

from .support import DTYPES, integers

torch = pytest.importorskip("torch")
functional, func = torch.nn.functional, torch.func


def layouts(*shape, dtype):
    """One matrix of integers in several strides."""
    x = integers(*shape, dtype=dtype)
    yield x
    yield x.t().contiguous().t()
    yield torch.cat([x, x], 1)[:, : shape[1]]
    yield x.repeat_interleave(2, 0)[::2]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_exact_on_integers_in_any_strides(dtype, products):
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
    assert len(products) == count


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


def test_small_products_are_torchs(monkeypatch, products):
    monkeypatch.undo()
    x, w = torch.rand(8, 512), torch.rand(8192, 512)
    assert torch.equal(falcon.torch.linear(x, w), functional.linear(x, w))
    assert torch.equal(torch.ops.falcon.linear(x, w, None), functional.linear(x, w))
    assert not products


def test_inputs_are_checked():
    x, w = torch.ones(3, 4), torch.ones(5, 4)
    for error, message, operands in (
        (ValueError, "x has shape", (x, torch.ones(5, 3))),
        (ValueError, r"bias has shape \(4,\); expected \(5,\)", (x, w, torch.ones(4))),
        (TypeError, r"w of torch\.float64", (x, w.double())),
        (TypeError, r"dtype torch\.int64", (x.long(), w.long())),
    ):
        with pytest.raises(error, match=message):
            falcon.torch.linear(*operands)
    with pytest.raises(ValueError, match="do not broadcast"):
        falcon.torch.matmul(torch.ones(2, 3, 4), torch.ones(3, 4, 5))
    with pytest.raises(TypeError, match=r"a is of torch\.float32 on cpu and b of torch\.float64"):
        falcon.torch.matmul(torch.ones(30, 40), torch.ones(40, 50, dtype=torch.float64))
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


@pytest.mark.parametrize("bias", [(1,), (1, 6), (), (4, 6), (4, 1)])
def test_biases_of_other_shapes(bias):
    x, w, bias = integers(4, 8), integers(6, 8), integers(*bias).requires_grad_()
    made, expected = (f(x, w, bias) for f in (falcon.torch.linear, functional.linear))
    assert torch.equal(made, expected)
    assert torch.equal(*(torch.autograd.grad(y.sum(), bias)[0] for y in (made, expected)))
    assert torch.equal(falcon.torch.linear(x, w[0]), functional.linear(x, w[0]))


FOREIGN = {
    **{x: getattr(torch.Tensor, x) for x in ("to_sparse", "to_sparse_csr", "to_mkldnn")},
    "nested": lambda x: torch.nested.nested_tensor([x]),
    "jagged": lambda x: torch.nested.nested_tensor([x], layout=torch.jagged),
    "meta": lambda x: x.to("meta"),
}


@pytest.mark.filterwarnings("ignore:.*(beta state|prototype stage)")
@pytest.mark.parametrize("kind", FOREIGN)
def test_operands_that_only_torch_multiplies(kind):
    layer = torch.nn.Linear(8, 6)
    falcon.torch.convert_(layer, falcon.torch.LinearConfig(measure=False, min_m=2, rows=9))
    x = FOREIGN[kind](integers(4, 8, dtype=torch.float32))
    w, bias = layer.to(x.device).weight, layer.bias
    made = falcon.torch.linear(x, w.detach()), falcon.torch.linear(x, w, bias), layer(x)
    right = functional.linear(x, w), *[functional.linear(x, w, bias)] * 2
    for mine, other in zip(made, right, strict=True):
        assert (mine.layout, mine.device) == (other.layout, other.device)
        dense = (y.unbind()[0] if y.is_nested else y.to_dense() for y in (mine, other))
        torch.testing.assert_close(*dense)


CASES = {
    "linear": (falcon.torch.linear, functional.linear, ((3, 5), (4, 5), (4,))),
    "matrix": (falcon.torch.matmul, torch.matmul, ((2, 3, 5), (5, 4))),
    "batch": (falcon.torch.matmul, torch.matmul, ((2, 3, 5), (2, 5, 4))),
    "broadcast": (falcon.torch.matmul, torch.matmul, ((3, 5), (2, 5, 4))),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit")  # in torch's own code
@pytest.mark.parametrize("case", CASES)
def test_derivatives(case):
    ours, stock, shapes = CASES[case]
    x, *others = operands = [torch.rand(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    torch.autograd.gradcheck(ours, operands, check_forward_ad=True, check_batched_grad=True)
    torch.autograd.gradgradcheck(ours, operands, check_fwd_over_rev=True, check_rev_over_rev=True)
    plain, axes = tuple(x.detach() for x in operands), tuple(range(len(operands)))

    def found(function):
        def cubes(*x):
            return (function(*x) ** 3).sum()

        def tangent(x):
            return func.jvp(lambda x: function(x, *plain[1:]), (x,), (x,))

        for outer, inner in itertools.product((func.jacfwd, func.jacrev), repeat=2):
            yield outer(inner(cubes, axes), axes)(*plain)
        rows = torch.stack([plain[0], 2 * plain[0]])
        yield func.vmap(tangent)(rows), torch.compile(tangent, backend="aot_eager")(plain[0])
        yield func.vmap(func.grad(lambda x: cubes(x, *plain[1:])))(rows)
        inner = func.grad(lambda x: cubes(x, *others))(x.detach())  # through functorch's gradient
        yield torch.autograd.grad(inner.square().sum(), others[0])

    torch.testing.assert_close([*found(ours)], [*found(stock)])


@pytest.mark.parametrize("dynamic", (False, True))
def test_compile(dynamic, products):
    @torch.compile(fullgraph=True, backend="aot_eager", dynamic=dynamic)
    def layer(x, w, bias):
        return falcon.torch.linear(torch.relu(x), w, bias) * 2

    for rows in (6, 9):
        x, w, bias = integers(rows, 16), integers(8, 16), integers(8)
        assert torch.equal(layer(x, w, bias), 2 * functional.linear(torch.relu(x), w, bias))
        operands = [v.requires_grad_() for v in (x, w, bias)]
        made, expected = layer(*operands), functional.linear(torch.relu(x), w, bias) * 2
        grads = (torch.autograd.grad(y.sum(), operands) for y in (made, expected))
        assert all(map(torch.equal, *grads))
    assert len(products) == 8


def test_autocast():
    x, w = integers(4, 8, dtype=torch.float32), integers(6, 8, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        made = falcon.torch.linear(x, w)
        assert made.dtype is functional.linear(x, w).dtype is torch.bfloat16
        assert falcon.torch.linear(x.double(), w.double()).dtype is torch.float64
        assert torch.compile(falcon.torch.linear, backend="eager")(x, w).dtype is torch.bfloat16
    assert torch.equal(made.float(), x @ w.t())


@pytest.mark.parametrize(
    ("name", "shapes", "axes"),
    [
        ("linear", ((3, 4, 8), (6, 8), (6,)), (0, None, None)),
        ("linear", ((4, 3, 8), (3, 6, 8), (3, 6)), (1, 0, 0)),
        ("linear", ((4, 8), (6, 8, 3), (6,)), (None, 2, None)),
        ("linear", ((4, 8), (6, 8), (6, 3)), (None, None, 1)),
        ("matmul", ((5, 3, 4, 8), (3, 8, 6)), (0, None)),
        ("matmul", ((5, 2, 4, 8), (2, 8, 6)), (1, 0)),
        ("matmul", ((5, 3, 4, 8), (2, 8, 6)), (None, 0)),
        ("matmul", ((2, 4, 8), (2, 5, 8, 6)), (0, 0)),
    ],
)
def test_vmap(name, shapes, axes):
    operands, stock = [integers(*x) for x in shapes], functional if name == "linear" else torch
    functions = (getattr(module, name) for module in (falcon.torch, stock))
    assert torch.equal(*(torch.vmap(f, in_dims=axes)(*operands) for f in functions))


def test_what_is_no_tensor_and_shapes_of_matmul():
    x = torch.ones(3, 4)
    for call, name in ((falcon.torch.linear, "w"), (falcon.torch.matmul, "b")):
        with pytest.raises(TypeError, match=f"{name} is a NoneType; expected a tensor"):
            call(x, None)
    with pytest.raises(
        ValueError, match=r"a has shape \(3, 4\) and b \(3, 4\); expected \(\.\.\., M, K\)"
    ):
        falcon.torch.matmul(x, x)
    with pytest.raises(TypeError, match="model is a NoneType"):
        falcon.torch.revert_(None)
    with pytest.raises(TypeError, match="min_gain is 'a'; expected a number"):
        falcon.torch.convert_(torch.nn.Linear(4, 4), example=x, min_gain="a")
