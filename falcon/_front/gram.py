"""`gram`: ``x.T @ x`` and ``x @ x.T`` with half the work of a general product."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, Unpack, get_args, overload

import numpy as np
import numpy.typing as npt

from falcon._core.dtypes import DType, dtype_of
from falcon._core.keywords import CallOptions, takes_options
from falcon._core.options import KEYWORDS, Options, are_default, settings
from falcon._tools.checks import check_switch

from .adapters import Adapter, adapt_operands
from .arithmetic import check_out, common_type, result_type, scalar_type
from .buffers import without
from .gram_products import FEW_PRODUCTS, FEW_ROWS, STRIP, Products
from .gram_small import by_halves, gram_of_small
from .matmul import matmul
from .planner import resolve_options
from .validate import check_added, check_scalar, check_shape, real_scalar

_STRIP_ELEMENTS = 2**14  # from which means are subtracted at a time, at least
# `centre`, a setting, is of a product's errors; `centred` gives another matrix.
_OPTIONS = tuple(name for name in KEYWORDS if name != "centre")
Part = Literal["full", "lower", "upper"]
_PARTS = get_args(Part)


@overload
def gram(x: np.ndarray, *, transpose: bool = False, conjugate: bool = True, alpha: complex = 1.0,
         beta: complex = 0.0, c: np.ndarray | None = None, out: np.ndarray | None = None,
         symmetric: Part = "full", centred: bool = False, weights: npt.ArrayLike | None = None,
         **options: Unpack[CallOptions]) -> np.ndarray: ...  # fmt: skip
@overload
def gram(x: Any, *, transpose: bool = False, conjugate: bool = True, alpha: complex = 1.0,
         beta: complex = 0.0, c: Any = None, out: Any = None, symmetric: Part = "full",
         centred: bool = False, weights: Any = None,
         **options: Unpack[CallOptions]) -> Any: ...  # fmt: skip
@takes_options(*_OPTIONS)
def gram(
    x: Any,
    *,
    transpose: bool = False,
    conjugate: bool = True,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    c: Any = None,
    out: Any = None,
    symmetric: Part = "full",
    centred: bool = False,
    weights: Any = None,
    **options: Unpack[CallOptions],
) -> Any:
    """Multiply a matrix by its own transpose: ``alpha * x.T @ x + beta * c``, or with weights.

    Parameters
    ----------
    x : array_like, shape (..., K, M)
        Integer, float or complex matrices, any strides; a batch of them has more axes.
    transpose : bool
        ``x @ x.T`` instead, of `x` of shape (..., M, K).
    conjugate : bool
        For complex `x`, compute ``x.conj().T @ x`` (``x @ x.conj().T``), which is Hermitian; False:
        without the conjugate. No effect on real matrices.
    alpha, beta : scalar
        As for `gemm`; real if the result is Hermitian.
    c : array_like, shape (..., M, M), optional
        Symmetric (Hermitian), which is not tested: one of its triangles may be read, or both. Read
        only if `beta` is not zero.
    out : ndarray, shape (..., M, M), optional
        Receives the result; may overlap `x` and `c`.
    symmetric : {"full", "lower", "upper"}
        The triangle to write, including the diagonal. The other one of `out` is left unchanged; in
        a new result it is zero.
    centred : bool
        Subtract the mean of each column of `x` first (of each row, if `transpose`): divided by
        ``K - 1``, the result is the covariance. A mean far larger than the deviations costs no
        accuracy, unlike ``gram(x) - K * mean * mean``. For floats in host memory; takes a copy of
        `x`.
    weights : array_like, shape (..., K), optional
        Real numbers w, of any sign, one per row of `x` (per column, if `transpose`): ``x.T @ (w[:,
        None] * x)``, without that copy of `x`. Broadcast to the batch of `x`. In host memory.
    {options}

    Returns
    -------
    ndarray (or tensor, or GPU array of the caller's library), shape (..., M, M)
        `out`, or a new array of the dtype of `x` (the common one of `x` and `weights`). With
        "full", exactly symmetric (Hermitian), but for GPU arrays and a scheme by name, which then
        multiplies as any other product: up to rounding.

    Raises
    ------
    ValueError, TypeError
        As `gemm`; also for a triangle of arrays in GPU memory, and for weights that are complex, or
        come with ``centred=True`` or a modulus.
    VerificationError
        ``check="verify"`` found the result wrong.

    Notes
    -----
    One triangle is computed, and each tile is copied to the other one while it is in cache; on a
    GPU in tiles, without schemes, and copied at the end. In host memory large matrices are cut into
    halves: the product off the diagonal is an ordinary one, for which "auto" may choose a scheme.
    Errors have the same bound as for `gemm`: ``1.5 growth u sqrt(K) norm(x_i) norm(x_j)``, where
    x_i are columns of `x` (rows, if `transpose`).

    ``falcon.matmul(x.T, x)`` and ``falcon.gemm(x.T, x)`` detect the shared memory and do the same,
    on a GPU from 2048 columns on.
    Complex matrices need two real Gram matrices and one real product, half of a complex product;
    small ones are multiplied as any others, and mirrored, or by one real Gram matrix of all parts.

    With weights, all is classical unless a scheme is named. falcon's kernels of float32, float64
    and complex numbers of these multiply by `weights` while they pack; other types, and NumPy's
    BLAS, take a panel of weighted rows at a time, and no less work than a general product.

    Matrices of up to 128^3, and batches of them, with weights, `c`, a triangle or complex numbers,
    are multiplied as any others, by a copy with weights, unless an option or setting is given; the
    result is then made symmetric.

    See also docs/gram.md.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> x = np.arange(6.0).reshape(3, 2)
    >>> falcon.gram(x).tolist()
    [[20.0, 26.0], [26.0, 35.0]]
    >>> falcon.gram(x, centred=True, alpha=1 / 2).tolist()  # np.cov(x, rowvar=False)
    [[4.0, 4.0], [4.0, 4.0]]
    """
    if symmetric not in _PARTS:
        raise ValueError(f"symmetric is {symmetric!r}; expected one of {', '.join(_PARTS)}")
    how = symmetric, transpose, conjugate
    if not (options or centred):
        done = _plain(x, c, out, weights, alpha, beta, how)
        if done is not None:
            return done
    check_added(beta, c)
    adapter, x, c, target, weights = adapt_operands(x=x, c=c, out=out, weights=weights)
    chosen = resolve_options("gram", _OPTIONS, options, adapter.device)
    array = adapter.array("x", x)
    shape, axis = _shape(adapter, array, symmetric, transpose)
    added = None if c is None else adapter.array("c", c)
    check_shape("c", added, shape)
    if beta == 0:
        added = None
    if weights is not None:
        weights = _checked(adapter, weights, (*array.shape[:-2], array.shape[axis]), chosen)
    read = {"x": array, "c": added, "weights": weights}
    read = {name: y for name, y in read.items() if y is not None}
    dtype = common_type(adapter, read.values())
    if dtype.is_exact and chosen.overflow != "wrap":
        dtype = _of_checked(adapter, read, target, array.shape[axis], chosen)
        array = array.astype(dtype.numpy, copy=False)
    if check_switch("centred", centred):
        array, chosen = _without_means(adapter, array, weights, dtype, axis, chosen)
    hermitian = dtype.is_complex and conjugate
    checked = _scalars(adapter, dtype, hermitian, chosen)
    alpha, beta = checked("alpha", alpha), checked("beta", beta)
    if beta == 0:  # rounded to it
        added = None
    target = None if out is None else adapter.target(target)
    if target is not None:
        check_out(adapter, target, shape, dtype)
    with adapter.current():
        if target is None:
            result = adapter.empty(shape, dtype, [array])
            if symmetric != "full":
                result[...] = 0
        else:
            result = target
            array, added, chosen = _apart(adapter, array, added, result, dtype, symmetric, chosen)
        products = Products(adapter, dtype, chosen, alpha, beta, symmetric, transpose, hermitian)
        products.multiply_all(array, added, result, weights)
    return adapter.wrap(result) if out is None else out


def _scalars(
    adapter: Adapter, dtype: DType, hermitian: bool, chosen: Options
) -> Callable[[str, Any], Any]:
    """Return what checks a factor of a product of this type by name, and rounds it."""
    if hermitian:
        return partial(real_scalar, dtype=np.dtype(dtype.numpy.char.lower()))
    whole, kind = chosen.overflow != "wrap", scalar_type(adapter, dtype).numpy
    return partial(check_scalar, dtype=kind, whole=whole)


def _of_checked(
    adapter: Adapter, read: dict[str, Any], target: Any, terms: int, chosen: Options
) -> DType:
    """Return the type of products of integers whose overflow is looked for, of so many terms."""
    if "weights" in read:
        raise ValueError(f"overflow={chosen.overflow!r} takes no weights; multiply x by them")
    terms = terms if chosen.overflow == "widen" else 0
    return result_type(adapter, read, None, target, None, terms)


def _plain(
    x: Any, c: Any, out: Any, weights: Any, alpha: Any, beta: Any, how: tuple[str, bool, bool]
) -> Any:
    """Multiply as `matmul` does, or a small matrix, of a call without options; None: neither."""
    symmetric, transpose, conjugate = how
    is_default = are_default()
    is_product = c is None and type(alpha) is type(beta) is float and (alpha, beta) == (1, 0)
    if is_product and symmetric == "full" and weights is None:
        is_real = _is_real(x) and (out is None or type(out) is np.ndarray)
        if is_real and (is_default or _are_alike(settings())):
            return matmul(x, x.T, out) if transpose else matmul(x.T, x, out)  # recalls its calls
        if is_default and out is None and _is_small_complex(x, transpose):
            return by_halves(x, transpose, conjugate)
    if is_default and (beta == 0) == (c is None):
        return gram_of_small(x, c, out, weights, alpha, beta, how)
    return None


def _shape(
    adapter: Adapter, x: Any, symmetric: str, transpose: bool
) -> tuple[tuple[int, ...], int]:
    """Return the shape of the result, and the axis of x that is summed."""
    if symmetric != "full" and adapter.device is not None:
        raise ValueError(f"symmetric is {symmetric!r}, but on a GPU all of C is written")
    if len(x.shape) < 2:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected a matrix, or a batch of them")
    M = x.shape[-2] if transpose else x.shape[-1]
    return (*x.shape[:-2], M, M), -1 if transpose else -2


def _apart(
    adapter: Adapter, x: Any, c: Any, out: Any, dtype: DType, symmetric: str, options: Options
) -> tuple[Any, Any, Options]:
    """Return x and c, copied if they must be, and the options beside the copies.

    An earlier product of a batch may overwrite what a later one reads, and the copy of a triangle
    what it still has to copy.
    """
    is_batch = len(out.shape) > 2
    if not is_batch and symmetric == "full":
        return x, c, options
    written, read = adapter.matrix(out), adapter.matrix(x)
    if is_batch and written.overlaps(read):
        options, x = without(options, read.shape, dtype), _copy(adapter, x, dtype)
    read = written if c is None else adapter.matrix(c)
    if written.overlaps(read) and not written.is_same(read):
        options, c = without(options, out.shape, dtype), _copy(adapter, c, dtype)
    return x, c, options


def _checked(
    adapter: Adapter, weights: Any, shape: tuple[int, ...], options: Options
) -> np.ndarray:
    """Return weights broadcast to a shape; raise unless they are real, in host memory, and fit."""
    if adapter.device is not None or options.modulus is not None:
        what = "x is in GPU memory" if adapter.device is not None else "products are modulo p"
        raise ValueError(f"weights are given, but {what}; multiply x by them first")
    array = adapter.array("weights", weights)
    if array.dtype.kind == "c":
        raise TypeError(f"weights are of {array.dtype}; expected real numbers")
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"weights have shape {array.shape}; expected {shape}") from None


def _without_means(
    adapter: Adapter, x: np.ndarray, weights: Any, dtype: DType, axis: int, options: Options
) -> tuple[np.ndarray, Options]:
    """Return a copy of matrices without the means along an axis, and the options beside it.

    Means of float32 and less are of float64. Others are subtracted in two steps: sums of what the
    first one leaves are precise, however large a mean is.
    """
    if weights is not None:
        raise ValueError("centred is True, but there are weights; subtract means of x first")
    if adapter.device is not None:
        raise ValueError("centred is True, but x is in GPU memory; subtract x.mean(axis) first")
    if dtype.is_exact:
        raise TypeError(f"centred is True, but x is of {dtype}, whose means are no such numbers")
    if not x.size:
        return x, options
    wide = np.dtype(np.float32) if dtype.itemsize < 4 else dtype.numpy
    for kind in dict.fromkeys((dtype_of(wide), dtype)):
        options = without(options, x.shape, kind)
    sums = np.result_type(wide, np.float64)
    left = np.empty(x.shape, wide)
    step = max(STRIP, _STRIP_ELEMENTS // x.shape[-1])
    strips = [(..., slice(i, i + step), slice(None)) for i in range(0, x.shape[-2], step)]
    with np.errstate(all="ignore"):
        for some in [[y] for y in strips] if axis == -1 else [strips]:  # that share their means
            for read in (x, left) if sums == wide else (x,):
                means = _means([read[strip] for strip in some], axis, sums)
                high = means.astype(wide)
                for strip in some:
                    np.subtract(read[strip], high, out=left[strip], casting="unsafe")
                    if sums != wide:
                        left[strip] -= (means - high).astype(wide)
    return left.astype(dtype.numpy, copy=False), options


def _means(parts: list[np.ndarray], axis: int, kind: np.dtype, factor: float = 1) -> np.ndarray:
    """Return the means along an axis of all parts, from sums of elements times a factor.

    Where such a sum overflows, the factor becomes a power of two, which rounds nothing.
    """
    length = sum(x.shape[axis] for x in parts)
    read = parts if factor == 1 else (np.multiply(x, kind.type(factor), dtype=kind) for x in parts)
    means = np.ascontiguousarray(sum(x.sum(axis, kind, keepdims=True) for x in read))
    real = means.view(means.real.dtype)  # complex quotients are rounded twice
    real /= length * factor
    is_finite = np.isfinite(means)
    if factor != 1 or is_finite.all():
        return means
    return np.where(is_finite, means, _means(parts, axis, kind, 0.5 ** length.bit_length()))


def _is_real(x: Any) -> bool:
    """Whether it is a real matrix of NumPy's, which `matmul` by its transpose multiplies alike."""
    return type(x) is np.ndarray and x.ndim == 2 and x.dtype.kind in "fiu"


def _are_alike(options: Options) -> bool:
    """Whether `matmul` by the transpose multiplies as `gram` does; see `Problem`'s `symmetric`."""
    return options.scheme in ("auto", "classical") and options.reproducible != "rows"


def _is_small_complex(x: Any, transpose: bool) -> bool:
    """Whether `by_halves` multiplies it fastest."""
    if not (type(x) is np.ndarray and x.ndim == 2 and x.size and x.dtype.char in "FD"):
        return False
    K, M = x.shape[:: -1 if transpose else 1]
    return bool(M <= FEW_ROWS and M * M * K <= FEW_PRODUCTS and x.dtype.isnative)


def _copy(adapter: Adapter, x: Any, dtype: DType) -> Any:
    made = adapter.empty(tuple(x.shape), dtype)
    adapter.copy(x, made)
    return made
