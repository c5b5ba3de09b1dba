"""`linear` and `matmul`, and the operators of torch that they call.

An operator is one node of traces, compiled and exported programs. Its derivatives belong to it, so
that these programs have them too: reverse ones are its own products, forward ones torch's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.nn import functional
from torch.overrides import handle_torch_function
from torch.utils.flop_counter import register_flop_formula

import falcon
from falcon._front.surface import does_batch_pay, settings

from .operands import (
    cast,
    check_linear,
    check_matmul,
    check_tensors,
    is_foreign,
    is_seen,
    is_symbolic,
    is_traced,
)
from .stock import is_stock
from .threads import usual_threads

# Left to torch: products of fewer multiplications, which falcon's Python code would delay, and of
# fewer rows, for which falcon would copy B (nn.Linear's weight is B by columns).
LEAST_PRODUCT = 256**3
LEAST_ROWS = 16
# Those of batches that falcon's engine takes; half floats are torch's.
BATCHED = {torch.float32: "float32", torch.float64: "float64"}


library = torch.library.Library("falcon", "DEF")
library.define("linear(Tensor x, Tensor w, Tensor? bias) -> Tensor")
library.define("matmul(Tensor a, Tensor b) -> Tensor")


def linear(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply as `torch.nn.functional.linear`: ``x @ w.T + bias``.

    Parameters
    ----------
    x : Tensor, shape (..., K)
        bfloat16, float16, float32 or float64, on the CPU or one GPU; any strides.
    w : Tensor, shape (N, K)
        Of x's dtype and device; any strides, never copied.
    bias : Tensor, shape (N,), optional
        With another shape that torch's linear takes, the product is torch's.

    Returns
    -------
    Tensor, shape (..., N)
        Contiguous. Gradients of all operands are products of falcon too.

    Raises
    ------
    ValueError, TypeError
        Shapes do not match; dtypes or devices differ, or falcon does not multiply them.

    Notes
    -----
    Small products, those of fewer than 16 rows, forward-mode derivatives, and operands that are
    sparse, nested, of another device or a subclass with tensors of its own are torch's. Under
    autocast, operands are cast as those of torch's linear. With `torch.compile` and `torch.export`
    it is one node of the graph.

    Examples
    --------
    >>> import torch, falcon.torch
    >>> falcon.torch.linear(torch.ones(5, 2, 3), torch.ones(4, 3), torch.ones(4)).shape
    torch.Size([5, 2, 4])
    """
    if is_symbolic(x, w, bias):
        return handle_torch_function(linear, (x, w, bias), x, w, bias)
    check_tensors(x=x, w=w)
    if is_foreign(x, w, bias) or w.ndim == 1 or (bias is not None and bias.ndim != 1):
        return functional.linear(x, w, bias)
    x, w, bias = cast(x, w, bias)
    check_linear(x, w, bias)
    if is_traced():
        return torch.ops.falcon.linear(x, w, bias)
    if _is_for_torch(x, w.shape[0]):
        return functional.linear(x, w, bias)
    return _called(torch.ops.falcon.linear, _linear_product, _Linear, x, w, bias)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Multiply as `torch.matmul`: vectors, matrices, broadcast batches.

    Parameters
    ----------
    a, b : Tensor
        At least 1-D, of one dtype (bfloat16, float16, float32 or float64) and device, any strides.

    Returns
    -------
    Tensor
        Contiguous. Gradients are products of falcon too.

    Raises
    ------
    ValueError, TypeError
        As `linear`.

    Examples
    --------
    >>> import torch, falcon.torch
    >>> falcon.torch.matmul(torch.ones(5, 2, 3), torch.ones(3)).shape
    torch.Size([5, 2])
    """
    if is_symbolic(a, b):
        return handle_torch_function(matmul, (a, b), a, b)
    check_tensors(a=a, b=b)
    if is_foreign(a, b):
        return torch.matmul(a, b)
    for name, x in (("a", a), ("b", b)):
        if x.ndim == 0:
            raise ValueError(f"{name} is a scalar; expected at least one axis")
    if b.ndim == 1:
        return matmul(a, b[:, None]).squeeze(-1)
    if a.ndim == 1:
        return matmul(a[None], b).squeeze(-2)
    if b.ndim == 2:
        if not is_traced() and a.shape[-1] != b.shape[0]:
            check_matmul(a, b)  # raises
        try:
            return linear(a, b.mT)
        except TypeError:
            check_matmul(*cast(a, b, None)[:2])  # raises with these names
            raise
    a, b, _ = cast(a, b, None)
    batch = check_matmul(a, b)
    if is_traced():
        return torch.ops.falcon.matmul(a, b)
    if _is_batch_for_torch(a, b, batch):
        return torch.matmul(a, b)
    return _called(torch.ops.falcon.matmul, _product, _Matmul, a, b)


def _called(
    op: Callable[..., Tensor],
    product: Callable[..., Tensor],
    function: type[torch.autograd.Function],
    *operands: Tensor | None,
) -> Tensor:
    """Call an operator; its product at once if nobody sees that: the dispatcher takes 40 us."""
    if is_seen(*operands):
        return op(*operands)
    if torch.is_grad_enabled() and torch._C._any_requires_grad(*operands):
        recorded: Tensor = function.apply(*operands)
        return recorded
    return product(*operands)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
        ctx.bias_shape = None if bias is None else bias.shape
        return _forward(torch.ops.falcon.linear, _linear_product, ctx, x, w, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, w), (grad,) = ctx.saved_tensors, grads
        for_x = for_w = for_bias = None
        rows = _matrix(grad)
        if ctx.needs_input_grad[0]:
            for_x = linear(grad, w.mT)
        if ctx.needs_input_grad[1]:
            for_w = linear(rows.mT, _matrix(x).mT)
        if ctx.needs_input_grad[2]:
            for_bias = rows.sum_to_size(ctx.bias_shape)
        return for_x, for_w, for_bias


class _Matmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        return _forward(torch.ops.falcon.matmul, _product, ctx, a, b)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (a, b), (grad,) = ctx.saved_tensors, grads
        for_a = for_b = None
        if ctx.needs_input_grad[0]:
            for_a = matmul(grad, b.mT).sum_to_size(a.shape)
        if ctx.needs_input_grad[1]:
            for_b = matmul(a.mT, grad).sum_to_size(b.shape)
        return for_a, for_b


def _forward(
    op: Callable[..., Tensor],
    product: Callable[..., Tensor],
    ctx: Any,
    *operands: Tensor | None,
) -> Tensor:
    """Keep the factors and call the next kernel; levels of functorch outside of this one record."""
    ctx.save_for_backward(*operands[:2])
    if not is_seen(*operands):
        return product(*operands)
    levels = torch._C._are_functorch_transforms_active()
    with torch.set_grad_enabled(levels), torch._C._AutoDispatchBelowAutograd():
        return op(*operands)


def _in_forward_mode() -> bool:
    """Whether tangents may be asked for (in compiled programs, only functorch's levels show it)."""
    levels = torch._C._functorch.get_interpreter_stack()  # None: it is empty
    jvp = torch._C._functorch.TransformType.Jvp
    return forward_ad._current_level >= 0 or (
        levels is not None and any(x.key() == jvp for x in levels)
    )


def _recorded(function: type[torch.autograd.Function], *operands: Tensor | None) -> Tensor:
    """Apply a function at this level; its own `apply` would start at functorch's outermost one."""
    made: Tensor = super(torch.autograd.Function, function).apply(*operands)
    return made


def differentiate(name: str, stock: Callable[..., Tensor], recorded: Callable[..., Tensor]) -> None:
    """Register an operator's derivatives, FLOPs, and what stands for it where it is not known.

    `stock` computes it by torch's operators, `recorded` so that gradients are recorded.
    """
    op = getattr(torch.ops.falcon, name).default

    def kernel(*operands: Tensor | None) -> Tensor:
        if _in_forward_mode():
            return stock(*operands)
        if torch.is_grad_enabled() and torch._C._any_requires_grad(*operands):
            with enable_single_level_autograd_function():
                return recorded(*operands)
        with torch._C._AutoDispatchBelowAutograd():
            made: Tensor = op(*operands)
        return made

    library.impl(name, kernel, "Autograd")
    register_flop_formula(op.overloadpacket)(_flops)
    torch._decomp.register_decomposition([op])(lambda *operands: stock(*operands))  # for ONNX


def _flops(a: torch.Size, *_: Any, out_shape: torch.Size, **__: Any) -> int:
    return 2 * prod(out_shape) * a[-1]


def multiply(x: Tensor, b: Any, width: int, bias: Tensor | None, **options: Any) -> Tensor:
    """Return ``x @ b + bias``, for a matrix or a packed operand b of so many columns."""
    rows = _matrix(x)
    by_plan = x.is_cuda and isinstance(b, Tensor) and bias is not None
    if by_plan and is_stock(rows, b, **options):
        return functional.linear(x, b.mT, bias).contiguous()  # it adds the bias without a pass
    made = x.new_empty((*x.shape[:-1], width))  # no view: autograd forbids to change these in place
    out = _matrix(made)
    options |= _options(x)
    if bias is None:
        falcon.gemm(rows, b, out=out, **options)
    else:  # on the CPU, copied to all rows first; a pass afterwards is no faster and rounds twice
        falcon.gemm(rows, b, bias.expand(out.shape), beta=1.0, out=out, **options)
    return made


def _matrix(x: Tensor) -> Tensor:
    """Return the rows of all axes as one matrix."""
    return x.reshape(prod(x.shape[:-1]), x.shape[-1])


def linear_now(x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
    """Return `linear` of plain tensors, without recording gradients."""
    check_linear(x, w, bias)
    if _is_for_torch(x, w.shape[0]):
        return functional.linear(x, w, bias).contiguous()
    return _linear_product(x, w, bias)


def _linear_product(x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
    return multiply(x, w.mT, w.shape[0], bias)


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    if _is_batch_for_torch(a, b, check_matmul(a, b)):
        return torch.matmul(a, b).contiguous()
    return _product(a, b)


def _product(a: Tensor, b: Tensor) -> Tensor:
    made: Any
    if a.dtype not in BATCHED or a.is_cuda:
        made = falcon.matmul(a, b, **_options(a))
        return made
    # NumPy's views: for tensors, falcon.matmul takes 6 us longer.
    made = falcon.matmul(a.numpy(force=True), b.numpy(force=True), **_options(a))
    return torch.from_numpy(made)


@torch.library.register_fake("falcon::linear", lib=library)
def fake_linear(x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
    """Return an empty result, for programs that are recorded."""
    check_linear(x, w, bias)
    return x.new_empty((*x.shape[:-1], w.shape[0]))


@torch.library.register_fake("falcon::matmul", lib=library)
def _fake_matmul(a: Tensor, b: Tensor) -> Tensor:
    batch = check_matmul(a, b)
    return a.new_empty((*batch, a.shape[-2], b.shape[-1]))


def _batched(axis: int | None, x: Any, size: int) -> Any:
    """Return an operand with the mapped axis in front."""
    if x is None:
        return None
    return x.expand(size, *x.shape) if axis is None else x.movedim(axis, 0)


def vmap_linear(
    info: Any, axes: tuple, x: Tensor, w: Tensor, bias: Tensor | None
) -> tuple[Tensor, int]:
    """Return the products of a mapped axis, and its place in the result."""
    x = _batched(axes[0], x, info.batch_size)
    if axes[1] is None and axes[2] is None:
        return torch.ops.falcon.linear(x, w, bias), 0
    w, bias = _batched(axes[1], w, info.batch_size), _batched(axes[2], bias, info.batch_size)
    rows = x.reshape(info.batch_size, -1, x.shape[-1])
    made = torch.ops.falcon.matmul(rows, w.mT)
    if bias is not None:
        made = made + bias[:, None]
    return made.reshape((*x.shape[:-1], w.shape[1])), 0


def _vmap_matmul(info: Any, axes: tuple, a: Tensor, b: Tensor) -> tuple[Tensor, int]:
    most = max(x.ndim - (axis is not None) for x, axis in zip((a, b), axes, strict=True))
    a, b = (_batched(axis, x, info.batch_size) for x, axis in zip((a, b), axes, strict=True))
    # Axes that only the other operand has come between the mapped axis and the own ones.
    a, b = (x[(slice(None), *[None] * (most + 1 - x.ndim))] for x in (a, b))
    return torch.ops.falcon.matmul(a, b), 0


for _key in ("CPU", "CUDA"):
    library.impl("linear", linear_now, _key)
    library.impl("matmul", _matmul, _key)
differentiate("linear", functional.linear, partial(_recorded, _Linear))
differentiate("matmul", torch.matmul, partial(_recorded, _Matmul))
torch.library.register_vmap("falcon::linear", vmap_linear, lib=library)
torch.library.register_vmap("falcon::matmul", _vmap_matmul, lib=library)


def _options(x: Tensor) -> dict[str, Any]:
    """Return the options of a product: as many threads as torch uses on the CPU."""
    return {} if x.is_cuda else {"threads": usual_threads()}


def _is_for_torch(x: Tensor, columns: int) -> bool:
    """Whether torch's own product is the faster one, and may be taken."""
    if settings().reproducible == "rows":
        return False
    rows = x.numel() // max(x.shape[-1], 1)
    return rows < LEAST_ROWS or rows * x.shape[-1] * columns < LEAST_PRODUCT


def _is_batch_for_torch(a: Tensor, b: Tensor, batch: tuple[int, ...]) -> bool:
    """Whether torch's own products are the faster ones, and may be taken.

    In float32, torch.bmm is as fast as falcon's engine where few rows share a B by columns, which
    the engine transposes, unless operands are views that torch would copy.
    """
    (M, K), N = a.shape[-2:], b.shape[-1]
    if settings().reproducible == "rows":
        return False
    if a.is_cuda or a.dtype not in BATCHED:
        return M < LEAST_ROWS or M * N * K < LEAST_PRODUCT
    few = 16 < M < 512 and a.dtype is torch.float32 and b.stride(-1) != 1
    if few and a.is_contiguous() and b.mT.is_contiguous():
        return True
    return not does_batch_pay((M, N, K), BATCHED[a.dtype], prod(batch), torch.get_num_threads())
