"""Tensors as operands: which falcon takes, what else would see a call, types and shapes."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.overrides import has_torch_function
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from falcon._front.surface import TABLE, DType


def _missing(row: DType) -> str:
    """Return which package a type needs that is not installed; "" if there is none."""
    try:
        row.numpy  # noqa: B018
    except TypeError as error:
        return str(error)
    return ""


# The real floating-point types that torch has too, and what each needs that is missing.
_FLOATS = (x for x in TABLE if x.unit_roundoff and not x.is_complex and hasattr(torch, x.name))
DTYPES = {getattr(torch, row.name): _missing(row) for row in _FLOATS}


def _keys(x: Tensor) -> int:
    """Return torch's kernels that a call with this operand goes through, as bits."""
    keys: int = torch._C._dispatch_keys(x).raw_repr()
    return keys


@cache
def _plain_keys() -> set[int]:
    """Return those of operands that nothing but torch's CPU kernels takes."""
    found = set()
    for mode in (True, False):
        with torch.inference_mode(mode):
            found.add(_keys(torch.empty(0)))
    return found


_PLAIN = (Tensor, torch.nn.Parameter)


def is_symbolic(*operands: Any) -> bool:
    """Whether one of them is no tensor, but records what is called, as those of torch.fx do."""
    return has_torch_function(operands) and any(not isinstance(x, Tensor | None) for x in operands)


def is_foreign(*operands: Any) -> bool:
    """Whether one of them is of a kind that only torch, or its own class, multiplies.

    While TorchScript is traced for ONNX, which does not know falcon, all are.
    """
    for x in operands:
        if x is not None and (
            not isinstance(x, Tensor)  # torch's error says so
            or not (x.is_cpu or x.is_cuda)
            or x.layout is not torch.strided
            or x.is_nested
            or is_traceable_wrapper_subclass(x)
        ):
            return True
    return torch.jit.is_tracing() and torch.onnx.is_in_onnx_export()


def is_traced() -> bool:
    """Whether a program is being recorded, so that sizes may be others when it runs."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def is_seen(*operands: Tensor | None) -> bool:
    """Whether a mode, a transform, a subclass or the profiler is to see the call of an operator."""
    for x in operands:
        if x is not None and (type(x) not in _PLAIN or _keys(x) not in _plain_keys()):
            return True
    return (
        torch._C._len_torch_dispatch_stack() > 0
        or torch._C._is_torch_function_mode_enabled()
        or torch._C._are_functorch_transforms_active()
        or torch.autograd._profiler_enabled()
        or forward_ad._current_level >= 0
    )


def cast(x: Tensor, w: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return operands as autocast wants them: integers and float64 as they are."""
    kind = x.device.type
    if not torch.is_autocast_enabled(kind):
        return x, w, bias
    dtype = torch.get_autocast_dtype(kind)

    def cast_one(y: Tensor) -> Tensor:
        return y.to(dtype) if y.is_floating_point() and y.dtype is not torch.float64 else y

    return cast_one(x), cast_one(w), None if bias is None else cast_one(bias)


def check_tensors(**operands: Any) -> None:
    """Raise TypeError for what is no tensor."""
    for name, y in operands.items():
        if not isinstance(y, Tensor):
            raise TypeError(f"{name} is a {type(y).__name__}; expected a tensor")


def _check_types(operands: dict[str, Tensor | None]) -> None:
    first, x = next((k, v) for k, v in operands.items() if v is not None)
    if DTYPES.get(x.dtype):
        raise TypeError(f"{first} is of {x.dtype}: {DTYPES[x.dtype]}")
    if x.dtype not in DTYPES:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise TypeError(f"{first} has dtype {x.dtype}; expected one of {known}")
    for name, y in operands.items():
        if y is not None and (y.dtype is not x.dtype or y.device != x.device):
            raise TypeError(
                f"{first} is of {x.dtype} on {x.device} and {name} of {y.dtype} on {y.device}; "
                "expected one dtype and one device"
            )


def check_linear(x: Tensor, w: Tensor, bias: Tensor | None) -> None:
    """Raise TypeError or ValueError if types, devices or shapes do not match."""
    _check_types({"x": x, "w": w, "bias": bias})
    if torch.jit.is_tracing():  # comparing sizes would warn; the kernel checks them
        return
    if w.ndim != 2 or x.ndim == 0 or x.shape[-1] != w.shape[1]:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and w {tuple(w.shape)}; expected (..., K) and (N, K)"
        )
    if bias is not None and bias.shape not in ((1,), w.shape[:1]):
        raise ValueError(f"bias has shape {tuple(bias.shape)}; expected ({w.shape[0]},)")


def check_matmul(a: Tensor, b: Tensor) -> tuple[int, ...]:
    """Return the shape of the batch."""
    _check_types({"a": a, "b": b})
    if torch.jit.is_tracing():
        return ()
    if min(a.ndim, b.ndim) < 2 or a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"a has shape {tuple(a.shape)} and b {tuple(b.shape)}; expected (..., M, K) and "
            "(..., K, N)"
        )
    if a.shape[:-2] == b.shape[:-2]:
        return a.shape[:-2]
    try:
        return tuple(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    except RuntimeError as error:
        raise ValueError(
            f"a has shape {tuple(a.shape)} and b {tuple(b.shape)}: their batches do not broadcast"
        ) from error
