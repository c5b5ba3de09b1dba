"""Which products on a GPU are torch's own: it adds a bias without a pass of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import falcon
from falcon._front.surface import about_plan, device_backend

_known: dict[Any, Any] = {}  # of products


@torch.compiler.assume_constant_result
def has_backend() -> bool:
    """Whether falcon can multiply on a GPU here."""
    try:
        return device_backend().why_unavailable() is None
    except RuntimeError:  # a graph is captured before the first product: torch's product can be
        return False


def uses_tf32(dtype: torch.dtype) -> bool:
    """Whether torch multiplies by TF32, which falcon does only by name."""
    if dtype is not torch.float32:
        return False
    matmul = torch.backends.cuda.matmul
    if hasattr(matmul, "fp32_precision"):  # once it is set, torch's older function raises
        return bool(matmul.fp32_precision == "tf32")
    return torch.get_float32_matmul_precision() != "highest"


def is_library(plan: falcon.Plan) -> bool:
    """Whether a plan is classical, in the arithmetic of the operands: a call of the library."""
    return plan.scheme is None and plan.method.compute_type is None


def is_stock(a: Tensor, b: Tensor, **options: Any) -> bool:
    """Whether the plan of a product is that of torch's own product."""
    if uses_tf32(a.dtype):
        return False
    key = a.dtype, a.device, a.shape, a.stride(), b.shape, b.stride(), *options.items()
    return bool(about_plan(_known, key, is_library, lambda: falcon.plan(a, b, **options)))
