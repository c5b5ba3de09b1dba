"""torch tensors in host memory: multiplied as NumPy arrays that share their memory, without copies.

Results are tensors.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from falcon._core.dtypes import find, find_torch
from falcon._core.options import Options

from .numpy import NumpyFamily


def is_tensor(x: Any) -> bool:
    """Whether an operand is a tensor; if torch is not imported, there are none."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, getattr(torch, "Tensor", ()))


class TorchHostFamily(NumpyFamily):
    """See the module's docstring; `falcon._front.families.Family` is the interface."""

    def array(self, name: str, x: Any) -> np.ndarray:
        """View a tensor as an array."""
        return super().array(name, _viewed(name, x) if is_tensor(x) else x)

    def target(self, out: Any) -> Any:
        """View `out` as an array."""
        if not is_tensor(out):
            return super().target(out)
        if out.is_conj() or out.is_neg():  # writing to a view would not reach the tensor
            raise TypeError("out is a lazily conjugated or negated tensor; expected a plain one")
        return _viewed("out", out)

    def result(self, x: Any) -> Any:
        """View an array as a tensor."""
        import torch

        row = find(x.dtype)
        if row is None or row.module == "numpy":
            return torch.from_numpy(x)
        return torch.from_numpy(x.view(np.int16)).view(getattr(torch, str(row.torch)))

    def scalar(self, x: Any) -> Any:
        """0-d results are tensors too."""
        return self.result(x)

    def left_alone(self, a: Any, b: Any, out: Any, dtype: Any, options: Options) -> Any:
        """Pass booleans and 0-d tensors to np.matmul."""
        left, right = (_viewed(name, x) if is_tensor(x) else x for name, x in (("a", a), ("b", b)))
        target = None if out is None else self.target(out)
        found = super().left_alone(left, right, target, dtype, options)
        if found is NotImplemented or out is not None:
            return found if found is NotImplemented else out
        return self.result(np.asarray(found))


TORCH = TorchHostFamily()


def _viewed(name: str, x: Any) -> np.ndarray:
    """Return an array that shares a tensor's memory; raise TypeError if that is impossible."""
    if x.requires_grad:
        import torch

        if torch.is_grad_enabled():
            raise TypeError(
                f"{name} is a tensor that requires grad, and falcon records no gradients: use "
                f"{name}.detach(), or torch.no_grad()"
            )
        x = x.detach()
    if x.device.type != "cpu":
        raise TypeError(f"{name} is a tensor on {x.device}; falcon multiplies on the CPU and CUDA")
    row = find_torch(str(x.dtype))
    try:
        if row is not None and row.module != "numpy":  # bfloat16, which torch cannot convert
            return _bits(x).numpy().view(row.numpy)
        array: np.ndarray = x.resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:
        raise TypeError(
            f"{name} is a {str(x.layout).removeprefix('torch.')} tensor of {x.dtype}, which NumPy "
            f"cannot view; convert it first ({name}.float(), {name}.to_dense())"
        ) from error
    return array


def _bits(x: Any) -> Any:
    """View a tensor with elements of two bytes as integers."""
    import torch

    return x.view(torch.int16)
