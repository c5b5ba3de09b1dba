"""Operands, layers and configurations for the tests of falcon.torch."""

import pytest

import falcon

torch = pytest.importorskip("torch")

DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def integers(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randint(-2, 3, shape, generator=generator).to(dtype)


def layer(inputs=48, outputs=32, dtype=torch.float64, bias=True):
    made = torch.nn.Linear(inputs, outputs, bias=bias, dtype=dtype)
    with torch.no_grad():
        for x in made.parameters():
            x.copy_(integers(*x.shape))
    return made


def exact(x, made):
    """The layer's result by float64, which is exact for these integers."""
    bias = None if made.bias is None else made.bias.double()
    return torch.nn.functional.linear(x.double(), made.weight.double(), bias)


def check_gradients(made, dtype=torch.float64):
    """Those of a layer and its input, which are exact, too."""
    x, grad = integers(9, 48, dtype=dtype).requires_grad_(), integers(9, 32, dtype=dtype)
    made(x).backward(grad)
    assert torch.equal(x.grad, grad @ made.weight)
    assert torch.equal(made.weight.grad, grad.t() @ x)
    assert torch.equal(made.bias.grad, grad.sum(0))


def config(**options):
    return falcon.torch.LinearConfig(**{"measure": False, "min_m": 4, "rows": 40, **options})
