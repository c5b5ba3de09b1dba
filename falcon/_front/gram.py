"""`gram`: ``x.T @ x`` and ``x @ x.T`` with half the work of a general product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack, get_args, overload

import numpy as np

from falcon._core.checks import check_switch
from falcon._core.dtypes import DType, of
from falcon._core.keywords import CallOptions, takes_options
from falcon._core.options import KEYWORDS, Options, are_default
from falcon._core.symmetric import copy_triangle
from falcon._numpy.original import quiet_matmul

from .adapters import Adapter, enter
from .arithmetic import check_out, common_type, scalar_type
from .execute import Product, multiply, without
from .matmul import matmul
from .planner import requested
from .validate import check_added, check_shape, real_scalar, scalar

Part = Literal["full", "lower", "upper"]
_PARTS = get_args(Part)
# Complex matrices of so few rows, or so few products M^2 K, are multiplied as any others: then half
# of the operations is less than the passes over C between real products (Zen 4, 2 threads: equal
# at K = 60 to 100 for M = 1000, and at M = K = 180 to 300).
_FEW_ROWS, _FEW_PRODUCTS = 64, 8e6
_STRIP = 128  # rows that are mirrored at a time
# Of rows of products with real and with imaginary parts, in their sum.
_FACTORS = {(x, y): np.array([1, -1j if y else 1j], x) for x in "FD" for y in (False, True)}


@overload
def gram(x: np.ndarray, *, transpose: bool = False, conjugate: bool = True, alpha: complex = 1.0,
         beta: complex = 0.0, c: np.ndarray | None = None, out: np.ndarray | None = None,
         symmetric: Part = "full", centred: bool = False,
         **options: Unpack[CallOptions]) -> np.ndarray: ...  # fmt: skip
@overload
def gram(x: Any, *, transpose: bool = False, conjugate: bool = True, alpha: complex = 1.0,
         beta: complex = 0.0, c: Any = None, out: Any = None, symmetric: Part = "full",
         centred: bool = False, **options: Unpack[CallOptions]) -> Any: ...  # fmt: skip
@takes_options(*KEYWORDS)
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
    **options: Unpack[CallOptions],
) -> Any:
    """Multiply a matrix by its own transpose: ``alpha * x.T @ x + beta * c``.

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
    {options}

    Returns
    -------
    ndarray (or tensor, or GPU array of the caller's library), shape (..., M, M)
        `out`, or a new array of `x`'s dtype. With "full", exactly symmetric (Hermitian), but for
        GPU arrays, which are multiplied as any others: up to rounding.

    Raises
    ------
    ValueError, TypeError
        As `gemm`; also for a triangle of arrays in GPU memory.
    VerificationError
        ``check="verify"`` found the result wrong.

    Notes
    -----
    One triangle is computed, and each tile is copied to the other one while it is in cache. Large
    matrices are cut into halves: the product off the diagonal is an ordinary one, for which "auto"
    may choose an LCMA. Errors have the same bound as for `gemm`: ``1.5 growth u sqrt(K) norm(x_i)
    norm(x_j)``, where x_i are columns of `x` (rows, if `transpose`).

    ``falcon.matmul(x.T, x)`` and ``falcon.gemm(x.T, x)`` detect the shared memory and do the same.
    Complex matrices need two real Gram matrices and one real product, half of a complex product;
    small ones are multiplied as any others, and mirrored, or by one real Gram matrix of all parts.

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
    plain_call = c is None and type(alpha) is type(beta) is float and (alpha, beta) == (1, 0)
    plain_call = plain_call and symmetric == "full" and not (options or centred) and are_default()
    if plain_call and _is_real(x) and (out is None or type(out) is np.ndarray):
        return matmul(x, x.T, out) if transpose else matmul(x.T, x, out)  # recalls its calls
    if plain_call and out is None and _is_small_complex(x, transpose):
        return _by_halves(x, transpose, conjugate)
    check_added(beta, c)
    adapter, x, c, target = enter(x=x, c=c, out=out)
    chosen = requested("gram", KEYWORDS, options, adapter.device)
    array = adapter.array("x", x)
    if symmetric != "full" and adapter.device is not None:
        raise ValueError(f"symmetric is {symmetric!r}, but on a GPU all of C is written")
    if len(array.shape) < 2:
        raise ValueError(f"x has shape {tuple(array.shape)}; expected a matrix, or a batch of them")
    M = array.shape[-2] if transpose else array.shape[-1]
    shape = (*array.shape[:-2], M, M)
    added = None if c is None else adapter.array("c", c)
    check_shape("c", added, shape)
    if beta == 0:
        added = None
    dtype = common_type(adapter, [array] if added is None else [array, added])
    if check_switch("centred", centred):
        axis = -1 if transpose else -2
        array, chosen = _without_means(adapter, array, dtype, axis, chosen)
    hermitian = dtype.is_complex and conjugate
    kind = np.dtype(dtype.numpy.char.lower()) if hermitian else scalar_type(adapter, dtype).numpy
    checked = real_scalar if hermitian else scalar
    alpha, beta = (checked(name, v, kind) for name, v in (("alpha", alpha), ("beta", beta)))
    if beta == 0:  # rounded to it
        added = None
    target = None if out is None else adapter.target(target)
    if target is not None:
        check_out(adapter, target, shape, dtype)
    with adapter.current():
        fresh = target is None
        result = adapter.empty(shape, dtype, [array]) if target is None else target
        if fresh and symmetric != "full":
            result[...] = 0
        # An earlier product of a batch may overwrite what a later one reads, and the copy of a
        # triangle what it still has to copy.
        if not fresh and (len(shape) > 2 or symmetric != "full"):
            written, read = adapter.matrix(result), adapter.matrix(array)
            if len(shape) > 2 and written.overlaps(read):
                chosen, array = without(chosen, read.shape, dtype), _copy(adapter, array, dtype)
            read = written if added is None else adapter.matrix(added)
            if written.overlaps(read) and not written.is_same(read):
                chosen, added = without(chosen, shape, dtype), _copy(adapter, added, dtype)
        products = _Products(adapter, dtype, chosen, alpha, beta, symmetric, transpose, hermitian)
        if products.is_small(array) or not dtype.is_complex or alpha == 0:
            products.multiply(array, added, result)
        else:
            for at in np.ndindex(*shape[:-2]):
                products.multiply(array[at], None if added is None else added[at], result[at])
    return adapter.wrap(result) if out is None else out


def _without_means(
    adapter: Adapter, x: np.ndarray, dtype: DType, axis: int, options: Options
) -> tuple[np.ndarray, Options]:
    """Return a copy of matrices without the means along an axis, and the options beside it.

    In two steps: sums of what the first one leaves are precise, however large a mean is.
    """
    if adapter.device is not None:
        raise ValueError("centred is True, but x is in GPU memory; subtract x.mean(axis) first")
    if dtype.is_exact:
        raise TypeError(f"centred is True, but x is of {dtype}, whose means are no such numbers")
    wide = np.dtype(np.float32) if dtype.itemsize < 4 else dtype.numpy
    for kind in dict.fromkeys((of(wide), dtype)):
        options = without(options, x.shape, kind)
    left, length = np.empty(x.shape, wide), max(x.shape[axis], 1)
    strips = [(..., slice(i, i + _STRIP), slice(None)) for i in range(0, x.shape[-2], _STRIP)]
    with np.errstate(all="ignore"):
        if axis == -1:  # of each strip alone
            for strip in strips:
                np.copyto(left[strip], x[strip], casting="unsafe")
                for _ in range(2):
                    left[strip] -= left[strip].sum(axis, keepdims=True) / length
        else:
            first, rest = (np.zeros((*x.shape[:-2], 1, x.shape[-1]), wide) for _ in range(2))
            for strip in strips:
                first += x[strip].sum(axis, wide, keepdims=True) / length
            for strip in strips:
                np.subtract(x[strip], first, out=left[strip], casting="unsafe")
                rest += left[strip].sum(axis, keepdims=True) / length
            for strip in strips:
                left[strip] -= rest
    return left.astype(dtype.numpy, copy=False), options


def _is_real(x: Any) -> bool:
    """Whether it is a real matrix of NumPy's, which `matmul` by its transpose multiplies alike."""
    return type(x) is np.ndarray and x.ndim == 2 and x.dtype.kind in "fiu"


def _is_small_complex(x: Any, transpose: bool) -> bool:
    """Whether `_by_halves` multiplies it fastest."""
    if not (type(x) is np.ndarray and x.ndim == 2 and x.size and x.dtype.char in "FD"):
        return False
    K, M = x.shape[:: -1 if transpose else 1]
    return bool(M <= _FEW_ROWS and M * M * K <= _FEW_PRODUCTS and x.dtype.isnative)


def _by_halves(x: np.ndarray, transpose: bool, hermitian: bool) -> np.ndarray:
    """Multiply real and imaginary parts as columns of one real matrix, and add up its entries.

    The real product is symmetric to the last bit, so that the result is symmetric, or Hermitian.
    """
    columns = np.ascontiguousarray(x.T if transpose else x).view(x.dtype.char.lower())
    product = matmul(columns.T, columns)  # recalls its calls
    M = len(product) // 2
    out = np.empty((M, M), x.dtype)
    rows, factors = product.view(x.dtype).reshape(M, 2, M), _FACTORS[x.dtype.char, hermitian]
    quiet_matmul(factors, rows, out.T if transpose else out)
    return out


def _copy(adapter: Adapter, x: Any, dtype: DType) -> Any:
    made = adapter.empty(tuple(x.shape), dtype)
    adapter.copy(x, made)
    return made


@dataclass(frozen=True, slots=True)
class _Products:
    """What is the same for all matrices of a batch."""

    adapter: Adapter
    dtype: DType
    options: Options
    alpha: Any
    beta: Any
    symmetric: str
    transpose: bool
    hermitian: bool

    def multiply(self, x: np.ndarray, c: np.ndarray | None, out: np.ndarray) -> None:
        if self.dtype.is_complex and self.alpha != 0:
            self._complex(x, c, out)
            return
        across = x.swapaxes(-1, -2)
        a, b = (x, across) if self.transpose else (across, x)
        whole = Product(
            *(self.adapter, a, b, c, out, self.dtype, self.dtype, self.options),
            *(self.alpha, self.beta),
            symmetric=self.symmetric,
        )
        elsewhere = self.options.check == "verify" or a.shape[-1] == 0 or self.alpha == 0
        if self.symmetric == "full" or not elsewhere:
            multiply(whole)
            return
        # Freivalds' test, and beta * c alone, need all of C.
        options = without(self.options, out.shape, self.dtype)
        full = self.adapter.empty(out.shape, self.dtype)
        multiply(replace(whole, out=full, options=options, symmetric="full"))
        copy_triangle(full, out, self.symmetric)

    def _complex(self, x: np.ndarray, c: np.ndarray | None, out: np.ndarray) -> None:
        x = x if x.dtype == self.dtype.numpy else x.astype(self.dtype.numpy)
        options = without(self.options, out.shape, of(x.real.dtype))  # for P'Q
        written, *read = (self.adapter.matrix(y) for y in (out, x, c) if y is not None)
        overlaps = any(written.overlaps(y) for y in read)
        if self.symmetric == "full" and written.holds(self.dtype) and not overlaps:
            full = out
        else:
            options = without(options, out.shape, self.dtype)
            full = np.empty(out.shape, self.dtype.numpy)
        if self.is_small(x):
            self._by_complex(x, full)
        else:
            self._by_real(x, full, options)
        with np.errstate(all="ignore"):
            if self.alpha != 1:
                np.multiply(full, self.alpha, out=full)
            if c is not None:
                full += self.beta * c
        if self.symmetric != "full":
            copy_triangle(full, out, self.symmetric)
        elif full is not out:
            self.adapter.copy(full, out)

    def is_small(self, x: np.ndarray) -> bool:
        """Whether complex matrices are so small that one complex product is the faster way."""
        options, (K, M) = self.options, x.shape[-2:][:: -1 if self.transpose else 1]
        if not self.dtype.is_complex or self.alpha == 0 or 0 in x.shape:
            return False
        able = options.scheme in ("auto", "classical") and options.check != "verify"
        able = able and options.workspace_limit is options.modulus is None
        return able and (K <= _FEW_ROWS or M * M * K <= _FEW_PRODUCTS)

    def _by_complex(self, x: np.ndarray, out: np.ndarray) -> None:
        """Multiply as any other matrices, and copy one triangle to the other."""
        across = x.swapaxes(-1, -2)
        turned = across.conj() if self.hermitian else across
        a, b = (x, turned) if self.transpose else (turned, x)
        multiply(Product(self.adapter, a, b, None, out, self.dtype, self.dtype, self.options))
        across, size = out.swapaxes(-1, -2), out.shape[-1]
        with np.errstate(all="ignore"):
            for start in range(0, size, _STRIP):
                strip = ..., slice(start, start + _STRIP), slice(start, size)
                below = across[strip].conj() if self.hermitian else across[strip]
                np.copyto(out[strip], below, where=np.tri(*below.shape[-2:]) == 0)
            if self.hermitian:
                diagonal = out.imag.diagonal(axis1=-2, axis2=-1)
                diagonal.flags.writeable = True
                diagonal -= diagonal  # NaN and Inf leave NaN

    def _by_real(self, x: np.ndarray, full: np.ndarray, options: Options) -> None:
        """Compute P'P + Q'Q and P'Q - Q'P for x = P + iQ; unconjugated: P'P - Q'Q, P'Q + Q'P."""
        kind = of(x.real.dtype)
        real = replace(self, dtype=kind, options=options, alpha=1, beta=0, symmetric="full")
        real.multiply(x.real, None, full.real)
        sign = 1 if self.hermitian else -1
        replace(real, alpha=sign, beta=1).multiply(x.imag, full.real, full.real)
        a, b = (x.real, x.imag.T) if self.transpose else (x.real.T, x.imag)
        mixed = self.adapter.empty(full.shape, kind)
        multiply(Product(self.adapter, a, b, None, mixed, kind, kind, options))
        with np.errstate(all="ignore"):
            if not self.hermitian:
                np.add(mixed, mixed.T, out=full.imag)
            elif self.transpose:
                np.subtract(mixed.T, mixed, out=full.imag)
            else:
                np.subtract(mixed, mixed.T, out=full.imag)
