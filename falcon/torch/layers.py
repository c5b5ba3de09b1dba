"""`FalconLinear`: an nn.Linear that multiplies with falcon."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .packed import How, Panels, linear


class FalconLinear(nn.Linear):
    """An nn.Linear that multiplies with falcon; `convert_` makes it of one, `revert_` undoes it.

    Its parameters are those of the nn.Linear, and so is its state_dict. Where no gradient is
    recorded, it multiplies by panels of the weight, which are made by the first product, and again
    when the weight changes. Copies, pickles and ``to()`` leave the panels behind. With gradients it
    is `falcon.torch.linear`; few rows, and all that falcon does not multiply, are torch's own
    product.

    Examples
    --------
    >>> import torch, falcon
    >>> layer = torch.nn.Linear(300, 400)
    >>> _ = falcon.torch.convert_(layer, falcon.torch.LinearConfig(measure=False))
    >>> isinstance(layer, falcon.torch.FalconLinear), layer(torch.ones(256, 300)).shape
    (True, torch.Size([256, 400]))
    """

    if TYPE_CHECKING:  # TorchScript reads annotations
        _panels: Panels
        _handle: Tensor

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("falcon.torch.convert_(layer) makes a FalconLinear of an nn.Linear")

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input @ weight.T + bias``."""
        if torch.jit.is_scripting():
            return functional.linear(input, self.weight, self.bias)
        else:  # TorchScript does not compile it
            fewest = self._panels.how.min_m * self.in_features
            return linear(input, self.weight, self.bias, self._handle, fewest)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; raises TypeError where torch.ao.quantization would pass it over."""
        if name == "qconfig":
            raise TypeError(
                "torch.ao.quantization leaves a FalconLinear unquantized: quantize the model "
                "first, or call falcon.torch.revert_(model)"
            )
        super().__setattr__(name, value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy or a pickle, with panels of its own."""
        super().__setstate__(state)
        attach(self, self._panels.how)

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> FalconLinear:
        """Drop the panels: another device or dtype, or memory that is shared, needs others."""
        self._panels.drop()
        made = super()._apply(fn, recurse)
        self._handle = self._panels.handle(self)
        return made


def attach(layer: nn.Linear, how: How) -> FalconLinear:
    """Make an nn.Linear a `FalconLinear` in place, or give one new panels."""
    layer.__class__ = FalconLinear
    assert isinstance(layer, FalconLinear)  # for type checkers
    layer._panels = Panels(how)
    layer._handle = layer._panels.handle(layer)
    return layer


def detach(layer: FalconLinear) -> None:
    """Make it an nn.Linear again."""
    del layer._panels, layer._handle
    kind = type(layer)
    # torch.nn.utils.parametrize gives a layer a class of its own, which derives from this one.
    layer.__class__ = (
        nn.Linear
        if kind is FalconLinear
        else type(kind.__name__.replace("Falcon", ""), (nn.Linear,), dict(vars(kind)))
    )
