"""`scaled_matmul` and `quantize`: float8 operands with a scale per row of A and column of B."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from math import prod
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from falcon._core.dtypes import BFLOAT16, FLOAT8, FLOAT16, FLOAT32, DType, find_torch
from falcon._core.keywords import CallOptions, takes_options
from falcon._core.options import KEYWORDS
from falcon._core.packed import PackedOperand
from falcon._core.where import is_on_gpu

from .adapters import Adapter, adapt_operands
from .arithmetic import check_out
from .buffers import without
from .matmul import matmul
from .planner import resolve_options
from .validate import matmul_shape, type_named

_OPTIONS = tuple(name for name in KEYWORDS if name != "modulus")
_RESULTS = FLOAT32, BFLOAT16, FLOAT16
_LEAST_SCALE, _MOST_SCALE = map(float, (np.finfo(np.float32).tiny, np.finfo(np.float32).max))
# Entries of the result that are scaled while they are in cache.
_STRIP = 2**16
_NUMBER = int | float | np.integer | np.floating


@takes_options(*_OPTIONS)
def scaled_matmul(
    a: Any,
    b: Any,
    scale_a: Any = 1.0,
    scale_b: Any = 1.0,
    *,
    out: Any = None,
    dtype: Any = None,
    **options: Unpack[CallOptions],
) -> Any:
    """Multiply float8 matrices with scales: ``(scale_a * a) @ (scale_b * b)``.

    Parameters
    ----------
    a : array, shape (..., M, K)
    b : array or PackedOperand, shape (..., K, N)
        Of float8_e4m3fn, float8_e5m2 or bfloat16, also one of each, any strides: arrays of
        ml_dtypes' types, or torch tensors, in host memory or on one GPU. Batches are broadcast. A
        packed operand is ``falcon.pack(b, dtype="float32")`` of such a matrix.
    scale_a, scale_b : number or array_like, optional
        One for all, or a shape that broadcasts to (..., M, 1), and to (..., 1, N): a scale per row
        of `a` and per column of `b`. They are rounded to float32.
    out : ndarray, shape (..., M, N), optional
        Receives the result; of float32, bfloat16 or float16. May overlap any operand.
    dtype : dtype, optional
        One of these; default: that of `out`, else bfloat16.
    {options}

    Returns
    -------
    ndarray (or tensor, or GPU array of the caller's library), shape (..., M, N)

    Raises
    ------
    ValueError, TypeError
        As `matmul`; also for operands, scales and results of other shapes and types.
    VerificationError
        ``check="verify"`` found the unscaled product wrong.

    Notes
    -----
    Operands are converted to bfloat16, which holds every float8 number, and their products are
    summed in float32. Results are ``(sums * scale_a) * scale_b``, in float32, and are rounded once.
    Errors are those of bfloat16 to float32, times both scales: ``falcon.plan`` of converted
    operands, ``dtype="float32"``, says which scheme runs, and bounds them. Besides the result, the
    call takes 2 bytes per entry of float8 operands, and 4 per entry of a result that is not
    float32.

    See also docs/types.md.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> a, scale_a = falcon.quantize(np.eye(3))
    >>> b, scale_b = falcon.quantize(np.arange(9.0).reshape(3, 3), axis=0)
    >>> falcon.scaled_matmul(a, b, scale_a, scale_b).astype(int).tolist()
    [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    """
    wide, converted = {}, []
    for name, x in (("a", a), ("b", b)):
        wide[name], shape = widened(x)
        converted += [] if shape is None else [shape]
    scales = {"scale_a": scale_a, "scale_b": scale_b}
    arrays = {k: None if isinstance(x, _NUMBER) else x for k, x in scales.items()}
    adapter, left, right, *others, target = adapt_operands(**wide, **arrays, out=out)
    chosen = resolve_options("scaled_matmul", _OPTIONS, options, adapter.device)
    for name, x in (("a", left), ("b", right)):
        if not isinstance(x, PackedOperand):
            _check_operand(adapter, name, x)
        elif name == "a":
            raise TypeError("a is a PackedOperand; expected an array")
    batch, kept = matmul_shape(tuple(left.shape), tuple(right.shape), None)
    shape = (*batch, *kept)
    target = None if out is None else adapter.target(target)
    row = _result(adapter, target, dtype)
    if target is not None:
        check_out(adapter, target, shape, row)
    halves = sum(map(prod, converted)) + (0 if row is FLOAT32 else 2 * prod(shape))
    chosen = without(chosen, (halves,), BFLOAT16)
    options["workspace_limit"] = chosen.workspace_limit
    with adapter.current(), np.errstate(all="ignore"):
        sizes = (*batch, shape[-2], 1), (*batch, 1, shape[-1])
        given = zip(scales.items(), others, sizes, strict=True)
        factors = [_factor(adapter, k, v if x is None else x, size) for (k, v), x, size in given]
        sums = target if row is FLOAT32 else None
        sums = matmul(left, right, sums, dtype="float32", **options)
        made = adapter.empty(shape, row) if target is None and row is not FLOAT32 else target
        _scale(adapter, sums, factors, sums if row is FLOAT32 else made)
    return out if out is not None else adapter.wrap(sums if made is None else made)


def quantize(
    x: Any, *, dtype: npt.DTypeLike = "float8_e4m3fn", axis: int | tuple[int, ...] | None = -1
) -> tuple[Any, Any]:
    """Return float8 values and float32 scales: ``x`` is about ``values * scales``.

    Parameters
    ----------
    x : array_like
        Integers or floats, which are rounded to float32 (unless float32 has no number as large); a
        torch tensor on any device.
    dtype : dtype, optional
        float8_e4m3fn (4 significant bits) or float8_e5m2 (3 bits, a wider range).
    axis : int, tuple of int or None
        Along which a scale is shared: -1 for rows, as of an A, -2 for columns, as of a B; None: one
        scale for all.

    Returns
    -------
    values : ndarray or tensor of `dtype`, shape of `x`
    scales : ndarray or tensor of float32
        Of as many axes as `x`, with 1 element along `axis`.

    Raises
    ------
    ValueError, TypeError
        `x` is complex, no array, or in GPU memory but not of torch; `dtype` is no such type; `x`
        has no such axis; a scale would not be a number of float32.

    Notes
    -----
    The largest finite magnitude becomes the largest number of `dtype`, 448 or 57344, but scales are
    never below 2^-126: those of zeros are that. NaN stays NaN; Inf too, but in float8_e4m3fn, which
    has no Inf, it becomes NaN. Neither changes a scale. No gradients.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> values, scales = falcon.quantize(np.array([[-1.0, 448.0], [0.5, 0.25]]))
    >>> scales.tolist(), values.tolist()
    ([[1.0], [0.0011160714784637094]], [[-1.0, 448.0], [448.0, 224.0]])
    """
    row = _float8(dtype)
    if _is_torch(x):
        xp: Any = sys.modules["torch"]
        known = find_torch(str(x.dtype))
        if known is None or known.is_complex:
            raise TypeError(f"x has dtype {x.dtype}; expected integers or floats")
        given, wrap = x.detach(), None
        wide = given.to(xp.float32)
    elif is_on_gpu(x):
        raise TypeError(f"x is a {type(x).__name__} in GPU memory; expected a torch tensor there")
    else:
        xp = np
        adapter, x = adapt_operands(x=x)
        given, wrap = adapter.array("x", x), adapter.wrap
        known = adapter.dtype(given)
        if known.is_complex:
            raise TypeError(f"x has dtype {given.dtype}; expected integers or floats")
        with np.errstate(all="ignore"):
            wide = given.astype(np.float32, copy=False)
    if known.itemsize > 4 and bool((xp.isinf(wide) & xp.isfinite(given)).any()):
        wide = given  # scales may be numbers of float32
    n = len(wide.shape)
    axes = tuple(range(n)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    for i in axes:
        if not isinstance(i, int | np.integer) or not -n <= i < n:
            raise ValueError(f"axis is {axis!r}; expected axes of x, of shape {tuple(wide.shape)}")
    with np.errstate(all="ignore"):
        finite = xp.isfinite(wide)
        sizes = xp.where(finite, xp.abs(wide), xp.zeros_like(wide))
        largest = xp.sum if 0 in wide.shape else xp.amax  # sums of nothing are 0
        scales = largest(sizes, axis=axes, keepdims=True) / float(row.finfo.max)
        scales = scales.clip(_LEAST_SCALE, None)
        if bool((scales > _MOST_SCALE).any()):
            raise ValueError(f"x has numbers up to {sizes.max():.3g}, whose scale float32 hasn't")
        scales = scales.to(xp.float32) if wrap is None else scales.astype(np.float32, copy=False)
        values = wide / scales
        if row is FLOAT8["float8_e4m3fn"]:  # has no Inf, for which torch takes its largest number
            values = xp.where(finite, values, float("nan"))
        if wrap is None:
            return values.to(getattr(xp, row.name)), scales
        return wrap(values.astype(row.numpy)), wrap(scales)


def widened(x: Any) -> tuple[Any, tuple[int, ...] | None]:
    """Return a float8 array as bfloat16, exactly, and its shape; all else as it is, and None."""
    row = FLOAT8.get(str(getattr(x, "dtype", "")).removeprefix("torch."))
    if row is None:
        return x, None
    if _is_torch(x):
        return x.to(sys.modules["torch"].bfloat16), tuple(x.shape)
    if type(x) is not np.ndarray:
        return x.astype(BFLOAT16.numpy), tuple(x.shape)
    codes, table = x.view(np.uint8), _table(row)
    made = np.empty_like(codes, np.uint16)
    flags: Any = ["external_loop", "buffered", "zerosize_ok"]
    with np.nditer([codes, made], flags, [["readonly"], ["writeonly"]], buffersize=_STRIP) as parts:
        for part, out in parts:
            np.take(table, part, out=out, mode="clip")
    return made.view(BFLOAT16.numpy), x.shape


def _float8(dtype: Any) -> DType:
    """Return the row of a float8 type by whatever names it."""
    name = str(dtype).removeprefix("torch.")
    with suppress(TypeError):
        name = np.dtype(dtype).name
    if name not in FLOAT8:
        raise TypeError(f"dtype is {dtype!r}; expected {' or '.join(FLOAT8)}")
    return FLOAT8[name]


@cache
def _table(row: DType) -> np.ndarray:
    """Return bfloat16's code of each of the 256 float8 numbers."""
    return np.arange(256, dtype=np.uint8).view(row.numpy).astype(BFLOAT16.numpy).view(np.uint16)


def _is_torch(x: Any) -> bool:
    tensor: Any = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and isinstance(x, tensor)


def _check_operand(adapter: Adapter, name: str, x: Any) -> None:
    found = getattr(x, "dtype", None)
    if str(found).removeprefix("torch.") != BFLOAT16.name:
        got = f"is a {type(x).__name__}" if found is None else f"has dtype {found}"
        raise TypeError(f"{name} {got}; expected {', '.join(FLOAT8)} or bfloat16")
    if len(x.shape) < 2:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; expected a matrix, or a batch")


def _result(adapter: Adapter, out: Any, dtype: Any) -> DType:
    """Return the type of the result."""
    known = None if out is None else adapter.dtype(out)
    row = type_named(dtype) if dtype is not None else BFLOAT16 if out is None else known
    expected = " or ".join(x.name for x in _RESULTS)
    if row not in _RESULTS:
        got = f"out has dtype {out.dtype}" if dtype is None else f"dtype is {dtype!r}"
        raise TypeError(f"{got}; expected {expected}")
    if out is not None and known is not row:
        raise TypeError(f"out has dtype {out.dtype}, but dtype={row}")
    assert row is not None  # for type checkers
    return row


def _factor(adapter: Adapter, name: str, x: Any, shape: tuple[int, ...]) -> Any:
    """Return a scale: a number, or a copy of an array in float32 that broadcasts to `shape`."""
    if isinstance(x, _NUMBER):
        return float(np.float32(x))
    x = adapter.array(name, x)
    row = adapter.dtype(x)
    if row is None or row.is_complex:
        raise TypeError(f"{name} has dtype {x.dtype}; expected real numbers")
    found, fits = tuple(x.shape), False
    with suppress(ValueError):
        fits = np.broadcast_shapes(found, shape) == shape
    if not fits:
        raise ValueError(
            f"{name} has shape {found}; expected a number or what broadcasts to {shape}"
        )
    made = adapter.empty(found, FLOAT32)
    adapter.copy(x, made)
    return made


def _scale(adapter: Adapter, sums: Any, factors: list[Any], out: Any) -> None:
    """Multiply sums by factors, and write them to `out`; on the host, in strips of rows."""
    rows, columns = sums.shape[-2:]
    step = rows or 1
    if adapter.device is None:
        step = max(1, _STRIP // max(1, prod(sums.shape[:-2]) * columns))
    for i in range(0, rows, step):
        strip = (..., slice(i, i + step), slice(None))
        part = sums[strip]
        for x in factors:
            if isinstance(x, float):
                if x != 1:
                    part *= x
            else:
                part *= x[strip] if len(x.shape) > 1 and x.shape[-2] > 1 else x
        if out is not sums:
            adapter.copy(part, out[strip])
