"""Panels of a layer's weight, and the operator that multiplies by them.

The operator takes x, the weight and bias as they are, and a number: where the layer keeps its
panels, as the last size of an empty tensor on the device of the weight. So a trace holds tensors
only, of one device (of two, Inductor makes no CUDA graph), and panels that do not belong to the
weight, as it is now, are made again, whatever the number says.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.overrides import handle_torch_function

import falcon
from falcon._front.surface import make_packed

from . import ops
from .operands import cast, check_linear, is_foreign, is_symbolic, is_traced
from .stock import has_backend

_kept: WeakValueDictionary[int, Panels] = WeakValueDictionary()
_numbers = count(2)  # programs are compiled anew for sizes of 0 and 1
# What was packed by the state of the weight and how: tied weights share it.
_packed: WeakValueDictionary[tuple, _Made] = WeakValueDictionary()
# Entries of a weight that each product compares; the integers of their size.
_SAMPLES = 32
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_watched: set[type] = set()  # classes of PEFT


@dataclass(frozen=True, slots=True)
class How:
    """How a layer multiplies without recording gradients."""

    options: tuple[tuple[str, Any], ...]  # options of falcon's product
    rows: int  # rows of x for which a scheme is chosen
    min_m: int  # fewer rows are left to torch
    packs: bool = True  # the weight is packed; else it is read as it is


class _Made:
    """A packed weight, and in host memory a sample of the entries that it was packed from."""

    def __init__(self, w: Tensor, operand: falcon.PackedOperand) -> None:
        self.operand = operand
        self._read: Callable[[], np.ndarray] = lambda: np.empty(0)
        if w.is_cpu and w.numel():
            held = w.detach().view(_INTEGERS[w.element_size()]).numpy()
            at = np.random.default_rng(0).integers(0, held.shape, (_SAMPLES, 2)) @ w.stride()
            flat = np.lib.stride_tricks.as_strided(held, (at.max() + 1,), (held.itemsize,))
            self._read = lambda: flat.take(at)
        self._sample = self._read().tobytes()

    def is_current(self) -> bool:
        """Whether the weight still has these entries: not all writing to it raises a counter."""
        return self._read().tobytes() == self._sample


class Panels:
    """The panels of one layer's weight: made by the first product, and again once it changed.

    A copy or a pickle holds `how` alone.
    """

    def __init__(self, how: How) -> None:
        self.how = how
        self.number = next(_numbers)
        self._made: _Made | None = None
        _kept[self.number] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return Panels, (self.how,)

    def handle(self, layer: torch.nn.Module) -> Tensor:
        """Return the tensor by which the operator finds the panels of a layer."""
        where = next(layer.parameters()).device
        return torch.empty((0, self.number), dtype=torch.uint8, device=where)

    def drop(self) -> None:
        """Free the panels, unless another layer uses them."""
        self._made = None

    def of(self, w: Tensor) -> falcon.PackedOperand:
        """Return the packed weight.

        Raises ValueError: changes of the weight could not be noticed, or it is to be packed while
        a graph is captured, whose replays would do so.
        """
        if w.is_inference():
            self._made = None
            raise ValueError("the weight is of inference_mode, where changes cannot be noticed")
        if not _watched and "peft" in sys.modules:
            _watch_peft()
        state = state_of(w, self.how)
        made = _packed.get(state)
        if made is None or not made.is_current():
            if w.is_cuda and torch.cuda.is_current_stream_capturing():
                raise ValueError("the weight is not packed, and a CUDA graph is captured")
            self._made = made = None  # freed before others are made
            options = {**dict(self.how.options), "threads": torch.get_num_threads()}
            made = _Made(w, make_packed(w.detach().mT, options, self.how.rows, always=True))
            _packed[state] = made
        self._made = made
        return made.operand

    @property
    def nbytes(self) -> int:
        """Bytes of the panels as they are now."""
        return 0 if self._made is None else self._made.operand.nbytes


def state_of(w: Tensor, how: How) -> tuple:
    """Return what changes when the weight does, or another one takes its place.

    A packed operand keeps the memory of its weight: no other one can have the same address.
    """
    address, about = w.untyped_storage().data_ptr(), (w.dtype, w.device, w.shape, w.stride())
    return address, w.storage_offset(), w._version, *about, how.options, how.rows


def _forget_stepped(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Forget the panels of weights that an optimizer has changed: fused ones raise no counter."""
    if _packed:
        params = (x for group in optimizer.param_groups for x in group["params"])
        forget(x for x in params if x.grad is not None)


def forget(weights: Iterable[Tensor]) -> None:
    """Let products by these weights, or by others in their memory, make panels again."""
    changed = {x.untyped_storage().data_ptr() for x in weights if not is_foreign(x)}
    for entry in _packed.valuerefs():  # a list: other threads may pack meanwhile
        if entry.key[0] in changed:
            _packed.pop(entry.key, None)


register_optimizer_step_post_hook(torch.compiler.disable(_forget_stepped))


def _watch_peft() -> None:
    """Let PEFT's layers forget panels when they merge adapters: they write to ``weight.data``."""
    base = getattr(sys.modules.get("peft.tuners.tuners_utils"), "BaseTunerLayer", None)
    if base is None:
        return
    _packed.clear()  # some may have merged before
    left = [base]
    while left:
        kind = left.pop()
        left += [x for x in kind.__subclasses__() if x not in _watched]
        _watched.add(kind)
        for name in {"merge", "unmerge"} & vars(kind).keys():
            setattr(kind, name, _forgetting(vars(kind)[name]))


def _forgetting(merge: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(merge)
    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return merge(layer, *args, **kwargs)
        finally:
            forget(layer.get_base_layer().parameters())

    return call


def linear(x: Tensor, w: Tensor, bias: Tensor | None, handle: Tensor, fewest: int) -> Tensor:
    """Return ``x @ w.T + bias``, by torch's linear if x has fewer elements or falcon refuses them.

    So it raises only what torch's raises.
    """
    operands = x, w, bias
    if is_symbolic(*operands):
        return handle_torch_function(linear, operands, *operands, handle, fewest)
    few = not is_traced() and (not isinstance(x, Tensor) or x.numel() < fewest)
    if few or is_foreign(*operands) or (w.is_cuda and not has_backend()):
        return functional.linear(*operands)
    x, w, bias = cast(*operands)
    try:
        check_linear(x, w, bias)
    except (TypeError, ValueError):
        return functional.linear(*operands)
    if w.dtype is not operands[1].dtype:  # by autocast, now and for this call only
        return torch.ops.falcon.linear(x, w, bias)
    return torch.ops.falcon.linear_packed(x, w, bias, handle)


def linear_packed(x: Tensor, w: Tensor, bias: Tensor | None, handle: Tensor) -> Tensor:
    """Return ``x @ w.T + bias``, by panels of w where there are enough rows."""
    check_linear(x, w, bias)
    panels = _kept.get(handle.shape[-1])
    if panels is None:  # the number of another process
        return ops.linear_now(x, w, bias)
    how = panels.how
    if x.numel() < how.min_m * w.shape[1] or w.numel() == 0:
        return functional.linear(x, w, bias).contiguous()
    try:
        packed: Any = panels.of(w) if how.packs else None
    except (TypeError, ValueError, MemoryError):  # the weight was another one at conversion
        return functional.linear(x, w, bias).contiguous()
    if w.is_cuda:
        return _on_gpu(x, w, bias, packed, how)
    if packed is None:
        return ops.multiply(x, w.mT, w.shape[0], bias, **dict(how.options))
    return ops.multiply(x, packed, w.shape[0], bias)


def _on_gpu(x: Tensor, w: Tensor, bias: Tensor | None, packed: Any, how: How) -> Tensor:
    """Return the product on a GPU: torch's where packing gains nothing, or memory is short."""
    is_library = packed is not None and packed.scheme is None and packed.arithmetic == "native"
    if not is_library:
        factor, options = (w.mT, dict(how.options)) if packed is None else (packed, {})
        with suppress(MemoryError):
            return ops.multiply(x, factor, w.shape[0], bias, **options)
    return functional.linear(x, w, bias).contiguous()


ops.library.define("linear_packed(Tensor x, Tensor w, Tensor? bias, Tensor handle) -> Tensor")
for _key in ("CPU", "CUDA"):
    ops.library.impl("linear_packed", linear_packed, _key)


def _vmap(
    info: Any, axes: tuple, x: Tensor, w: Tensor, bias: Tensor | None, handle: Tensor
) -> tuple[Tensor, int]:
    if axes[1] is None and axes[2] is None:
        return torch.ops.falcon.linear_packed(x.movedim(axes[0], 0), w, bias, handle), 0
    return ops.vmap_linear(info, axes[:3], x, w, bias)


torch.library.register_fake(
    "falcon::linear_packed", lambda x, w, bias, _: ops.fake_linear(x, w, bias), lib=ops.library
)
torch.library.register_vmap("falcon::linear_packed", _vmap, lib=ops.library)
ops.differentiate(
    "linear_packed",
    lambda x, w, bias, _: functional.linear(x, w, bias),
    lambda x, w, bias, _: torch.ops.falcon.linear(x, w, bias),
)
