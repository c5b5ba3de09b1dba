"""Which products on a GPU are torch's own: it adds a bias without a pass of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

import falcon
from falcon._backends import device_backend
from falcon._core.plan import Plan
from falcon._front.calls import Calls, State, keep, look_up
from falcon._front.planner import is_kept

_known: Calls = {}  # of products


class _Known(NamedTuple):
    is_stock: bool
    state: State


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


def is_library(plan: Plan) -> bool:
    """Whether a plan is classical, in the arithmetic of the operands: a call of the library."""
    return plan.scheme is None and plan.method.compute_type is None


def is_stock(a: Tensor, b: Tensor, **options: Any) -> bool:
    """Whether the plan of a product is that of torch's own product."""
    if uses_tf32(a.dtype):
        return False
    key = a.dtype, a.device, a.shape, a.stride(), b.shape, b.stride(), *options.items()
    known = look_up(_known, key)
    if known is not None:
        return bool(known.is_stock)
    state = State.now()
    plan = falcon.plan(a, b, **options)
    found = is_library(plan)
    if is_kept(plan):
        keep(_known, key, _Known(found, state))
    return found
