"""Operands for the tests of falcon.torch."""

import pytest

torch = pytest.importorskip("torch")

DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def integers(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randint(-2, 3, shape, generator=generator).to(dtype)
