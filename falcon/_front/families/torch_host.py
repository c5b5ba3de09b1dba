"""torch tensors in host memory: multiplied as NumPy arrays that share their memory.

The public functions call themselves with these arrays (`through_arrays`), so that calls on tensors
are planned, and recalled, as those on arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from falcon._core.arrays import has_own_rules
from falcon._core.dtypes import DType, find, find_torch


def is_tensor(x: Any) -> bool:
    """Whether an operand is a tensor outside of a GPU; without torch imported, there are none."""
    tensor: Any = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and isinstance(x, tensor) and not x.is_cuda


def through_arrays(
    function: Callable[..., Any], operands: dict[str, Any], out: Any, **others: Any
) -> Any:
    """Call a function with arrays in place of tensors; return `out`, or the result as a tensor."""
    if is_tensor(out) and (out.is_conj() or out.is_neg()):  # a view would be of other memory
        raise TypeError("out is a lazily conjugated or negated tensor; expected a plain one")
    views = [viewed(name, x) for name, x in operands.items()]
    result = function(*views, out=viewed("out", out), **others)
    if out is not None or has_own_rules(result):
        return result if out is None else out
    return _tensor(np.asarray(result))


def viewed(name: str, x: Any) -> Any:
    """Return an array that shares a tensor's memory; all else as it is.

    Raises TypeError: there is no such array.
    """
    if not is_tensor(x):
        return x
    import torch  # it is imported already: x is a tensor

    if x.requires_grad:
        if torch.is_grad_enabled():
            raise TypeError(
                f"{name} is a tensor that requires grad: use falcon.torch.linear or .matmul, which "
                f"record gradients, or {name}.detach(), or torch.no_grad()"
            )
        x = x.detach()
    if x.device.type != "cpu":
        raise TypeError(f"{name} is a tensor on {x.device}; falcon multiplies on the CPU and CUDA")
    row = _row(x.dtype)
    kind = None if row is None or row.module == "numpy" else row.numpy
    try:
        if kind is not None:  # bfloat16, which torch converts as another type only
            return x.view(torch.int16).numpy().view(kind)
        return x.resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:
        layout = "nested" if x.is_nested else str(x.layout).removeprefix("torch.")
        raise TypeError(
            f"{name} is a {layout} tensor of {x.dtype}, which NumPy "
            f"cannot view; convert it first ({name}.float(), {name}.to_dense())"
        ) from error


@cache
def _row(dtype: Any) -> DType | None:
    return find_torch(str(dtype))


def _tensor(x: np.ndarray) -> Any:
    """View an array as a tensor."""
    import torch

    row = find(x.dtype)
    if row is None or row.module == "numpy":
        return torch.from_numpy(x)
    return torch.from_numpy(x.view(np.int16)).view(getattr(torch, row.name))
