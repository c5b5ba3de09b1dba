"""Which products on a GPU are torch's own: it adds a bias without a pass of its own."""

from __future__ import annotations

import torch
from torch import Tensor

import falcon
from falcon._front.calls import Calls, keep, look_up
from falcon._front.planner import is_kept

_known: Calls = {}  # whether the plans of products are


def is_stock(a: Tensor, b: Tensor) -> bool:
    """Whether the plan of a product is classical, in the arithmetic of torch's own product."""
    if a.dtype is torch.float32 and torch.get_float32_matmul_precision() != "highest":
        return False
    key = a.dtype, a.device, a.shape, a.stride(), b.shape, b.stride()
    known = look_up(_known, key)
    if known is not None:
        return bool(known.run())
    plan = falcon.plan(a, b)
    found = plan.scheme is None and plan.method.operand is None
    if is_kept(plan):
        keep(_known, key, lambda: found)
    return found
